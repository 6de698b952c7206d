"""Answers about a store from its queues, or from its log if there are no queues."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.records import STORE_MS, LogBytes
from tests.golden_stores import open_golden
from tests.spark.logs import FS, write_segments
from wakelog.spark.errors import StoreUnreadable
from wakelog.spark.plan import ReadRange
from wakelog.spark.records.column_walk import RecordWalk
from wakelog.spark.store_view import QueueRange, StoreView
from wakelog.spark.stores import Segment, open_store
from wakelog.storage.durability.watermark import Seal, Watermark

pytestmark = pytest.mark.golden


class NoWalk(StoreView):
    """A view whose queues know everything."""

    def _walked(self, segment: Segment, begin: int, end: int) -> Iterator[RecordWalk]:
        raise AssertionError("the queues know")


def view_of(path: Path, *, walks: bool = False) -> StoreView:
    return (StoreView if walks else NoWalk)(FS, open_store(FS, str(path)))


@pytest.mark.parametrize("name", ["basic", "copied_log_basic"])
def test_queues_and_their_ends(name: str, tmp_path: Path) -> None:
    store, _ = open_golden(name, tmp_path)
    _, manifest = open_golden("basic", tmp_path)
    view = view_of(store, walks=name != "basic")
    for queue in manifest["queues"]:
        found = view.queue_range(queue["topic"], queue["queueId"], queue["maxOffset"])
        expected = QueueRange(queue["minOffset"], queue["maxOffset"])
        assert found == (expected if queue["maxOffset"] else None)
    assert view.queue_range("Nobody", 0, 0) is None


def test_the_search_for_the_end_begins_after_the_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, manifest = open_golden("basic", tmp_path)
    last = max(manifest["messages"], key=lambda message: int(message["commitLogOffset"]))
    known: list[int] = []

    def find_end(*args: object, known_end: list[int] = known, **values: int) -> int:
        known_end.append(values["known"])
        return values["known"]

    monkeypatch.setattr("wakelog.spark.store_view.find_log_end", find_end)
    view_of(store)
    end = last["commitLogOffset"] + last["storeSize"]
    assert 0 < known[0] <= end
    # A queue that knows of a record that is not sound does not count.
    for segment in (store / "commitlog").iterdir():
        segment.write_bytes(bytes(segment.stat().st_size))
    view_of(store)
    assert known[1] == 0


def test_a_broker_that_runs_is_read_up_to_its_durable_watermark(tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 14)
    for _ in range(9):
        log.add()
    write_segments(tmp_path / "commitlog", log)
    watermark = Watermark(FS, str(tmp_path / "wakelog.watermark"))
    watermark.note(log.offsets[4], 0)
    assert view_of(tmp_path).end == log.end
    with open(tmp_path / "lock", "w") as lock:
        assert FS.lock_byte(lock.fileno(), 0)
        assert view_of(tmp_path).end == log.offsets[4]
        store = open_store(FS, str(tmp_path))
        assert StoreView(FS, store, known=log.offsets[6]).end == log.offsets[6]
        # A 4.9.3 broker took over a store that was left in order: the file is an old one.
        watermark.note(log.offsets[5], 0, Seal(bytes(16), 0, 0))
        assert view_of(tmp_path).end == log.end
    watermark.close()


def test_topics(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    topics = view_of(store).topics()
    assert topics is not None
    assert {message["topic"] for message in manifest["messages"]} <= topics
    copied, _ = open_golden("copied_log_basic", tmp_path)
    assert view_of(copied).topics() is None


def test_a_message_is_found_where_its_queue_says(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    view = view_of(store)
    for message in manifest["messages"][::50]:
        begin = message["commitLogOffset"]
        key = message["topic"], message["queueId"], message["queueOffset"]
        assert view.place_of(*key) == (begin, begin + message["storeSize"])
    assert view.place_of("G", 0, 83) is None
    assert view.place_of("G", 9, 0) is None


def test_the_first_message_of_a_time(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    view = view_of(store, walks=True)
    messages = manifest["messages"]
    for time_ms in {message["storeTimestamp"] for message in messages[::40]}:
        expected = next(x for x in messages if x["storeTimestamp"] >= time_ms)
        assert view.place_of_time(time_ms, 0) == expected["commitLogOffset"]
    assert view.place_of_time(messages[-1]["storeTimestamp"] + 1, 0) is None


def stepping(*times: int, folder: Path) -> tuple[StoreView, LogBytes]:
    """Return a log of two records a segment, stored so many ms after `STORE_MS`."""
    log = LogBytes(segment_bytes=250)
    for time_ms in times:
        log.add(store_timestamp_ms=STORE_MS + time_ms)
    return view_of(write_segments(folder, log), walks=True), log


def test_the_search_for_a_time_begins_earlier_by_the_step_of_a_clock(tmp_path: Path) -> None:
    view, log = stepping(0, 70, 50, 60, 90, 95, folder=tmp_path)
    assert len(view.store.segments) == 3
    assert view.place_of_time(STORE_MS + 65, 20) == log.offsets[1]
    assert view.place_of_time(STORE_MS + 65, 0) == log.offsets[4]


def test_a_range_is_cut_at_records_alone_whatever_queues_say(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    begins = {message["commitLogOffset"] for message in manifest["messages"]}
    view = view_of(store)
    first, *_ = view.store.segments
    part = ReadRange("b", first, first.begin, first.end)
    places = range(first.begin + 1, first.end, 1000)
    found = view.record_begins(part, places)
    assert len(found) > 5 and set(found) <= begins
    for path in (store / "consumequeue").rglob("0" * 20):
        entries = bytearray(path.read_bytes())
        for at in range(7, len(entries), 60):
            entries[at] ^= 1  # every third entry points beside its record
        path.write_bytes(entries)
    again = view_of(store).record_begins(part, places)
    assert again and set(again) <= begins


def test_segments_that_are_removed_meanwhile_are_passed_over(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    view = view_of(store, walks=True)
    times = [message["storeTimestamp"] for message in manifest["messages"]]
    first, *_ = view.store.segments
    Path(first.path).unlink()
    found = view.place_of_time(min(times), 0)
    assert found is not None and found >= first.end
    part = ReadRange("b", first, first.begin, first.end)
    assert view.walked_begins(part, [first.begin + 1]) == view.nth_records(part, 2) == []
    assert view.record_begins(part, [first.begin + 1]) == []
    gone = next(x for x in manifest["messages"] if x["commitLogOffset"] < first.end)
    assert view.place_of(gone["topic"], gone["queueId"], gone["queueOffset"]) is None
    for segment in view.store.segments:
        Path(segment.path).unlink(missing_ok=True)
    assert view.place_of_time(min(times), 0) is None


def test_no_descriptor_outlives_a_view(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)

    def open_count() -> int:
        return sum(
            name.startswith(str(store)) for name in map(_target, os.listdir("/proc/self/fd"))
        )

    view = view_of(store)
    first, *_ = view.store.segments
    assert view.record_begins(ReadRange("b", first, first.begin, first.end), [first.begin + 1])
    assert open_count()
    del view
    assert open_count() == 0


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # that of the listing itself
        return ""


def test_the_error_names_an_unreadable_configuration(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    (store / "config").mkdir(exist_ok=True)
    for name in ("topics.json", "consumerOffset.json"):
        (store / "config" / name).write_text("{")
        (store / "config" / f"{name}.bak").write_text("{")
    with pytest.raises(StoreUnreadable, match="topics"):
        view_of(store).topics()
    with pytest.raises(StoreUnreadable, match="consumerOffset"):
        view_of(store).committed("g")
