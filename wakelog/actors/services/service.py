"""The base of every service: attach, calls of the right epoch only, release, and statistics.

A service is one actor, or one object of a deployment in one process. A subclass opens what it needs
in `begin`, and registers with the session how that is closed. So a `begin` that raises leaves
nothing open, and the next attach starts from nothing.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from wakelog.actors.services.session import AttachRequest, Refused, ServiceSession
from wakelog.actors.transport.service_plan import read_plan
from wakelog.actors.transport.shared_watermarks import SharedWatermarks
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem


class Service:
    """One service; a subclass adds `begin`, `counters` and the methods that clients call."""

    def __init__(self, plan: dict[str, Any], name: str) -> None:
        self.plan = read_plan(plan)
        self.name = name
        self.store = self.plan.settings.store
        self.fs = FileSystem()
        self.session: ServiceSession | None = None

    @property
    def watermarks(self) -> SharedWatermarks | None:
        """The shared watermarks; None by reference, and when no living Broker is attached."""
        return None if self.session is None else self.session.watermarks

    def begin(self, session: ServiceSession, request: AttachRequest) -> dict[str, Any]:
        """Begin to work for one incarnation of the Broker; return what its client must know.

        Raises: StoreError, Refused.
        """
        raise NotImplementedError

    def counters(self) -> dict[str, Any]:
        """Return the counters of the work; called only while attached."""
        raise NotImplementedError

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """End the session before and begin one for the Broker of `request`. Raises: Refused."""
        self.release()
        known = msgspec.convert(request, AttachRequest)
        session = self.session = ServiceSession(self.plan, self.name, known, self.fs)
        try:
            answer = self.begin(session, known)
        except BaseException as error:
            self.release()
            if isinstance(error, StoreError):
                raise Refused(str(error)) from None
            raise
        return {"process_id": os.getpid(), **answer}

    def release(self) -> None:
        """Close everything and release the store."""
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def call(self, epoch: int, method: str, *arguments: Any) -> Any:
        """Call a method for the Broker of an epoch; return its result as builtins.

        A call of another epoch comes from a Broker that has died, or is meant for an earlier
        process of this service: it changes nothing.

        Raises: Refused.
        """
        if self.session is None:
            raise Refused("not attached")
        if epoch != self.session.epoch:
            raise Refused(f"epoch {epoch} was asked for and {self.session.epoch} is attached")
        try:
            return msgspec.to_builtins(getattr(self, method)(*arguments))
        except StoreError as error:
            raise Refused(str(error)) from None

    def statistics(self) -> dict[str, Any]:
        """Return the counters, nothing while not attached."""
        return {} if self.session is None else msgspec.to_builtins(self.counters(), str_keys=True)
