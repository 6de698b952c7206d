"""What every service has: attach, calls of the right epoch only, release, and statistics.

A `ServiceHost` is there as long as its process: one actor, or one object of a deployment in one
process. From `attach` to `release` it has a `Service`, which works for one incarnation of the
Broker. It then holds its byte of the store's lock, and with notifications the shared watermarks and
its socket. A host that is not attached writes no file.

A `Service` opens what it needs in its constructor, and registers how that is closed. So one that
raises leaves nothing open, and the next attach starts from nothing.

Invariants:
- a service writes the store only while its host holds the lock byte.
- the byte is released last, after everything that was registered.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast
from uuid import UUID

import msgspec

from wakelog.actors.services.session import AttachRequest, NotAttached, Refused, open_logs
from wakelog.actors.services.table import load, lock_bytes, row_of
from wakelog.actors.start_outcome import cause_and_remedy
from wakelog.actors.transport.free_memory import free_memory
from wakelog.actors.transport.notifications import Note, NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import ServicePlan, read_plan
from wakelog.actors.transport.shared_watermarks import NoSharedWatermarks, SharedWatermarks
from wakelog.actors.transport.timer import Timer
from wakelog.network.background import AGAIN_SECONDS, log_failure
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import Log, News, logger
from wakelog.typed_values import convert


class _Closeable(Protocol):
    def close(self) -> object: ...


Resource = TypeVar("Resource", bound=_Closeable)


@dataclass(frozen=True, kw_only=True, eq=False)
class Session:
    """What a service gets that works for one incarnation of the Broker.

    watermarks: None by reference. releases: called at the release, the last one first.
    before: the service of the session before, in this process.
    """

    plan: ServicePlan
    name: str
    fs: FileSystem
    request: AttachRequest
    watermarks: SharedWatermarks | None
    releases: ExitStack
    before: "Service | None" = None


class Service:
    """One service at work; a subclass adds `counters` and the methods that clients call.

    answer: what its client must know of it.
    is_released: whether its Broker is gone; it then touches nothing that others share.
    """

    reports_released: ClassVar[bool] = False
    """Whether its counters are shown when no Broker is attached, too."""

    def __init__(self, session: Session) -> None:
        """Begin to work. Raises: StoreError, Refused."""
        self.plan, self.name, self.fs = session.plan, session.name, session.fs
        self.store = session.request.store or self.plan.settings.store
        self.answer: dict[str, Any] = {}
        self.is_released = False
        self._watermarks = session.watermarks
        self._releases = session.releases

    def counters(self) -> dict[str, Any]:
        """Return the counters of the work."""
        raise NotImplementedError

    @property
    def has_notifications(self) -> bool:
        """Whether progress travels by shared watermarks and notifications, while attached."""
        return self._watermarks is not None

    @property
    def watermarks(self) -> SharedWatermarks | None:
        """The shared watermarks; None by reference, and when no living Broker is attached."""
        shared = self._watermarks
        is_over = shared is None or self.is_released or shared.is_replaced
        return None if is_over else shared

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

    def notifier_to(self, service: str) -> Notifier | None:
        """Return a notifier of another service, until the release; None by reference."""
        if self._watermarks is None:
            return None
        return self.closing(Notifier(self.plan.socket_path(service), self.plan.faults))

    def use_settings(self, store: dict[str, Any]) -> bool:
        """Go by the settings of the store as they are now; return whether that takes an attach."""
        before, self.store = self.store, convert(store, StoreConfig)
        return self.settings_changed(before)

    def settings_changed(self, before: StoreConfig) -> bool:
        """Take over from `store` what is not read from there at every use; see `use_settings`."""
        return False


ServiceT = TypeVar("ServiceT", bound=Service)


class ServiceHost(Generic[ServiceT]):
    """The actor of one service, or its object in one process: attaches it and passes calls on."""

    def __init__(
        self,
        plan: dict[str, Any],
        name: str,
        *,
        kind: type[ServiceT] | None = None,
        fs: FileSystem | None = None,
    ) -> None:
        """Wait for a Broker.

        kind: the class of the service; None if its row says that. fs: the disk; the machine's if
        None.
        """
        self.plan = read_plan(plan)
        self.name = name
        self.fs = fs or FileSystem()
        self._kind = kind or cast(type[ServiceT], load(row_of(self.plan, name).service))
        self._service: ServiceT | None = None  # the last one
        self._epoch = 0
        self._releases = ExitStack()
        self._free_memory = free_memory()
        self._unexpected = News()

    @property
    def attached(self) -> ServiceT:
        """The service at work. Raises: NotAttached."""
        if self._service is None or self._service.is_released:
            raise NotAttached("not attached")
        return self._service

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Release the Broker before, and begin for the one of `request`. Raises: Refused."""
        self.release()
        try:
            session = self._session(convert(request, AttachRequest))
            self._service = service = self._kind(session)
        except BaseException as error:
            self.release()
            raise self._refusal(error) from None
        return {"process_id": os.getpid(), **service.answer}

    def release(self) -> None:
        """Close everything and release the store."""
        if self._service is not None:
            self._service.is_released = True
        self._releases.close()

    def call(self, epoch: int, method: str, *arguments: Any) -> Any:
        """Call a method for the Broker of an epoch; return its result as builtins.

        A call of another epoch comes from a Broker that has died, or is meant for an earlier
        process of this service: it changes nothing.

        Raises: Refused.
        """
        service = self.attached
        if epoch != self._epoch:
            raise NotAttached(f"epoch {epoch} was asked for and {self._epoch} is attached")
        try:
            return msgspec.to_builtins(getattr(service, method)(*arguments))
        except Exception as error:
            raise self._refusal(error) from None

    def statistics(self) -> dict[str, Any]:
        """Return the counters; most services have none while they are not attached."""
        service = self._service
        if service is None or (service.is_released and not service.reports_released):
            return {}
        found: dict[str, Any] = msgspec.to_builtins(service.counters(), str_keys=True)
        return found

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

    def _session(self, request: AttachRequest) -> Session:
        """Take what only the service of an attached Broker may have, until the release."""
        plan, releases = self.plan, self._releases
        self._epoch = request.epoch
        if not plan.in_one_process:
            open_logs(plan, self.name, request.epoch, plan.name)
            self._free_memory.begin()
            releases.callback(self._free_memory.end)
        if (lock_byte := lock_bytes(plan).get(self.name)) is not None:
            releases.callback(StoreLock(self.fs, plan.settings.store.paths.lock, lock_byte).release)
        shared = None
        if plan.has_notifications:
            shared = SharedWatermarks(plan.watermarks_path, UUID(request.store_id))
            releases.callback(shared.close)
        return Session(
            plan=plan,
            name=self.name,
            fs=self.fs,
            request=request,
            watermarks=shared,
            releases=releases,
            before=self._service,
        )


def host_of(kind: type[ServiceT]) -> type[ServiceHost[ServiceT]]:
    """Return the class of a service's actor. Ray calls its process by that name."""
    return cast(type[ServiceHost[ServiceT]], type(kind.__name__, (ServiceHost,), {}))
