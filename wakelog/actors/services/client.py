"""The Broker's client for one service: it keeps the service attached, calls it, and sees it die.

A subclass in the service's file says what the Broker asks of the service, and which functions it
calls with results; `actors/broker/wiring.py` gives it these. It calls them on the Broker's loop,
never from within a request. A method of a client notes the request and returns at once. Requests
that come during a call go with the next call.

With notifications a client stores a shared watermark and sends a datagram. It calls the service
only for what must arrive, and after a lost notification: a timer, which runs only while work is
outstanding, notices that nothing has moved. By reference every request is a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from uuid import UUID

import msgspec

from wakelog.actors.services.session import BROKER, AttachRequest, NotAttached, Refused
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.calls import ServiceCalls, ignore_result
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.notifications import Note, NotificationSocket, Notifier
from wakelog.actors.transport.process_death import set_died, wait_death
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.shared_watermarks import (
    ORDERED,
    SharedWatermark,
    SharedWatermarks,
    make_shared_watermarks,
)
from wakelog.actors.transport.timer import Timer
from wakelog.broker.trouble import Trouble, Troubles
from wakelog.network.background import awaited, keep, log_failure, run_once
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import Log, logger

if TYPE_CHECKING:
    from wakelog.storage.message_store import MessageStore

_FIRST = asyncio.FIRST_COMPLETED

ATTACH = "attach"
SEE_LOGS = "See the logs."


@dataclass(eq=False)
class BrokerContext:
    """What the clients of one Broker incarnation share. One loop's thread.

    watermarks: None by reference.
    closings: closes what was opened for this incarnation.
    """

    plan: ServicePlan
    fs: FileSystem
    store: MessageStore
    epoch: int
    watermarks: SharedWatermarks | None = None
    notifiers: list[Notifier] = field(default_factory=list)
    watermark_readers: list[Callable[[], None]] = field(default_factory=list)
    closings: ExitStack = field(default_factory=ExitStack)

    def notifier_to(self, service: str) -> Notifier | None:
        """Return a notifier of a service, None by reference."""
        if self.watermarks is None:
            return None
        notifier = Notifier(self.plan.socket_path(service), self.plan.faults)
        self.closings.callback(notifier.close)
        self.notifiers.append(notifier)
        return notifier

    def listen(self, on_notified: Callable[[Note], None]) -> None:
        """Call `on_notified` each time notifications of services come."""
        if self.watermarks is not None:
            receiver = NotificationSocket(self.plan.socket_path(BROKER))
            self.closings.enter_context(closing(receiver)).listen(on_notified)


def open_context(
    plan: ServicePlan, fs: FileSystem, store: MessageStore, store_id: UUID
) -> BrokerContext:
    """Begin an incarnation of the Broker: give it an epoch, and make its shared watermarks."""
    if not plan.has_notifications:
        return BrokerContext(plan, fs, store, epoch=wall_ms())
    path, end = plan.watermarks_path, store.max_physical_offset
    values = dict.fromkeys(chain(*ORDERED), end)
    values[SharedWatermark.DISPATCHED] = min(end, store.dispatched)
    if plan.register:
        values[SharedWatermark.READABLE] = values[SharedWatermark.DISPATCHED]
    shared = make_shared_watermarks(path, store_id, epoch_min=wall_ms(), values=values)
    context = BrokerContext(plan, fs, store, epoch=shared.epoch, watermarks=shared)
    context.closings.callback(path.unlink, missing_ok=True)
    context.closings.callback(shared.close)
    return context


class ServiceHandle(NamedTuple):
    """How a client reaches its service, and what it shares with the others."""

    name: str
    calls: ServiceCalls
    broker: BrokerContext


class ServiceLost(Exception):
    """A call had no result: the service is not attached, has died, refused, or took too long."""


class ServiceClient:
    """Keeps one service attached from `keep_attached` to `stop`."""

    retry_seconds: float = 0.1
    """The pause between two tries to attach. A try that waits for Ray takes longer anyway."""

    retry_seconds_max: float = 1.0
    """The pause grows up to this for a service that is lost again at once."""

    refused_seconds_max: float = 5.0
    """And up to this for one that says why it does not work: a folder that it may not write, or a
    full disk, is seldom mended within a second."""

    def __init__(self, handle: ServiceHandle) -> None:
        self.name, self.calls, self.broker = handle
        self.attached_count = 0
        self.troubles = Troubles()
        self._missing_parts: set[str] = set()
        self.worker = BatchWorker(handle.name, self.work)
        self.timer = Timer(self.worker.request)
        self._attached = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._died: asyncio.Future[None] | None = None  # of the process that is attached
        self._log = logger(Log.BROKER)

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Continue after an attach that returned `answer`; if this raises, attach again."""

    def on_lost(self) -> None:
        """Continue without the service: it has died, and calls under way will not end soon."""

    async def work(self) -> bool:
        """Do what `worker` was requested to; return whether to do it again at once."""
        return False

    async def stop_work(self) -> None:
        """Ask for nothing more and give up what is under way; the service is still attached."""
        self.timer.cancel()
        await self.worker.stop()

    def close(self) -> None:
        """Close what the client holds; the service has released the store."""

    def statistics(self) -> dict[str, Any]:
        """Return counters."""
        return {}

    @property
    def is_attached(self) -> bool:
        """Whether calls can be made."""
        return self._attached.is_set()

    @property
    def refusal(self) -> Trouble | None:
        """Why the service does not do its work; None if it does, or lacks a part alone."""
        return self.troubles.first_but(self._missing_parts)

    def use_settings(self) -> None:
        """Have the service go by the settings as they are now; the next attach brings them, too."""
        if self.is_attached:
            on_failed = log_failure(self._log, f"settings of {self.name}")
            sending = run_once(self._send_settings(), on_failed)
            self._tasks.add(sending)
            sending.add_done_callback(self._tasks.discard)

    async def _send_settings(self) -> None:
        with suppress(ServiceLost):
            if await self.call("settings", "use_settings", self._settings()):
                self.mark_lost()  # an attach follows

    def _settings(self) -> Any:
        return msgspec.to_builtins(self.broker.plan.settings.store)

    async def wait_attached(self) -> None:
        """Return when calls can be made."""
        await self._attached.wait()

    async def call(
        self, kind: str, method: str, *arguments: Any, seconds_max: float | None = None
    ) -> Any:
        """Call a method of the service and return its result. Raises: ServiceLost."""
        call = self.begin_call(kind, method, *arguments)
        return await self.wait_result(call, seconds_max, method=method)

    def begin_call(self, kind: str, method: str, *arguments: Any) -> Awaitable[Any]:
        """Call a method of the service, for `wait_result`. Raises: ServiceLost."""
        if not self.is_attached:
            raise ServiceLost(f"{self.name} is not attached")
        return self.calls.call(kind, "call", self.broker.epoch, method, *arguments)

    async def wait_result(
        self, call: Awaitable[Any], seconds_max: float | None = None, *, method: str = ""
    ) -> Any:
        """Return the result of a call of a method that was begun, while the service lives.

        After a call that failed the service is attached again; after a slow call it is not.

        Raises: ServiceLost.
        """
        died = self._died
        assert died is not None
        result = awaited(call)
        await asyncio.wait({result, died}, timeout=seconds_max, return_when=_FIRST)
        if result.done():
            try:
                answer = result.result()
            except Exception as error:
                self._on_failure(method, error)
                self.mark_lost()
                raise ServiceLost(f"{self.name}: {error!r}") from error
            self.clear_trouble(method)
            return answer
        result.add_done_callback(ignore_result)
        raise ServiceLost(f"{self.name} has {'died' if died.done() else 'not answered in time'}")

    def keep_attached(self, known: Callable[[], AttachRequest]) -> None:
        """Attach, and attach again whenever the service was lost, until `stop`.

        known: returns what a service that is attached now must know.
        """
        self._tasks.add(keep(partial(self._keep_attached, known), self._on_attach_failed))

    def mark_lost(self) -> None:
        """Attach the service again: a call to it has failed."""
        if self._died is not None:
            set_died(self._died)

    def set_trouble(self, asked: str, trouble: Trouble) -> None:
        """Note that what was asked for is refused for a reason that lasts; it is logged once."""
        if self.troubles.refused(asked, trouble):
            cause, remedy = trouble
            self._log.warning(
                "service does not work", service=self.name, asked=asked, cause=cause, remedy=remedy
            )

    def clear_trouble(self, asked: str) -> None:
        """Note that what was asked for was done."""
        if self.troubles.worked(asked):
            self._log.info("service works again", service=self.name, asked=asked)

    def _set_missing_parts(self, reasons: Mapping[str, str]) -> None:
        """Note the parts that the service began without, and why."""
        for part in self._missing_parts - reasons.keys():
            self.clear_trouble(part)
        self._missing_parts = set(reasons)
        for part, reason in reasons.items():
            self.set_trouble(part, Trouble(reason, SEE_LOGS))

    def _on_failure(self, asked: str, error: Exception) -> None:
        """Note what a call raised; a process that has died is started again, and no trouble."""
        if isinstance(error, Refused) and not isinstance(error, NotAttached):
            self.set_trouble(asked, Trouble(error.reason, error.remedy))
        else:
            self._log.warning("call failed", service=self.name, asked=asked, error=repr(error))

    async def release(self, seconds_max: float) -> None:
        """Have the service release the store, and call it no more."""
        if self.is_attached:
            with suppress(ServiceLost):
                await self.wait_result(self.calls.call("release", "release"), seconds_max)
        await self.stop()

    async def stop(self) -> None:
        """Attach no more and call no more."""
        self._attached.clear()
        await self.worker.stop()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep_attached(self, known: Callable[[], AttachRequest]) -> None:
        loop = asyncio.get_running_loop()
        pause_seconds = self.retry_seconds
        while True:
            try:
                request = msgspec.to_builtins(known())
                answer = await self.calls.call("attach", "attach", request)
            except Exception as error:
                self._on_failure(ATTACH, error)
                await asyncio.sleep(pause_seconds)
                if self.refusal:
                    pause_seconds = min(2 * pause_seconds, self.refused_seconds_max)
                await self.calls.find_again()
                continue
            self.clear_trouble(ATTACH)
            self._set_missing_parts(answer.get("troubles", {}))
            attached_at = loop.time()
            self._died = loop.create_future()
            self.attached_count += 1
            self._attached.set()
            if request["store"] not in (None, self._settings()):
                self.use_settings()  # they have changed meanwhile
            if not self._run_hook(self.on_attached, answer):
                self.mark_lost()
            try:
                await wait_death(answer["process_id"], self._died)
            finally:
                self._attached.clear()
            if not self.refusal:
                self._log.warning("service lost", service=self.name)
            self._run_hook(self.on_lost)
            if loop.time() >= attached_at + self.retry_seconds_max and not self.refusal:
                pause_seconds = self.retry_seconds
            await asyncio.sleep(pause_seconds)
            pause_max = self.refused_seconds_max if self.refusal else self.retry_seconds_max
            pause_seconds = min(2 * pause_seconds, pause_max)

    def _on_attach_failed(self, error: Exception) -> None:
        """Have the service attached again after an unexpected error."""
        self._log.error("service client failed", service=self.name, exc_info=error)
        self.mark_lost()

    def _run_hook(self, hook: Callable[..., None], *arguments: Any) -> bool:
        """Return False if the hook raised, for example because no descriptor is left."""
        try:
            hook(*arguments)
        except Exception as error:
            self._log.error("hook failed", service=self.name, exc_info=error)
            return False
        return True


class WatermarkClient(ServiceClient):
    """Follows one shared watermark of its service, up to what it has asked for.

    reached, wanted: how far the service has come, and how far it must come.

    By reference there is no watermark, and progress comes with the results of calls.
    """

    watermark: ClassVar[SharedWatermark]

    recheck_seconds: float = 1.0
    """After so long without progress, with work outstanding, a notification was lost."""

    def __init__(self, handle: ServiceHandle) -> None:
        """Follow the watermark; nothing is outstanding."""
        super().__init__(handle)
        self.watermarks = handle.broker.watermarks
        self.notifier = handle.broker.notifier_to(handle.name)
        self.reached = self.wanted = 0
        self.recheck_timer = Timer(self._recheck)
        self._rechecked_at = 0
        handle.broker.watermark_readers.append(self.read_watermark)

    def on_reached(self, position: int) -> None:
        """Note how far the service has come, and report it to the Broker if that is news."""
        raise NotImplementedError

    def request_call(self) -> None:
        """Call the service: a notification has brought no progress."""
        raise NotImplementedError

    async def stop_work(self) -> None:
        """Ask for nothing more, and do not check for progress."""
        self.recheck_timer.cancel()
        await super().stop_work()

    def read_watermark(self) -> None:
        """Note how far the service has come, if it says that by watermark."""
        if self.watermarks is not None:
            self.on_reached(self.watermarks.get(self.watermark))

    def recheck_later(self) -> None:
        """Check for progress after `recheck_seconds`, and again until nothing is outstanding."""
        if not self.recheck_timer.is_running:
            self._rechecked_at = self.reached
            self.recheck_timer.start(self.recheck_seconds)

    def _recheck(self) -> None:
        self.read_watermark()
        if self.reached >= self.wanted:
            return
        if self.reached == self._rechecked_at:
            self.request_call()
        self.recheck_later()
