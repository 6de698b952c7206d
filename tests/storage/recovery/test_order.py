"""The order in which recovery makes things durable: a crash in between must show what is left."""

import errno
from contextlib import closing

import pytest

from tests.fakes.logs import write_file
from tests.storage.recovery.test_steps import BYTES, CONFIG, CrashedStore, dispatched_offset, noted
from wakelog.storage.durability.marks import AbortFile, FailedSyncMark
from wakelog.storage.durability.sum_file import sum_names
from wakelog.storage.durability.sum_keeper import SumWriter
from wakelog.storage.durability.watermark import Watermark, read_mark
from wakelog.storage.errors import StoreFailed
from wakelog.storage.recovery import steps
from wakelog.storage.recovery.queues import QueueRepair


def torn(at: int) -> CrashedStore:
    """Return a store whose log is known to be durable up to a record that is torn."""
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    with closing(Watermark(crashed.fs, CONFIG.paths.watermark)) as watermark:
        watermark.lower(crashed.places[at])
    crashed.overwrite(crashed.places[at], b"\x55" * 100)
    return crashed


def test_the_position_is_lower_before_queues_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a cut queue and one not yet cut would both pass for whole after a crash."""
    crashed = torn(21)
    seen = []

    def cut_at(self: QueueRepair, log_end: int) -> tuple[()]:
        seen.append((log_end, dispatched_offset(crashed)))
        return ()

    monkeypatch.setattr(QueueRepair, "cut_at", cut_at)
    crashed.recover()
    assert seen == [(crashed.places[21], crashed.places[21])]


def test_what_is_kept_is_synced_before_it_is_called_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A killed broker may have left it in the page cache alone."""
    crashed = torn(21)

    def fail(*_: object) -> None:
        raise StoreFailed("/store", "sync", OSError(errno.EIO, "no"))

    monkeypatch.setattr(steps, "sync_segments", fail)
    with closing(Watermark(crashed.fs, CONFIG.paths.watermark)) as watermark:
        watermark.lower(crashed.places[20])
    with pytest.raises(StoreFailed):
        crashed.recover()
    assert read_mark(crashed.fs, CONFIG.paths.watermark).physical_offset == crashed.places[20]


def test_the_abort_mark_of_a_killed_broker_is_durable_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it what recovery wrote would be another broker's."""
    crashed = torn(21)

    def fail(_: AbortFile) -> None:
        raise StoreFailed("/store/abort", "sync", OSError(errno.EIO, "no"))

    monkeypatch.setattr(AbortFile, "create", fail)
    before = crashed.fs.calls["pwrite"]
    with pytest.raises(StoreFailed):
        crashed.recover()
    assert crashed.fs.calls["pwrite"] == before


def test_the_mark_of_a_failed_sync_outlives_recovery() -> None:
    """The step after the abort file removes it."""
    crashed = CrashedStore(clean=True)
    mark = FailedSyncMark(crashed.fs, CONFIG.paths)
    mark.set()
    crashed.recover()
    assert mark.is_set()


def test_sums_of_what_another_broker_may_have_written_are_gone() -> None:
    crashed = CrashedStore(watermark=True)
    writer = SumWriter(crashed.fs, CONFIG)
    while writer.step(crashed.end, BYTES):
        pass
    writer.close()
    names = sum_names(crashed.fs, CONFIG.paths)
    write_file(crashed.fs, CONFIG.paths.lock, b"lock")
    crashed.recover()
    assert sum_names(crashed.fs, CONFIG.paths) == names[:-3]
