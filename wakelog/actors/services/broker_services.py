"""BrokerServices: the lines of one Broker to all its neighbours, put together for its transport.

Life: made with a caller for each neighbour there is; `segment_source` while the store is opened;
`open` once it is; `start` attaches; `stop` has the neighbours let go. A neighbour that is not there
when the Broker starts is attached when it comes, and until then its work waits or is done in the
Broker (`segment_line.py`, `flush_line.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec

from wakelog.actors.services import (
    allocate_mapped_file,
    commit,
    flush,
    pull_hold,
    reput,
    retention,
    schedule,
)
from wakelog.actors.services.broker_events import BrokerEvents, DispatchLine, FlushLine, HoldLine
from wakelog.actors.services.by_notification import BellDispatch, BellHolds
from wakelog.actors.services.by_reference import ReferenceDispatch, ReferenceHolds
from wakelog.actors.services.commit_client import CommitClient
from wakelog.actors.services.flush import descriptor_path
from wakelog.actors.services.flush_client import BellFlush, OwnSync, ReferenceFlush
from wakelog.actors.services.retention_client import RetentionClient
from wakelog.actors.services.schedule_client import ScheduleClient
from wakelog.actors.services.segment_client import SegmentClient
from wakelog.actors.services.session import BROKER_SERVICE, LockByte
from wakelog.actors.transport.notifications import NotificationSender, NotificationSocket, Notifier
from wakelog.actors.transport.service_client import (
    ServiceCalls,
    ServiceClient,
    ServiceLost,
    ignore_result,
)
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.shared_watermarks import (
    InitialWatermarks,
    SharedWatermarks,
    make_shared_watermarks,
)
from wakelog.storage.durability.store_lock import holder_pid
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.message_store import MessageStore

RELEASE_SECONDS_MAX = 10.0
"""How long a neighbour may take to make its files durable when the Broker stops."""

ADDED_RELEASE_SECONDS_MAX = 1.0
"""The same for a service of others, which keeps nothing that the store needs."""

HOLDER_SECONDS_MAX = 1.0
"""How long a neighbour of a Broker that died is asked to let the store go, before it is killed."""

LOCK_BYTES = {
    reput.SERVICE: LockByte.REPUT,
    flush.SERVICE: LockByte.FLUSH,
    allocate_mapped_file.SERVICE: LockByte.ALLOCATE_MAPPED_FILE,
    commit.SERVICE: LockByte.COMMIT,
    retention.SERVICE: LockByte.RETENTION,
}

SERVICES = (
    reput.SERVICE,
    pull_hold.SERVICE,
    flush.SERVICE,
    allocate_mapped_file.SERVICE,
    commit.SERVICE,
    schedule.SERVICE,
    retention.SERVICE,
)
"""The neighbours of a Broker, before those that others added; in reverse order they let go."""

ATTACH_SECONDS_MAX = 2.0
"""How long a Broker that starts waits for them before it accepts: a message passes without them as
well, only later, and while they start they take the processor from each other."""


class BrokerServices:
    """See the module. One loop's thread."""

    dispatch: DispatchLine
    holds: HoldLine
    flush: FlushLine
    commit: CommitClient
    retention: RetentionClient

    def __init__(
        self, plan: ServicePlan, calls_by_service: Mapping[str, ServiceCalls], fs: FileSystem
    ) -> None:
        """Call nobody yet."""
        assert set(calls_by_service) == {*SERVICES, *plan.added_services}
        self._plan = plan
        self._calls_by_service = calls_by_service
        self._fs = fs
        self._segments: SegmentClient | None = None
        self._page: SharedWatermarks | None = None
        self._notification: NotificationSocket | None = None
        self._lines: list[Notifier] = []
        self._neighbours: dict[str, ServiceClient] = {}

    async def release_holders(self) -> None:
        """Ask services that work for a Broker that died to let its store go.

        Whoever does not within the limit is killed once the store's lock is held.
        """
        path = self._plan.settings.store.paths.lock
        holders = [
            name
            for name, byte in LOCK_BYTES.items()
            if not self._plan.in_one_process and holder_pid(self._fs, path, byte) is not None
        ]
        calls = [
            asyncio.ensure_future(self._calls_by_service[name].call("release", "release"))
            for name in holders
        ]
        if calls:
            await asyncio.wait(calls, timeout=HOLDER_SECONDS_MAX)
            for call in calls:
                call.add_done_callback(ignore_result)

    def segment_source(self, files: MappedFileQueue) -> SegmentClient:
        """Return where the log gets its segments from."""
        self._segments = SegmentClient(self._fs, self._plan.settings.store.paths, files)
        if self._plan.settings.store.appends:
            self._segments.make_first()
        return self._segments

    def open(
        self, events: BrokerEvents, store: MessageStore, *, store_id: UUID, epoch_min: int
    ) -> int:
        """Make the lines of this incarnation of the Broker, and return its epoch."""
        self._events = events
        self._store = store
        self._epoch = epoch_min
        end = store.max_physical_offset
        if self._plan.has_notifications:
            values = InitialWatermarks(end, end, end, end, min(end, store.dispatched), 0)
            self._page = make_shared_watermarks(
                self._plan.watermarks_path, store_id, epoch_min=epoch_min, values=values
            )
            self._epoch = self._page.epoch
        self._make_neighbours()
        self._make_lines(end)
        return self._epoch

    def start(self) -> None:
        """Attach the neighbours, each as soon as it is there."""
        for client in self._neighbours.values():
            client.keep()

    async def wait_attached(self) -> None:
        """Return once the neighbours are attached, or have had time enough."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ATTACH_SECONDS_MAX):
                for name in SERVICES:
                    await self._neighbours[name].wait_attached()

    def parked(self, log_end: int) -> None:
        """Say that a delayed message was put below `log_end`."""
        self._delays.parked(log_end)

    def grown(self, dispatched: int) -> None:
        """Say that the queues reach further."""
        self._delays.grown(dispatched)

    async def stop(self) -> None:
        """Have every neighbour make durable what it holds and let the store go, if opened."""
        if not self._neighbours:
            return
        await self._delays.stop()
        await self.retention.stop()
        await self.commit.stop()
        await self._by_reference.stop()
        await self._holds_by_reference.stop()
        await self._flush_by_reference.stop()
        if self._segments is not None:
            await self._segments.stop()
        if isinstance(self.dispatch, BellDispatch):
            self.dispatch.stop_timer()
        if isinstance(self.flush, BellFlush):
            self.flush.stop_timer()
        for client in reversed(self._neighbours.values()):
            is_ours = client.name in SERVICES
            seconds_max = RELEASE_SECONDS_MAX if is_ours else ADDED_RELEASE_SECONDS_MAX
            with suppress(ServiceLost):
                await client.ask("release", "release", seconds_max=seconds_max)
            await client.stop()
        self._flush_by_reference.close()
        for line in self._lines:
            line.close()
        if self._notification is not None:
            self._notification.close(asyncio.get_running_loop())
        if self._page is not None:
            self._page.close()
            self._plan.watermarks_path.unlink(missing_ok=True)

    def statistics(self) -> dict[str, Any]:
        """Return which neighbours are there and what crossed."""
        return {
            "epoch": self._epoch,
            "attached": {name: one.is_attached for name, one in self._neighbours.items()},
            "attached_count": {name: one.attached_count for name, one in self._neighbours.items()},
            "references": dict(
                sum((one.counts for one in self._calls_by_service.values()), Counter())
            ),
            "segments": {} if self._segments is None else self._segments.statistics(),
            "flush": {"own_count": self._flush_by_reference.own_count},
            "commit": self.commit.statistics(),
            "delays": self._delays.statistics(),
            "retention": {"removed_count": self.retention.removed_count},
            "notifications": {
                outcome.value: sum(line.counts[outcome] for line in self._lines)
                for outcome in (self._lines[0].counts if self._lines else ())
            },
        }

    def _make_neighbours(self) -> None:
        hooks = {
            reput.SERVICE: (self._reput_attached, _nothing),
            pull_hold.SERVICE: (lambda _: self._holds_by_reference.hold_all(), _nothing),
            flush.SERVICE: (
                lambda answer: self._flush_by_reference.attached(answer["flushed"]),
                lambda: self.flush.lost(),
            ),
            allocate_mapped_file.SERVICE: (lambda _: self._segments_attached(), _nothing),
            commit.SERVICE: (_nothing_attached, _nothing),
            schedule.SERVICE: (lambda _: self._delays.attached(), _nothing),
            retention.SERVICE: (lambda _: self.retention.attached(), _nothing),
        }
        for name in (*SERVICES, *self._plan.added_services):
            on_attached, on_lost = hooks.get(name, (_nothing_attached, _nothing))
            self._neighbours[name] = ServiceClient(
                name,
                self._calls_by_service[name],
                lambda: msgspec.to_builtins(self._events.attachment()),
                on_attached=on_attached,
                on_lost=on_lost,
            )

    def _make_lines(self, flushed: int) -> None:
        config, epoch, events = self._plan.settings.store, self._epoch, self._events
        neighbours = self._neighbours
        page = self._page
        self._holds_by_reference = ReferenceHolds(
            neighbours[pull_hold.SERVICE], epoch, events, has_timer=page is None
        )
        self._by_reference = ReferenceDispatch(
            neighbours[reput.SERVICE], self._holds_by_reference, epoch, events
        )
        self._flush_by_reference = ReferenceFlush(
            neighbours[flush.SERVICE],
            OwnSync(self._fs, self._store.log.files),
            events,
            epoch=epoch,
            flushed=flushed,
            descriptor_path=descriptor_path(self._plan.runtime_directory),
            interval_seconds=(
                None if page is not None else config.flush_interval_commit_log_ms / 1000
            ),
        )
        self.commit = CommitClient(
            neighbours[commit.SERVICE],
            epoch,
            events,
            pool=self._store.transient_pool,
            files=self._store.log.files,
            config=config,
            committed=flushed,
        )
        self._delays = ScheduleClient(
            neighbours[schedule.SERVICE],
            epoch,
            events.deliver,
            lambda: self._store.min_physical_offset,
            log_end=flushed,
            delivers=config.appends,
        )
        self.retention = RetentionClient(
            neighbours[retention.SERVICE],
            neighbours[reput.SERVICE],
            epoch,
            events,
            log_end=lambda: self._store.log.appended_offset,
            interval_seconds=config.clean_resource_interval_ms / 1000,
        )
        if self._segments is not None:
            self._segments.start(neighbours[allocate_mapped_file.SERVICE], epoch)
        self.dispatch = self._by_reference
        self.holds = self._holds_by_reference
        self.flush = self._flush_by_reference
        if page is not None:
            self._make_notifications_lines(page)

    def _make_notifications_lines(self, page: SharedWatermarks) -> None:
        loop = asyncio.get_running_loop()
        self.dispatch = BellDispatch(
            page, self._notifier_to(reput.SERVICE), self._by_reference, self._events
        )
        self.holds = BellHolds(self._notifier_to(pull_hold.SERVICE))
        flush_neighbour = self._neighbours[flush.SERVICE]
        self.flush = BellFlush(
            self._flush_by_reference,
            page,
            self._notifier_to(flush.SERVICE),
            lambda: flush_neighbour.is_attached,
        )
        self._notification = NotificationSocket(self._plan.socket_path(BROKER_SERVICE))
        self._notification.listen(loop, self._answer)

    def _notifier_to(self, service: str) -> Notifier:
        sender = NotificationSender(self._plan.socket_path(service), self._plan.faults)
        line = Notifier(sender, asyncio.get_running_loop())
        self._lines.append(line)
        return line

    def _answer(self, notes: list[tuple[Any, ...]]) -> None:
        """Answer the notification: look at the words first, since the woken look at the queues."""
        assert isinstance(self.flush, BellFlush)
        self.dispatch.look()
        self.flush.look()
        if notes:
            self._events.woken([hold_id for (hold_id,) in notes])

    def _reput_attached(self, answer: Mapping[str, Any]) -> None:
        self._by_reference.attached(answer["position"])

    def _segments_attached(self) -> None:
        # A log that takes no messages needs no segment, and its folder is left as it is.
        if self._segments is not None and self._store.log.failure is None:
            self._segments.attached()


def _nothing_attached(_answer: Mapping[str, Any]) -> None:
    """Do nothing when a neighbour is attached: it is asked when there is something."""


def _nothing() -> None:
    """Do nothing when a neighbour is lost: its work waits."""
