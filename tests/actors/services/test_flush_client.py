"""Who waits for the disk is answered by Flush, or by the Broker itself, and never wrongly."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Self
from unittest.mock import Mock

import msgspec
import pytest

from tests.actors.bounded import on_loop
from tests.actors.services.fakes import (
    EPOCH,
    Events,
    FakeCalls,
    attached,
    broker_context,
    shared_watermarks,
    stop_clients,
)
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.actors.services import flush_client
from wakelog.actors.services.client import ServiceHandle
from wakelog.actors.services.flush import FlushOutcome
from wakelog.actors.services.flush_client import FlushClient, OwnSync
from wakelog.actors.transport.notifications import NotificationSocket
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.storage.log.mapped_file_queue import MappedFileQueue

SEGMENT_BYTES = 4096


class FakeFlush(FakeCalls):
    """Says that all is durable, or what it was told to say."""

    def __init__(self) -> None:
        super().__init__(sync=self.sync)
        self.outcome: FlushOutcome | None = None

    def sync(self, epoch: int, request: dict[str, Any]) -> dict[str, Any]:
        assert epoch == EPOCH
        outcome = self.outcome or FlushOutcome(request["committed"], None, 1 << 40)
        return dict(msgspec.to_builtins(outcome))


class Harness:
    """The client of a Flush, and a log of two segments in memory."""

    def __init__(self, directory: Path) -> None:
        self.fs = MemoryFileSystem()
        self.flush = FakeFlush()
        self.events = Events()
        self.directory = directory
        self.files = MappedFileQueue(self.fs, ["/log"], SEGMENT_BYTES)
        self.fs.make_directories("/log")
        self.shared: SharedWatermarks | None = None
        self.add_segment(0)

    def add_segment(self, start_offset: int) -> None:
        path = self.files.path_for(start_offset)
        fd = self.fs.open(path, create=True)
        self.fs.allocate(fd, SEGMENT_BYTES)
        self.fs.close(fd)
        self.files.add(path, start_offset)

    @asynccontextmanager
    async def running(
        self, *, is_attached: bool = True, interval_ms: int = 3_600_000
    ) -> AsyncIterator[Self]:
        context = broker_context(
            directory=self.directory,
            fs=self.fs,
            log_files=self.files,
            watermarks=self.shared,
            flushIntervalCommitLog=interval_ms,
        )
        self.client = FlushClient(
            ServiceHandle("flush", self.flush, context),
            on_flushed=self.events.flushed,
            on_failed=self.events.flush_failed,
        )
        if is_attached:
            await attached(self.client)
        yield self
        await stop_clients(context, self.client)

    def append(self, end: int) -> None:
        self.client.on_appended(appended=end, committed=end, stored_ms=1)

    async def sync(self, end: int) -> None:
        """Append up to `end`, ask for a sync, and return when it is reported."""
        self.append(end)
        self.client.request_sync()
        await self.wait_flushed(end)

    async def wait_flushed(self, end: int) -> None:
        while self.events.flushed_to < end:
            await asyncio.sleep(0)


class HeldSyncs:
    """Syncs of a disk that end when a test lets them."""

    def __init__(self, fs: MemoryFileSystem) -> None:
        self.fds: list[int] = []
        self._datasync, self._permits = fs.datasync, threading.Semaphore(0)
        fs.datasync = self._sync  # type: ignore[method-assign]

    def _sync(self, fd: int) -> None:
        self.fds.append(fd)
        assert self._permits.acquire(timeout=10)
        self._datasync(fd)

    def let_end(self) -> None:
        self._permits.release()

    async def wait_begun(self, count: int) -> None:
        while len(self.fds) < count:
            await asyncio.sleep(0.001)


@pytest.fixture
def harness(short_path: Path) -> Harness:
    return Harness(short_path)


@on_loop
async def test_flush_is_asked_and_believed(harness: Harness) -> None:
    async with harness.running():
        await harness.sync(100)
        assert harness.client.own_count == 0 and harness.fs.calls["datasync"] == 0
        [(_, request)] = harness.flush.called("sync")
        assert request == {
            "flushed": 0,
            "committed": 100,
            "appended": 100,
            "stored_ms": 1,
            "force": True,
        }


@on_loop
async def test_without_flush_the_broker_syncs_by_itself(harness: Harness) -> None:
    async with harness.running(is_attached=False):
        await harness.sync(100)
        harness.add_segment(SEGMENT_BYTES)
        await harness.sync(SEGMENT_BYTES + 10)
        assert harness.client.own_count == 2 and harness.fs.calls["datasync"] == 3


@on_loop
async def test_what_comes_during_a_sync_is_durable_after_the_next(harness: Harness) -> None:
    """No kill would show it: what is not synced is in the page cache."""
    async with harness.running(is_attached=False):
        held = HeldSyncs(harness.fs)
        harness.append(100)
        harness.client.request_sync()
        await held.wait_begun(1)
        harness.append(200)
        harness.client.request_sync()
        held.let_end()
        await harness.wait_flushed(100)
        assert harness.events.flushed_to == 100
        await held.wait_begun(2)
        assert harness.events.flushed_to == 100
        held.let_end()
        await harness.wait_flushed(200)


@on_loop
async def test_a_sync_that_does_not_return_is_late(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.running(is_attached=False):
        now_ms = 1_000_000
        monkeypatch.setattr(flush_client, "steady_ms", lambda: now_ms)
        held, client = HeldSyncs(harness.fs), harness.client
        harness.append(100)
        now_ms += 9_000
        assert client.late_ms == 0, "a timed flush has its interval"
        now_ms += 2_000
        assert client.late_ms == 1_000
        client.request_sync()
        await held.wait_begun(1)
        now_ms += 7_000
        client.request_sync()
        assert client.late_ms == 8_000
        held.let_end()
        await harness.wait_flushed(100)
        assert client.late_ms == 0
        harness.append(200)
        client.request_sync()
        now_ms += 3_000
        assert client.late_ms == 3_000, "a caller waits for it now"
        client._fail("EIO")
        assert client.late_ms == 0, "that is another trouble"
        held.let_end()


@on_loop
async def test_a_segment_is_not_let_go_while_it_is_synced(harness: Harness) -> None:
    """Flush was late, not dead: its sync ends during the own one, and the log rolls."""
    async with harness.running(is_attached=False):
        held = HeldSyncs(harness.fs)
        harness.add_segment(SEGMENT_BYTES)
        harness.append(SEGMENT_BYTES + 10)
        harness.client.request_sync()
        await held.wait_begun(1)
        harness.client.on_reached(SEGMENT_BYTES)
        harness.add_segment(2 * SEGMENT_BYTES)
        harness.append(2 * SEGMENT_BYTES + 10)
        harness.client.request_sync()
        assert harness.client._own.held_end == 3 * SEGMENT_BYTES
        for _ in range(5):
            held.let_end()
        await harness.wait_flushed(2 * SEGMENT_BYTES + 10)
        assert len(held.fds) == 4 and harness.events.failure is None
        held_count = harness.fs.descriptor_count
        harness.client.send_descriptors()
        assert harness.fs.descriptor_count == held_count - 1, "afterwards it is let go"


@on_loop
async def test_a_flush_that_hangs_is_not_waited_for(harness: Harness) -> None:
    async with harness.running():
        harness.client.recheck_seconds = 0.01
        harness.flush.hanging.add("sync")
        for end in (100, 200):
            await harness.sync(end)
        # The second time it is known to hang, and not asked again.
        assert len(harness.flush.called("sync")) == 1 and harness.client.own_count == 2


@on_loop
async def test_a_failed_sync_is_reported_once_and_ends_all_flushing(
    harness: Harness,
) -> None:
    async with harness.running():
        harness.flush.outcome = FlushOutcome(0, "sync of segment 0 failed", 1 << 40)
        harness.append(100)
        harness.client.request_sync()
        while harness.events.failure is None:
            await asyncio.sleep(0)
        harness.flush.outcome = None
        harness.append(200)
        harness.client.request_sync()
        for _ in range(20):
            await asyncio.sleep(0)
        harness.client.on_reached(200)  # a notification that comes late
        assert harness.events.flushed_to == 0


@on_loop
async def test_a_sync_of_the_brokers_own_that_fails_is_a_failure(harness: Harness) -> None:
    async with harness.running(is_attached=False):
        harness.fs.fail("datasync", number=errno.EIO)
        harness.append(100)
        harness.client.request_sync()
        while harness.events.failure is None:
            await asyncio.sleep(0)
        assert harness.events.flushed_to == 0


@on_loop
async def test_a_timed_flush_comes_without_being_wanted(harness: Harness) -> None:
    async with harness.running(interval_ms=10):
        harness.append(100)
        await harness.wait_flushed(100)
        assert [request["force"] for _, request in harness.flush.called("sync")] == [False]


@on_loop
async def test_a_flush_that_has_something_to_note_is_asked_again(harness: Harness) -> None:
    """Nothing else may come for long: who reads the files would not see the last messages."""
    async with harness.running(interval_ms=10):
        harness.client.note_seconds = 0.01
        harness.flush.outcome = FlushOutcome(100, None, 1 << 40, noted=False)
        await harness.sync(100)
        while len(harness.flush.called("sync")) < 4:
            await asyncio.sleep(0.001)
        harness.flush.outcome = None
        while not harness.client._is_noted:
            await asyncio.sleep(0.001)
        forced = [request["force"] for _, request in harness.flush.called("sync")]
        assert forced[0] and not any(forced[1:])


@pytest.mark.parametrize(
    ("is_notified", "has_failed", "is_durable", "is_noted", "seconds"),
    [
        (False, False, False, True, 0.7),
        (False, False, True, False, 3.0),
        (False, False, False, False, 0.7),
        (False, False, True, True, None),
        (False, True, False, False, None),
        (True, False, False, True, None),
        (True, False, True, False, None),
    ],
)
@on_loop
async def test_when_flush_is_asked_again_by_reference(
    short_path: Path,
    is_notified: bool,
    has_failed: bool,
    is_durable: bool,
    is_noted: bool,
    seconds: float | None,
) -> None:
    """With notifications Flush has the timer itself."""
    kind = NotifiedHarness if is_notified else Harness
    async with kind(short_path).running(interval_ms=700) as harness:
        client, started = harness.client, list[float]()
        client.timer = Mock(start=started.append)
        client.note_seconds, client.recheck_seconds = 3.0, 60.0
        failure = "EIO" if has_failed else None
        reached = 100 if is_durable else 0
        harness.flush.outcome = FlushOutcome(reached, failure, 1 << 40, noted=is_noted)
        client.reached, client.wanted = 0, 100
        assert not await client.work()
        assert started == ([] if seconds is None else [seconds])


@on_loop
async def test_descriptors_are_sent_again_to_a_flush_that_lacks_them(harness: Harness) -> None:
    async with harness.running():
        sent: list[int] = []
        harness.client.send_descriptors = lambda begin=None: sent.append(1)  # type: ignore[method-assign]
        harness.append(100)
        harness.flush.outcome = FlushOutcome(0, None, 0)
        harness.client.request_sync()
        while len(sent) < 2:
            await asyncio.sleep(0)
        harness.flush.outcome = None
        harness.client.request_sync()
        await harness.wait_flushed(100)


@on_loop
async def test_descriptors_of_a_segment_are_sent_until_they_have_arrived_and_then_no_more(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[int]] = []
    arrives = [False]

    def send(_path: Path, segments: list[tuple[int, int]]) -> bool:
        sent.append([start for start, _ in segments])
        return arrives[-1]

    monkeypatch.setattr(flush_client, "send_descriptors", send)
    async with harness.running():
        sent.clear()
        counts = []
        for arrived, end in ((False, 10), (False, 20), (True, 30), (True, 40), (True, 4_096)):
            arrives.append(arrived)
            harness.append(end)
            counts.append(len(sent))
        harness.add_segment(SEGMENT_BYTES)
        for end in (SEGMENT_BYTES + 1, SEGMENT_BYTES + 2):
            harness.append(end)
            counts.append(len(sent))
        assert counts == [1, 2, 3, 3, 3, 4, 4]
        assert sent[-1] == [0, SEGMENT_BYTES]


@on_loop
async def test_a_flush_that_was_away_while_the_log_rolled_gets_all_descriptors(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[int]] = []

    def send(_path: Path, segments: list[tuple[int, int]]) -> bool:
        sent.append([start for start, _ in segments])
        return True

    monkeypatch.setattr(flush_client, "send_descriptors", send)
    async with harness.running(is_attached=False):
        harness.append(100)
        harness.add_segment(SEGMENT_BYTES)
        end = SEGMENT_BYTES + 10
        await harness.sync(end)
        await attached(harness.client)
        # It was attached with what the Broker knew before the log rolled.
        harness.client.on_attached({"flushed": 100})
        assert sent[-1] == [0, SEGMENT_BYTES]
        await harness.sync(end + 10)
        assert harness.flush.called("sync")[-1][1]["flushed"] == end


def test_descriptions_of_durable_segments_are_let_go(harness: Harness) -> None:
    own = OwnSync(harness.fs, harness.files)
    assert [start for start, _ in own.adopt(0)] == [0]
    harness.add_segment(SEGMENT_BYTES)
    assert [start for start, _ in own.adopt(10)] == [0, SEGMENT_BYTES]
    assert own.held_end == 2 * SEGMENT_BYTES
    held = harness.fs.descriptor_count
    assert len(own.adopt(SEGMENT_BYTES - 1)) == 2 and harness.fs.descriptor_count == held
    assert [start for start, _ in own.adopt(SEGMENT_BYTES)] == [SEGMENT_BYTES]
    assert harness.fs.descriptor_count == held - 1
    own.close()
    harness.files.close()
    assert harness.fs.descriptor_count == 0


class NotifiedHarness(Harness):
    """The same with notifications; `receiver` is Flush's end."""

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Self]:
        self.receiver = NotificationSocket(self.directory / "flush.socket")
        with closing(self.receiver), shared_watermarks(self.directory) as self.shared:
            async with super().running(**options):
                yield self

    def watermark(self, name: SharedWatermark) -> int:
        assert self.shared is not None
        return self.shared.get(name)

    def set_flushed(self, end: int) -> None:
        assert self.shared is not None
        self.shared.set(SharedWatermark.FLUSHED, end)


@on_loop
async def test_a_notification_is_answered_by_a_watermark(short_path: Path) -> None:
    async with NotifiedHarness(short_path).running() as harness:
        harness.append(100)
        assert (
            harness.watermark(SharedWatermark.APPENDED)
            == harness.watermark(SharedWatermark.COMMITTED)
            == 100
        )
        harness.client.request_sync()
        assert harness.receiver.drain() == [] and harness.receiver.received_count == 1
        harness.set_flushed(100)
        harness.client.read_watermark()
        assert harness.events.flushed_to == 100
        assert harness.flush.called("sync") == []


@on_loop
async def test_a_notification_that_brings_nothing_is_followed_by_a_call(short_path: Path) -> None:
    async with NotifiedHarness(short_path).running() as harness:
        harness.client.recheck_seconds = 0.01
        await harness.sync(100)
        assert len(harness.flush.called("sync")) == 1


@on_loop
async def test_a_waiting_request_is_answered_at_once_when_flush_dies(short_path: Path) -> None:
    async with NotifiedHarness(short_path).running() as harness:
        harness.client.recheck_seconds = 1e6
        harness.append(100)
        harness.client.request_sync()
        await harness.client.stop()
        harness.client.on_lost()
        await harness.wait_flushed(100)
        assert harness.client.own_count == 1


@on_loop
async def test_without_a_waiting_request_flush_may_die_without_a_sync(
    short_path: Path,
) -> None:
    async with NotifiedHarness(short_path).running() as harness:
        harness.append(100)
        harness.client.request_sync()
        harness.set_flushed(100)
        await harness.client.stop()
        harness.client.on_lost()
        assert harness.events.flushed_to == 100
    assert harness.client.own_count == 0


@on_loop
async def test_a_timed_flush_whose_notification_is_lost_is_noticed_and_not_repeated(
    short_path: Path,
) -> None:
    async with NotifiedHarness(short_path).running() as harness:
        harness.client.recheck_seconds = 0.01
        harness.append(100)
        await asyncio.sleep(0.05)
        assert harness.events.flushed_to == 0
        harness.set_flushed(100)
        await harness.wait_flushed(100)
        assert harness.flush.called("sync") == []


@on_loop
async def test_a_store_time_that_falls_is_not_stored(short_path: Path) -> None:
    async with NotifiedHarness(short_path).running() as harness:
        harness.client.on_appended(appended=10, committed=10, stored_ms=50)
        harness.client.on_appended(appended=20, committed=20, stored_ms=40)
        assert harness.watermark(SharedWatermark.STORED_MS) == 50


@on_loop
async def test_a_small_last_message_is_flushed_without_a_request(harness: Harness) -> None:
    """Flush does not flush a few bytes at once; nothing else may come, so it is asked again."""
    async with harness.running(interval_ms=10):
        harness.flush.outcome = FlushOutcome(0, None, 1 << 40)
        harness.append(100)
        while len(harness.flush.called("sync")) < 3:
            await asyncio.sleep(0.001)
        harness.flush.outcome = None
        await harness.wait_flushed(100)
        assert not any(request["force"] for _, request in harness.flush.called("sync"))
        asked_count = len(harness.flush.called("sync"))
        await asyncio.sleep(0.05)
        assert len(harness.flush.called("sync")) == asked_count, "an idle broker asks for nothing"


@on_loop
async def test_a_timed_flush_comes_when_flush_is_attached_later(harness: Harness) -> None:
    async with harness.running(is_attached=False, interval_ms=10):
        harness.append(100)
        await asyncio.sleep(0.03)
        assert harness.events.flushed_to == 0 and harness.client.own_count == 0
        await attached(harness.client)
        await harness.wait_flushed(100)
