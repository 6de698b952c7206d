"""Recovery from end to end: after a clean stop, a kill, and a crash that tore the log."""

import errno
import struct
from typing import Any

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, put, store_config
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.durability.dispatched import DispatchedFile, IndexEnd, read_dispatched
from wakelog.storage.durability.marks import FailedSyncMark
from wakelog.storage.durability.sum_keeper import SumWriter, compare_sums
from wakelog.storage.durability.watermark import Watermark, read_mark
from wakelog.storage.errors import DamagedStore, StoreError, StoreFull
from wakelog.storage.message_store import MessageStore
from wakelog.storage.paths import offset_name
from wakelog.storage.recovery import steps
from wakelog.storage.recovery.steps import (
    RecoveryReport,
    recover,
)

BYTES = 4096
KEY = ("TopicTest", 0)
CONFIG = store_config(commit_log_file_bytes=BYTES)
SOME_INDEX = IndexEnd(1, 1)


class CrashedStore:
    """A store of 30 messages, one a second, eight to a segment, whose broker is gone.

    Unless the stop was clean nothing is known to be durable, but by the checkpoint.
    """

    def __init__(
        self, *, clean: bool = False, dispatched: int = 30, watermark: bool = False, **times: int
    ) -> None:
        self.fs = MemoryFileSystem()
        self.store: MessageStore = open_store(self.fs, CONFIG)
        self.places: list[int] = []
        for i in range(30):
            if i == dispatched:
                dispatch(self.store, self.fs, begin=0)
            (result,) = put(
                self.store,
                b"%3d" % i * 130,
                now_ms=NOW_MS + 1000 * i,
                properties_text=f"KEYS\x01key{i}",
            )
            self.places.append(result.physical_offset)
        self.end = self.store.max_physical_offset
        if dispatched == 30:
            dispatch(self.store, self.fs, begin=0)
        self.store.close(dispatch_behind_bytes=0 if clean else 1)
        if not clean:
            times = {"physic_ms": 0, "logics_ms": 0, "index_ms": 0} | times
            write_file(self.fs, CONFIG.paths.checkpoint, struct.pack(">qqq4072x", *times.values()))
            if not watermark:
                self.fs.unlink(CONFIG.paths.watermark)

    def overwrite(self, physical_offset: int, data: bytes) -> None:
        start = physical_offset - physical_offset % BYTES
        path = f"/store/commitlog/{start:020d}"
        content = bytearray(read_file(self.fs, path))
        content[physical_offset - start : physical_offset - start + len(data)] = data
        write_file(self.fs, path, bytes(content))

    def recover(self, config: StoreConfig = CONFIG, **options: Any) -> RecoveryReport:
        return recover(self.fs, config, NOW_MS, **options).report


def test_a_new_directory_is_an_empty_store() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    report = recover(fs, CONFIG, NOW_MS).report
    assert (report.log_begin, report.log_end, report.dispatch_from) == (0, 0, 0)
    assert (report.clean_exit, report.queue_offsets) == (True, {})


def test_after_a_clean_stop_three_segments_are_checked() -> None:
    crashed = CrashedStore(clean=True)
    report = crashed.recover()
    assert report.clean_exit
    assert (report.checked_from, report.log_end) == (BYTES, crashed.end)
    assert report.dispatch_from == crashed.end
    assert report.queue_offsets == {KEY: 30}
    assert (report.quarantined, report.index_files_removed) == ((), ())


def test_after_a_kill_everything_young_is_checked_and_dispatched_again() -> None:
    crashed = CrashedStore(dispatched=20)
    report = crashed.recover()
    assert not report.clean_exit
    assert (report.checked_from, report.log_end, report.dispatch_from) == (0, crashed.end, 0)
    # Ten messages have no entry yet; the log goes on counting behind them all the same.
    assert report.queue_offsets == {KEY: 30}


@pytest.mark.parametrize(
    ("physic_s", "logics_s", "segment"),
    [(0, 0, 0), (3, 3, 0), (10, 30, 0), (11, 30, 1), (30, 11, 1), (30, 22, 2), (30, 30, 3)],
)
def test_the_checkpoint_says_where_to_begin(physic_s: int, logics_s: int, segment: int) -> None:
    """Segments begin with messages 0, 8, 16 and 24; 3 s are taken off the lower time."""
    crashed = CrashedStore(physic_ms=NOW_MS + 1000 * physic_s, logics_ms=NOW_MS + 1000 * logics_s)
    report = crashed.recover()
    assert report.checked_from == segment * BYTES
    assert report.dispatch_from <= report.checked_from
    assert report.log_end == crashed.end


def test_an_index_that_an_operator_removed_is_made_again() -> None:
    crashed = CrashedStore(physic_ms=NOW_MS + 30_000, logics_ms=NOW_MS + 30_000)
    first, second = crashed.recover(), crashed.recover()
    assert (first.dispatch_from, len(second.index_files_removed)) == (0, 0)
    assert second.dispatch_from == 0
    crashed.fs.unlink(f"/store/commitlog/{0:020d}")
    assert crashed.recover().dispatch_from == BYTES


def test_a_torn_tail_is_cut_for_good_and_quarantined() -> None:
    crashed = CrashedStore()
    torn = crashed.places[21]
    before = read_file(crashed.fs, f"/store/commitlog/{2 * BYTES:020d}")
    crashed.overwrite(torn, b"\x55" * 100)
    report = crashed.recover()
    assert report.log_end == torn
    assert report.queue_offsets == {KEY: 21}
    assert report.consume_queues_cut == (KEY,)
    assert report.commit_log_files_removed == (f"/store/commitlog/{3 * BYTES:020d}",)
    # On the disk there is nothing left that could be taken for a record.
    after = read_file(crashed.fs, f"/store/commitlog/{2 * BYTES:020d}")
    assert after == before[: torn - 2 * BYTES].ljust(BYTES, b"\0")
    assert [piece.physical_offset for piece in report.quarantined] == [torn, 3 * BYTES]
    first, second = (read_file(crashed.fs, piece.path) for piece in report.quarantined)
    assert first == b"\x55" * 100 + before[torn - 2 * BYTES + 100 :].rstrip(b"\0")
    assert second.count(b" 25") == 130


def test_a_log_cut_at_a_segments_begin_ends_there_again() -> None:
    # The segment went, and the next recovery ended the log before the blank in front of it.
    crashed = CrashedStore(physic_ms=NOW_MS, logics_ms=NOW_MS)
    crashed.overwrite(3 * BYTES, bytes(8))
    first = crashed.recover()
    assert first.log_end == 3 * BYTES
    assert crashed.recover().log_end == 3 * BYTES
    assert crashed.fs.list_directory("/store/commitlog")[-1] == f"{3 * BYTES:020d}"


def test_a_record_whose_properties_were_never_written_ends_the_log() -> None:
    # Its body and so its CRC are right: the sector behind them is missing.
    crashed = CrashedStore()
    fs = crashed.fs = MemoryFileSystem()
    store = open_store(fs, CONFIG)
    (whole,) = put(store, b"b" * 340, properties_text="KEYS\x01" + "k" * 100)
    (torn,) = put(store, b"b" * 340, properties_text="KEYS\x01" + "k" * 100)
    store.close(dispatch_behind_bytes=1)
    write_file(fs, CONFIG.paths.checkpoint, bytes(4096))
    fs.unlink(CONFIG.paths.watermark)
    border = torn.physical_offset_end - torn.physical_offset_end % 512
    assert border > torn.physical_offset_end - 100
    crashed.overwrite(border, bytes(torn.physical_offset_end - border))
    report = crashed.recover()
    assert report.log_end == whole.physical_offset_end
    assert "never written" in report.end_reason


def test_after_a_crash_the_page_cache_is_not_trusted() -> None:
    crashed = CrashedStore()
    forgotten_count = crashed.fs.calls["forget_cached"]
    crashed.recover()
    segments_count = len(crashed.fs.list_directory("/store/commitlog"))
    assert crashed.fs.calls["forget_cached"] >= forgotten_count + segments_count
    stopped = CrashedStore(clean=True)
    forgotten_count = stopped.fs.calls["forget_cached"]
    stopped.recover()
    # But that of the watermark, which is read from the disk always.
    assert stopped.fs.calls["forget_cached"] == forgotten_count + 1


def test_recovering_twice_changes_nothing_more() -> None:
    crashed = CrashedStore()
    crashed.overwrite(crashed.places[21], b"\x55" * 100)
    first = crashed.recover()
    second = crashed.recover()
    assert second == first._replace(
        end_reason=second.end_reason,
        quarantined=(),
        commit_log_files_removed=(),
        consume_queues_cut=(),
        index_files_removed=(),
        watermark=first.log_end,
    )


def test_without_room_for_the_quarantine_nothing_is_cut() -> None:
    crashed = CrashedStore()
    crashed.overwrite(crashed.places[21], b"\x55" * 100)
    path = f"/store/commitlog/{2 * BYTES:020d}"
    before = read_file(crashed.fs, path)
    crashed.fs.fail("pwrite", number=28)
    with pytest.raises(StoreFull):
        crashed.recover()
    assert read_file(crashed.fs, path) == before
    assert crashed.recover().log_end == crashed.places[21]


def test_damage_below_the_checkpoint_is_reported_and_stays() -> None:
    crashed = CrashedStore(physic_ms=NOW_MS + 29_000)
    crashed.overwrite(crashed.places[21] + 150, b"\x55")
    report = crashed.recover()
    assert (report.log_end, report.quarantined) == (crashed.end, ())
    assert [stretch.begin for stretch in report.damaged] == [crashed.places[21]]
    assert report.queue_offsets == {KEY: 30}
    assert crashed.recover(cut_at_damage=True).log_end == crashed.places[21]


def test_a_slave_cuts_at_damage_and_gets_the_rest_again() -> None:
    crashed = CrashedStore(physic_ms=NOW_MS + 29_000)
    crashed.overwrite(crashed.places[21] + 150, b"\x55")
    slave = store_config(commit_log_file_bytes=BYTES, broker_role=BrokerRole.SLAVE)
    assert crashed.recover(slave).log_end == crashed.places[21]


def test_index_files_above_the_checkpoint_are_made_again() -> None:
    """Without safety for the index 4.9.3 would begin at the third segment and lose older keys."""
    crashed = CrashedStore(physic_ms=NOW_MS + 29_000, logics_ms=NOW_MS + 29_000)
    report = crashed.recover()
    assert len(report.index_files_removed) == 1
    assert report.checked_from == 3 * BYTES
    assert report.dispatch_from == 0
    assert crashed.recover().index_files_removed == ()


def noted(crashed: CrashedStore, physical_offset: int, index_end: IndexEnd = SOME_INDEX) -> None:
    """Say that queues and index are durable up to there."""
    file = DispatchedFile(crashed.fs, CONFIG.paths.dispatched)
    file.note(physical_offset, index_end)
    file.close()


def dispatched_offset(crashed: CrashedStore) -> int:
    return read_dispatched(crashed.fs, CONFIG.paths.dispatched).physical_offset


def test_what_is_durable_is_left_alone() -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.places[25])
    report = crashed.recover()
    assert report.checked_from == report.dispatch_from == crashed.places[25]
    assert report.records_checked_count == 5
    assert (report.log_end, report.queue_offsets) == (crashed.end, {KEY: 30})
    assert report.index_files_removed == ()
    assert report.last_store_timestamp_ms == NOW_MS + 29_000
    assert dispatched_offset(crashed) == crashed.places[25]


def test_the_last_record_is_checked_if_nothing_follows_the_positions() -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    report = crashed.recover()
    assert (report.checked_from, report.log_end) == (crashed.end, crashed.end)
    assert (report.records_checked_count, report.queue_offsets) == (0, {KEY: 30})
    assert report.last_store_timestamp_ms == NOW_MS + 29_000


def test_damage_far_below_is_left_to_its_readers() -> None:
    """And for `wakelog log verify`; a start does not read what was durable."""
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.places[20])
    crashed.overwrite(crashed.places[10] + 150, b"\x55")
    report = crashed.recover()
    assert (report.log_end, report.damaged, report.positions_doubt) == (crashed.end, (), None)
    assert report.checked_from == crashed.places[20]


@pytest.mark.parametrize("second", [19, 22, 29])
def test_damage_makes_recovery_check_more(second: int) -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.places[20])
    for victim in (10, second):
        crashed.overwrite(crashed.places[victim] + 150, b"\x55")
    report = crashed.recover()
    assert (report.checked_from, report.log_end) == (0, crashed.end)
    places = [crashed.places[10], crashed.places[second]]
    assert [one.begin for one in report.damaged] == places
    assert report.positions_doubt is not None
    assert (report.quarantined, report.queue_offsets) == ((), {KEY: 30})
    assert dispatched_offset(crashed) == 0


@pytest.mark.parametrize("lost", [23, 24, 25, 29])
def test_a_tail_that_is_gone_is_listed_and_its_places_are_not_given_again(lost: int) -> None:
    """The disk lost what it had called durable; the queues still know of it."""
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    for place in crashed.places[lost:]:
        crashed.overwrite(place, bytes(crashed.places[1]))
    report = crashed.recover()
    assert (report.log_end, report.quarantined) == (crashed.end, ())
    assert [one[:2] for one in report.damaged] == [(crashed.places[lost], crashed.end)]
    assert report.queue_offsets == {KEY: 30}


def test_a_position_between_records_is_not_trusted() -> None:
    """Dispatch would begin in the middle of a record, and pass over it."""
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.places[25] + 10)
    report = crashed.recover()
    assert (report.checked_from, report.dispatch_from) == (0, 0)
    assert report.positions_doubt == (
        f"the records in front of {crashed.places[25] + 10} are not what they were"
    )


def test_a_short_segment_below_the_positions_is_refused() -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    write_file(crashed.fs, f"/store/commitlog/{BYTES:020d}", bytes(BYTES - 1))
    with pytest.raises(DamagedStore, match="its length is 4095"):
        crashed.recover()


def test_an_index_that_was_switched_off_is_judged_by_the_checkpoint() -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end, IndexEnd())
    report = crashed.recover()
    assert report.checked_from == crashed.end
    assert (len(report.index_files_removed), report.dispatch_from) == (1, 0)


@pytest.mark.parametrize("why", ["another owner", "failed sync", "no watermark", "compat"])
def test_a_position_that_cannot_be_trusted_is_removed(why: str) -> None:
    crashed = CrashedStore(watermark=why != "no watermark")
    noted(crashed, crashed.end)
    if why == "another owner":
        write_file(crashed.fs, CONFIG.paths.lock, b"lock")
    if why == "failed sync":
        FailedSyncMark(crashed.fs, CONFIG.paths).set()
    report = crashed.recover(cut_at_damage=why == "compat")
    assert report.after_another_broker is (why == "another owner")
    assert (report.checked_from, report.dispatch_from) == (0, 0)
    assert len(report.index_files_removed) == 1
    assert dispatched_offset(crashed) == 0


def test_a_store_that_only_a_rocketmq_broker_had_is_known() -> None:
    crashed = CrashedStore()
    write_file(crashed.fs, CONFIG.paths.lock, b"lock")
    assert crashed.recover().after_another_broker


def test_the_position_goes_down_with_the_logs_end() -> None:
    """Else it would speak of messages that come to lie there later."""
    crashed = CrashedStore(watermark=True)
    watermark = Watermark(crashed.fs, CONFIG.paths.watermark)
    watermark.lower(crashed.places[20])
    watermark.close()
    noted(crashed, crashed.end)
    crashed.overwrite(crashed.places[21], bytes(8))
    report = crashed.recover()
    assert report.log_end == dispatched_offset(crashed) == crashed.places[21]
    assert report.queue_offsets == {KEY: 21}


def test_after_a_clean_stop_the_index_stays() -> None:
    crashed = CrashedStore(clean=True)
    assert crashed.recover().index_files_removed == ()
    assert crashed.fs.list_directory("/store/index")


def test_a_copied_log_is_dispatched_from_its_begin() -> None:
    crashed = CrashedStore(clean=True)
    for number in (0, 1):
        crashed.fs.unlink(f"/store/commitlog/{number * BYTES:020d}")
    directory = CONFIG.paths.consume_queue(*KEY)
    for name in crashed.fs.list_directory(directory):
        crashed.fs.unlink(f"{directory}/{name}")
    report = crashed.recover()
    assert (report.log_begin, report.dispatch_from) == (2 * BYTES, 2 * BYTES)
    assert report.queue_offsets == {KEY: 30}


def test_damage_in_old_segments_does_not_cut_a_log_that_is_dispatched_from_its_begin() -> None:
    crashed = CrashedStore(clean=True)
    directory = CONFIG.paths.consume_queue(*KEY)
    for name in crashed.fs.list_directory(directory):
        crashed.fs.unlink(f"{directory}/{name}")
    crashed.overwrite(crashed.places[3], b"\x55" * 8)
    report = crashed.recover()
    assert (report.checked_from, report.log_end) == (0, crashed.end)
    assert [stretch.begin for stretch in report.damaged] == [crashed.places[3]]


def test_queues_without_a_log_are_emptied() -> None:
    """As in 4.9.3: entries would point to messages that were never written."""
    crashed = CrashedStore(clean=True)
    for name in crashed.fs.list_directory("/store/commitlog"):
        crashed.fs.unlink(f"/store/commitlog/{name}")
    with pytest.raises(DamagedStore, match="put the missing segments back"):
        crashed.recover()
    crashed.fs.unlink(CONFIG.paths.watermark)
    report = crashed.recover()
    assert (report.log_begin, report.log_end, report.dispatch_from) == (0, 0, 0)
    assert report.queue_offsets.get(KEY, 0) == 0


def test_a_queue_that_no_record_belongs_to_goes_where_the_whole_log_was_checked() -> None:
    crashed = CrashedStore()
    unused = f"{CONFIG.paths.consume_queue('Unused', 0)}/{offset_name(0)}"
    write_file(crashed.fs, unused, bytes(CONFIG.consume_queue_bytes))
    report = crashed.recover()
    assert report.checked_from == 0
    assert not crashed.fs.exists(unused)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("victim", [8, 20, 28, 29])
def test_damage_below_the_watermark_is_never_cut(victim: int, clean: bool) -> None:
    crashed = CrashedStore(clean=clean, watermark=True)
    place = crashed.places[victim]
    crashed.overwrite(place, b"\x55" * 100)
    report = crashed.recover()
    end = crashed.end if victim == 29 else crashed.places[victim + 1]
    assert [stretch[:2] for stretch in report.damaged] == [(place, end)]
    assert (report.watermark, report.log_end) == (crashed.end, crashed.end)
    assert (report.quarantined, report.commit_log_files_removed) == ((), ())
    assert report.queue_offsets == {KEY: 30}
    assert crashed.recover().damaged == report.damaged


def test_what_lies_above_the_watermark_is_cut() -> None:
    crashed = CrashedStore(watermark=True)
    crashed.overwrite(crashed.end, b"\x55" * 100)
    report = crashed.recover()
    assert (report.log_end, report.damaged) == (crashed.end, ())
    assert [piece.physical_offset for piece in report.quarantined] == [crashed.end]


def test_a_cut_below_the_watermark_lowers_it_first() -> None:
    crashed = CrashedStore(watermark=True)
    crashed.overwrite(crashed.places[21], b"\x55" * 100)
    report = crashed.recover(cut_at_damage=True)
    assert report.log_end == crashed.places[21]
    assert read_mark(crashed.fs, CONFIG.paths.watermark).physical_offset == report.log_end
    slave = store_config(commit_log_file_bytes=BYTES, broker_role=BrokerRole.SLAVE)
    assert crashed.recover(slave).watermark == 0


def test_a_watermark_is_lowered_before_anything_is_copied_or_cut() -> None:
    """After a cut a higher one would make the new end look like damage."""
    crashed = CrashedStore(watermark=True)
    crashed.overwrite(crashed.places[20] + 150, b"\x55")
    crashed.fs.fail("pwrite")
    with pytest.raises(StoreError):
        crashed.recover(cut_at_damage=True)
    assert not crashed.fs.exists("/store/wakelog.quarantine")
    assert crashed.recover(cut_at_damage=True).log_end == crashed.places[20]


def test_sums_above_a_cut_go_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would call damaged whatever is written there then."""
    crashed = CrashedStore(watermark=True)
    writer = SumWriter(crashed.fs, CONFIG)
    while writer.step(crashed.end, BYTES):
        pass
    place = crashed.places[20]

    def is_summed_behind() -> bool:
        compared = compare_sums(crashed.fs, CONFIG)
        return sum(x if isinstance(x, int) else x.end - x.begin for x in compared) > place

    def fail(*_: object) -> None:
        raise StoreFull("/store", "cut", OSError(errno.ENOSPC, "no space"))

    assert is_summed_behind()
    crashed.overwrite(place + 150, b"\x55")
    monkeypatch.setattr(steps, "copy_to_quarantine", fail)
    with pytest.raises(StoreFull):
        crashed.recover(cut_at_damage=True)
    assert not is_summed_behind()


def test_a_log_that_is_cut_whole_keeps_its_place() -> None:
    crashed = CrashedStore()
    for number in (0, 1):
        crashed.fs.unlink(f"/store/commitlog/{number * BYTES:020d}")
    crashed.overwrite(2 * BYTES, b"\x55" * 8)
    recovered = recover(crashed.fs, CONFIG, NOW_MS)
    assert (recovered.report.log_begin, recovered.report.log_end) == (2 * BYTES, 2 * BYTES)
    assert [file.start_offset for file in recovered.files.files] == [2 * BYTES]
    assert crashed.recover().log_end == 2 * BYTES


def test_a_gap_is_refused_as_4_9_3_has_it_with_nothing_changed() -> None:
    crashed = CrashedStore()
    crashed.fs.unlink(f"/store/commitlog/{BYTES:020d}")
    with pytest.raises(DamagedStore):
        crashed.recover(cut_at_damage=True)
    assert len(crashed.fs.list_directory("/store/commitlog")) == 3


@pytest.mark.parametrize("operation", ["list_directory", "open", "pread"])
def test_whatever_cannot_be_read_is_a_failure_of_the_store(operation: str) -> None:
    for nth in range(1, 1000):
        crashed = CrashedStore(index_ms=NOW_MS + 60_000)
        calls_count = crashed.fs.calls[operation]
        crashed.fs.fail(operation, nth=nth, number=errno.EMFILE)
        try:
            crashed.recover()
        except StoreError:
            continue
        assert crashed.fs.calls[operation] - calls_count < nth
        break
    assert nth > 2


def test_recovery_leaves_no_descriptor_but_the_segments() -> None:
    crashed = CrashedStore()
    recovered = recover(crashed.fs, CONFIG, NOW_MS)
    recovered.files.close()
    assert crashed.fs.descriptor_count == 0


WRITING = ("pwrite", "datasync", "sync", "sync_directory", "unlink")


@pytest.mark.parametrize("operation", WRITING)
def test_recovery_that_fails_anywhere_is_repeated_with_the_same_result(operation: str) -> None:
    """Fail the first, the second, ... operation of a kind until none is left to fail."""

    def torn() -> CrashedStore:
        crashed = CrashedStore(dispatched=27)
        crashed.overwrite(crashed.places[21], b"\x55" * 100)
        return crashed

    undisturbed = torn()
    expected = undisturbed.recover()
    failures_count = 0
    for nth in range(1, 1000):
        crashed = torn()
        crashed.fs.fail(operation, nth=nth)
        try:
            crashed.recover()
        except StoreError:
            failures_count += 1
            report = crashed.recover()
            assert (report.log_end, report.dispatch_from, report.queue_offsets) == (
                expected.log_end,
                expected.dispatch_from,
                expected.queue_offsets,
            )
            assert derived_and_log(crashed.fs) == derived_and_log(undisturbed.fs)
            assert crashed.fs.list_directory("/store/wakelog.quarantine")
        else:
            break
    assert failures_count > 0, f"recovery does no {operation}"


def derived_and_log(fs: MemoryFileSystem) -> dict[str, bytes]:
    """Every file of the log and its queues with its content."""
    found = {}
    for directory in ("/store/commitlog", CONFIG.paths.consume_queue(*KEY)):
        for name in fs.list_directory(directory):
            found[f"{directory}/{name}"] = read_file(fs, f"{directory}/{name}")
    return found


def test_a_log_of_many_segments_needs_few_descriptors() -> None:
    crashed = CrashedStore()
    recovered = recover(crashed.fs, CONFIG, NOW_MS)
    assert len(recovered.files.files) == 4
    assert crashed.fs.descriptor_count <= 1
