"""The base of every service: attach, calls of the right epoch only, release, and statistics.

A service is one actor, or one object of a deployment in one process. From `attach` to `release` it
works for one incarnation of the Broker. It then holds its byte of the store's lock, and with
notifications the shared watermarks and its socket. A service that is not attached writes no file.

A subclass opens what it needs in `begin`, and registers how that is closed. So a `begin` that
raises leaves nothing open, and the next attach starts from nothing.

Invariants:
- a service writes the store only while it holds its lock byte.
- the byte is released last, after everything that was registered.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from wakelog.actors.services.session import AttachRequest, NotAttached, Refused, open_logs
from wakelog.actors.services.table import lock_bytes
from wakelog.actors.start_outcome import cause_and_remedy
from wakelog.actors.transport.free_memory import free_memory
from wakelog.actors.transport.notifications import Note, NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import read_plan
from wakelog.actors.transport.shared_watermarks import NoSharedWatermarks, SharedWatermarks
from wakelog.actors.transport.timer import Timer
from wakelog.network.background import AGAIN_SECONDS, log_failure
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import Log, News, logger


class _Closeable(Protocol):
    def close(self) -> object: ...


Resource = TypeVar("Resource", bound=_Closeable)


class Service:
    """One service; a subclass adds `begin`, `counters` and the methods that clients call."""

    def __init__(self, plan: dict[str, Any], name: str) -> None:
        self.plan = read_plan(plan)
        self.name = name
        self.store = self.plan.settings.store
        self.fs = FileSystem()
        self.epoch: int | None = None  # of the Broker that is attached
        self._watermarks: SharedWatermarks | None = None
        self._releases = ExitStack()
        self._free_memory = free_memory()
        self._unexpected = News()

    def begin(self, request: AttachRequest) -> dict[str, Any]:
        """Begin to work for one incarnation of the Broker; return what its client must know.

        Raises: StoreError, Refused.
        """
        raise NotImplementedError

    def counters(self) -> dict[str, Any]:
        """Return the counters of the work; called only while attached."""
        raise NotImplementedError

    @property
    def has_notifications(self) -> bool:
        """Whether progress travels by shared watermarks and notifications, while attached."""
        return self._watermarks is not None

    @property
    def watermarks(self) -> SharedWatermarks | None:
        """The shared watermarks; None by reference, and when no living Broker is attached."""
        shared = self._watermarks
        return None if shared is None or shared.is_replaced else shared

    def on_release(self, release: Callable[[], object]) -> None:
        """Call `release` when the service is released, before what was registered earlier."""
        self._releases.callback(release)

    def closing(self, resource: Resource) -> Resource:
        """Close a resource when the service is released, before what was registered earlier."""
        return self._releases.enter_context(closing(resource))

    def listen(self, on_notified: Callable[[Note], None]) -> None:
        """Call `on_notified` on this loop each time notifications come.

        After a call that failed it is called again, without notes: the next ones may be far off.
        Raises: Refused.
        """
        again = Timer(lambda: on_notified([]))

        def on_received(notes: Note) -> None:
            try:
                on_notified(notes)
            except Exception as error:
                log_failure(logger(Log.BROKER), self.name)(error)
                again.start(AGAIN_SECONDS)

        try:
            receiver = NotificationSocket(self.plan.socket_path(self.name))
        except OSError as error:
            raise Refused(str(error)) from None
        self.on_release(again.cancel)
        self.closing(receiver).listen(on_received)

    def notifier_to(self, service: str) -> Notifier:
        """Return a notifier of another service, which is closed at the release."""
        return self.closing(Notifier(self.plan.socket_path(service), self.plan.faults))

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Release the Broker before, and begin for the one of `request`. Raises: Refused."""
        self.release()
        known = msgspec.convert(request, AttachRequest)
        self.store = known.store or self.plan.settings.store
        try:
            self._hold_store(known)
            answer = self.begin(known)
        except BaseException as error:
            self.release()
            raise self._refusal(error) from None
        return {"process_id": os.getpid(), **answer}

    def use_settings(self, store: dict[str, Any]) -> bool:
        """Go by the settings of the store as they are now; return whether that takes an attach."""
        before, self.store = self.store, msgspec.convert(store, StoreConfig)
        return self.settings_changed(before)

    def settings_changed(self, before: StoreConfig) -> bool:
        """Take over from `store` what is not read from there at every use; see `use_settings`."""
        return False

    def release(self) -> None:
        """Close everything and release the store."""
        self.epoch = self._watermarks = None
        self._releases.close()

    def call(self, epoch: int, method: str, *arguments: Any) -> Any:
        """Call a method for the Broker of an epoch; return its result as builtins.

        A call of another epoch comes from a Broker that has died, or is meant for an earlier
        process of this service: it changes nothing.

        Raises: Refused.
        """
        if self.epoch is None:
            raise NotAttached("not attached")
        if epoch != self.epoch:
            raise NotAttached(f"epoch {epoch} was asked for and {self.epoch} is attached")
        try:
            return msgspec.to_builtins(getattr(self, method)(*arguments))
        except Exception as error:
            raise self._refusal(error) from None

    def statistics(self) -> dict[str, Any]:
        """Return the counters, nothing while not attached."""
        return {} if self.epoch is None else msgspec.to_builtins(self.counters(), str_keys=True)

    def _refusal(self, error: BaseException) -> BaseException:
        """Return what crosses processes in place of an error, so that the user reads why."""
        if isinstance(error, Refused) or not isinstance(error, Exception):
            return error
        if isinstance(error, NoSharedWatermarks):
            return Refused(str(error))
        words = cause_and_remedy(error)
        if words is None:
            words = f"{type(error).__name__}: {error}", "Please report it with the logs."
            if self._unexpected.is_news(words[0]):
                logger(Log.BROKER).error("unexpected error", service=self.name, exc_info=error)
        return Refused(*words)

    def _hold_store(self, request: AttachRequest) -> None:
        plan = self.plan
        self.epoch = request.epoch
        if not plan.in_one_process:
            open_logs(plan, self.name, request.epoch)
            self._free_memory.begin()
            self.on_release(self._free_memory.end)
        if (lock_byte := lock_bytes(plan).get(self.name)) is not None:
            lock = StoreLock(self.fs, plan.settings.store.paths.lock, lock_byte)
            self.on_release(lock.release)
        if plan.has_notifications:
            shared = SharedWatermarks(plan.watermarks_path, UUID(request.store_id))
            self._watermarks = self.closing(shared)
