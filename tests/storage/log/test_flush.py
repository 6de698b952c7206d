"""When the log is synced, up to where, and what a failed sync means ever after."""

import errno

import pytest

from tests.fakes.logs import small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.config import FlushDiskType
from wakelog.storage.errors import NotWriteable, StoreFailed
from wakelog.storage.log.flush import Flush, FlushDecision, GatherTimer, SegmentSync

SEGMENT = 1 << 20
PAGE = 4096


@pytest.mark.parametrize(
    ("begin", "end", "least_pages", "answer"),
    [
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, 4 * PAGE - 1, 4, False),
        (0, 4 * PAGE, 4, True),
        (PAGE - 1, PAGE + 1, 1, True),  # borders count, not bytes
        (PAGE, 2 * PAGE - 1, 1, False),
        (SEGMENT - 1, SEGMENT, 4, True),  # the segment is full
        (SEGMENT - 1, SEGMENT + 1, 4, True),
        (SEGMENT, SEGMENT + 1, 4, False),
    ],
)
def test_what_is_worth_a_flush(begin: int, end: int, least_pages: int, answer: bool) -> None:
    timer = GatherTimer(
        0,
        interval_ms=200,
        least_pages=least_pages,
        thorough_interval_ms=1_000,
        segment_bytes=SEGMENT,
    )
    assert timer.is_due(begin, end, 0) is answer
    assert timer.next_step_ms == 200 and not timer.is_due(begin, end, 199)
    assert timer.is_due(begin, end, 200) is answer
    assert timer.is_due(begin, end, 1_000) is (end > begin)  # once a second any byte is enough
    assert timer.is_due(begin, end, 1_200) is answer


def flush(*, synchronous: bool = False) -> Flush:
    kind = FlushDiskType.SYNC_FLUSH if synchronous else FlushDiskType.ASYNC_FLUSH
    return Flush(small_config(commit_log_file_bytes=SEGMENT, flush_disk_type=kind), 0, now_ms=0)


def step(core: Flush, offset: int, now_ms: int) -> FlushDecision:
    return core.step(committed_offset=offset, appended_offset=offset, now_ms=now_ms)


def test_new_times_are_used_by_the_next_step() -> None:
    core = flush()
    core.use_settings(
        small_config(
            commit_log_file_bytes=SEGMENT,
            flush_interval_commit_log_ms=7,
            flush_commit_log_least_pages=1,
        )
    )
    assert step(core, PAGE, 0) == FlushDecision(PAGE, 7)


class TestTimed:
    def test_four_pages_are_flushed_every_500_ms(self) -> None:
        core = flush()
        assert step(core, 4 * PAGE, 0) == FlushDecision(4 * PAGE, 500)
        core.succeeded(4 * PAGE)
        assert step(core, 8 * PAGE, 499) == FlushDecision(None, 500)
        assert step(core, 8 * PAGE - 1, 500) == FlushDecision(None, 1_000)
        assert step(core, 8 * PAGE, 1_000).flush_to == 8 * PAGE

    def test_every_10_s_it_takes_whatever_gathered(self) -> None:
        core = flush()
        for now_ms in range(0, 10_000, 500):
            assert step(core, 1, now_ms).flush_to is None
        assert step(core, 1, 10_000).flush_to == 1
        core.succeeded(1)
        assert step(core, 1, 20_000).flush_to is None

    def test_a_full_segment_is_flushed_however_little_it_gained(self) -> None:
        core = flush()
        step(core, SEGMENT - 8, 0)
        core.succeeded(SEGMENT - 8)
        assert step(core, SEGMENT + 1, 500).flush_to == SEGMENT + 1

    def test_a_stop_flushes_everything(self) -> None:
        core = flush()
        step(core, 1, 0)
        decision = core.step(committed_offset=1, appended_offset=1, now_ms=1, force=True)
        assert decision.flush_to == 1


class TestGroupCommit:
    def test_it_flushes_at_once_whatever_gathered(self) -> None:
        core = flush(synchronous=True)
        assert step(core, 100, 0) == FlushDecision(100, None)
        assert step(core, 300, 1) == FlushDecision(None, None)
        core.succeeded(100)
        assert core.flushed_offset == 100
        assert step(core, 300, 1).flush_to == 300
        core.succeeded(300)
        assert step(core, 300, 2).flush_to is None
        assert core.statistics()["flush_count"] == 2


@pytest.mark.parametrize("synchronous", [False, True])
def test_after_a_failure_nothing_counts_as_flushed(synchronous: bool) -> None:
    core = flush(synchronous=synchronous)
    assert step(core, SEGMENT, 0).flush_to == SEGMENT
    core.failed("sync of segment 0 failed: Input/output error")
    core.failed("another")
    for now_ms in (1, 500, 20_000):
        assert step(core, 2 * SEGMENT, now_ms) == FlushDecision(None, None)
    assert core.flushed_offset == 0
    assert core.failure == "sync of segment 0 failed: Input/output error"


def test_what_another_process_made_durable_is_not_flushed_again() -> None:
    core = flush(synchronous=True)
    core.known_durable(100)
    assert core.flushed_offset == 100
    core.known_durable(50)
    assert step(core, 100, 0).flush_to is None and core.flushed_offset == 100
    assert step(core, 110, 0).flush_to == 110
    core.failed("sync of segment 0 failed: Input/output error")
    core.known_durable(200)
    assert core.flushed_offset == 100


def test_only_what_the_segments_hold_is_flushed() -> None:
    core = flush(synchronous=True)
    decision = core.step(committed_offset=10, appended_offset=50, now_ms=0)
    assert decision.flush_to == 10


@pytest.mark.parametrize(("committed", "appended"), [(99, 200), (200, 199)])
def test_positions_out_of_order_are_our_mistake(committed: int, appended: int) -> None:
    core = Flush(small_config(), 100, now_ms=0)
    with pytest.raises(AssertionError):
        core.step(committed_offset=committed, appended_offset=appended, now_ms=0)


class SyncLog(MemoryFileSystem):
    """Notes which descriptors were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[int] = []

    def datasync(self, fd: int) -> None:
        super().datasync(fd)
        self.synced.append(fd)


class TestSegmentSync:
    @pytest.fixture
    def fs(self) -> SyncLog:
        return SyncLog()

    def adopt(self, fs: SyncLog, sync: SegmentSync, *starts: int) -> list[int]:
        fds = [fs.open(f"/{start}", create=True) for start in starts]
        for start, fd in zip(starts, fds, strict=True):
            sync.adopt(start, fd)
        return fds

    def test_dirty_segments_are_synced_oldest_first(self, fs: SyncLog) -> None:
        sync = SegmentSync(fs, 100)
        fds = self.adopt(fs, sync, 200, 100, 0)
        sync.sync(50, 250)
        assert fs.synced == [fds[2], fds[1], fds[0]]
        sync.sync(250, 250)
        sync.sync(250, 260)
        assert fs.synced[3:] == [fds[0]]

    def test_a_border_belongs_to_the_segment_before(self, fs: SyncLog) -> None:
        sync = SegmentSync(fs, 100)
        fds = self.adopt(fs, sync, 0, 100)
        sync.sync(0, 100)
        assert fs.synced == [fds[0]]

    def test_old_segments_are_let_go(self, fs: SyncLog) -> None:
        sync = SegmentSync(fs, 100)
        self.adopt(fs, sync, 0, 100, 200)
        sync.sync(210, 220)
        assert sync.start_offsets == [200]
        sync.close()
        assert fs.descriptor_count == 0

    def test_a_new_descriptor_replaces_the_old(self, fs: SyncLog) -> None:
        sync = SegmentSync(fs, 100)
        self.adopt(fs, sync, 0, 0)
        assert fs.descriptor_count == 1

    def test_a_failed_sync_is_never_repeated_and_trusted(self, fs: SyncLog) -> None:
        sync = SegmentSync(fs, 100)
        self.adopt(fs, sync, 0, 100)
        fs.fail("datasync", nth=2, number=errno.EIO)
        with pytest.raises(StoreFailed):
            sync.sync(0, 150)
        calls = fs.calls["datasync"]
        with pytest.raises(NotWriteable, match="segment 100"):
            sync.sync(0, 150)
        with pytest.raises(NotWriteable):
            sync.sync(0, 10)
        assert fs.calls["datasync"] == calls

    def test_a_segment_without_descriptor_is_our_mistake(self, fs: SyncLog) -> None:
        with pytest.raises(AssertionError):
            SegmentSync(fs, 100).sync(0, 10)
