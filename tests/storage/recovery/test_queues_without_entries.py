"""Queues with files and no entry: what they lost is found, however often the machine goes down."""

from contextlib import closing

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.stores import dispatch, open_store, put
from tests.storage.recovery.test_steps import CONFIG, KEY, CrashedStore, dispatched_offset, noted
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.queue.entries import ENTRY

NEW_FILE = f"{CONFIG.paths.consume_queue('New', 0)}/{0:020d}"


def empty_queue(crashed: CrashedStore) -> None:
    """Let the disk lose the entries of `KEY`."""
    directory = CONFIG.paths.consume_queue(*KEY)
    for name in crashed.fs.list_directory(directory):
        path = f"{directory}/{name}"
        write_file(crashed.fs, path, bytes(len(read_file(crashed.fs, path))))


def make_new_queue(crashed: CrashedStore) -> None:
    """Do as a Reput that is killed after that."""
    crashed.fs.make_directories(NEW_FILE.rpartition("/")[0])
    write_file(crashed.fs, NEW_FILE, bytes(CONFIG.consume_queue_bytes))


@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_without_entries_has_lost_them(clean: bool) -> None:
    crashed = CrashedStore(clean=True)
    store = open_store(crashed.fs, CONFIG)
    put(store, b"last", topic="Other")
    dispatch(store, crashed.fs)
    end = store.max_physical_offset
    store.close(dispatch_behind_bytes=0 if clean else 1)
    noted(crashed, end)
    empty_queue(crashed)
    report = crashed.recover()
    assert (report.checked_from, report.dispatch_from, report.log_end) == (0, 0, end)
    assert report.queue_offsets == {KEY: 30, ("Other", 0): 1}
    assert report.positions_doubt == "queues have files and no entries: TopicTest/0"
    assert dispatched_offset(crashed) == 0


@pytest.mark.parametrize("watermark_behind", [0, 5])
def test_a_queue_whose_first_record_comes_again_has_lost_nothing(watermark_behind: int) -> None:
    """A Reput that is killed while it makes a queue leaves its file without an entry.

    What is dispatched may be durable in front of what the watermark says of the log.
    """
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    store = open_store(crashed.fs, CONFIG)
    put(store, b"first", topic="New")
    end = store.max_physical_offset
    store.close(dispatch_behind_bytes=1)
    make_new_queue(crashed)
    noted(crashed, crashed.end)
    with closing(Watermark(crashed.fs, CONFIG.paths.watermark)) as watermark:
        assert watermark.mark.physical_offset == end
        if watermark_behind:
            watermark.lower(crashed.places[-watermark_behind])
    report = crashed.recover()
    checked_from = [*crashed.places, crashed.end][30 - watermark_behind]
    assert (report.checked_from, report.dispatch_from) == (checked_from, crashed.end)
    assert (report.queue_offsets["New", 0], report.positions_doubt) == (1, None)


@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_that_was_dispatched_is_no_new_one(clean: bool) -> None:
    """Its first record is among those that are checked, and was dispatched."""
    crashed = CrashedStore(clean=clean, watermark=True)
    noted(crashed, crashed.end)
    with closing(Watermark(crashed.fs, CONFIG.paths.watermark)) as watermark:
        watermark.lower(crashed.places[0])
    empty_queue(crashed)
    assert crashed.recover().dispatch_from == 0


def test_a_new_queue_that_was_dispatched_has_lost_its_entry() -> None:
    """Its first record is among those that are checked, and lies below what comes again."""
    crashed = CrashedStore(watermark=True)
    store = open_store(crashed.fs, CONFIG)
    put(store, b"first", topic="New")
    put(store, b"behind")
    dispatch(store, crashed.fs, begin=crashed.end)
    end = store.max_physical_offset
    store.close(dispatch_behind_bytes=1)
    make_new_queue(crashed)
    noted(crashed, end)
    with closing(Watermark(crashed.fs, CONFIG.paths.watermark)) as watermark:
        watermark.lower(crashed.places[-5])
    report = crashed.recover()
    assert report.positions_doubt == "queues have files and no entries: New/0"
    assert (report.dispatch_from, report.queue_offsets) == (0, {KEY: 31, ("New", 0): 1})


def test_a_queue_of_which_a_later_record_comes_again_has_lost_those_before() -> None:
    crashed = CrashedStore(watermark=True)
    store = open_store(crashed.fs, CONFIG)
    put(store, b"dispatched", topic="Other")
    dispatch(store, crashed.fs, begin=crashed.end)
    dispatched = store.max_physical_offset
    put(store, b"not yet")
    store.close(dispatch_behind_bytes=1)
    empty_queue(crashed)
    noted(crashed, dispatched)
    report = crashed.recover()
    assert report.positions_doubt == "queues have files and no entries: TopicTest/0"
    assert (report.dispatch_from, report.queue_offsets) == (0, {KEY: 31, ("Other", 0): 1})


def test_what_was_lost_is_still_seen_after_a_second_crash() -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    empty_queue(crashed)
    reports = [crashed.recover() for _ in range(3)]
    assert {report.dispatch_from for report in reports} == {0}
    assert {report.queue_offsets[KEY] for report in reports} == {30}


def test_the_log_is_searched_once_for_a_queue_without_records() -> None:
    """After a power loss the disk may have a queue's name, and nothing of its first record."""
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    make_new_queue(crashed)
    assert crashed.recover().positions_doubt == "queues have files and no entries: New/0"
    assert not crashed.fs.exists(NEW_FILE.rpartition("/")[0])
    noted(crashed, crashed.end)
    report = crashed.recover()
    assert (report.positions_doubt, report.checked_from) == (None, crashed.end)
    assert report.queue_offsets == {KEY: 30}


def test_a_queue_that_had_entries_keeps_its_numbers() -> None:
    """All of its messages may have expired: what comes next does not begin at 0."""
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    make_new_queue(crashed)
    later = CONFIG.consume_queue_bytes
    crashed.fs.rename(NEW_FILE, f"{NEW_FILE.rpartition('/')[0]}/{later:020d}")
    for _ in range(2):
        assert crashed.recover().queue_offsets["New", 0] == later // 20


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_is_searched_once_for_a_queue_with_expired_messages(clean: bool) -> None:
    crashed = CrashedStore(clean=clean, watermark=True)
    noted(crashed, crashed.end)
    make_new_queue(crashed)
    directory, begin = NEW_FILE.rpartition("/")[0], CONFIG.consume_queue_bytes
    crashed.fs.rename(NEW_FILE, f"{directory}/{begin:020d}")
    crashed.fs.unlink(f"/store/commitlog/{0:020d}")
    first = crashed.recover()
    assert first.positions_doubt == "queues have files and no entries: New/0"
    noted(crashed, crashed.end)
    for _ in range(2):
        report = crashed.recover()
        assert (report.positions_doubt, report.consume_queues_cut) == (None, ())
        assert report.dispatch_from == crashed.end
        # One number is spent on it.
        assert report.queue_offsets["New", 0] == begin // 20 + 1
    entry = read_file(crashed.fs, f"{directory}/{begin:020d}")[:20]
    assert ENTRY.unpack(entry) == (first.log_begin - 1, 1, 0)


def test_damage_may_hide_the_first_record_of_a_queue() -> None:
    crashed = CrashedStore(watermark=True)
    noted(crashed, crashed.end)
    make_new_queue(crashed)
    crashed.overwrite(crashed.places[10] + 4, b"\x55")
    crashed.recover()
    assert crashed.fs.exists(NEW_FILE)
