"""A segment missing between others: the rest is served, the log neither cut nor continued.

The store has 40 messages of one queue, eight to a segment, so that segments 0 to 4 are full or
nearly.
"""

import pytest

from tests.fakes.logs import draft, read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, put, store_config
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.protocol.record import decode_record
from wakelog.storage.log.append import PutStatus
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.message_store import MessageStore
from wakelog.storage.paths import offset_name
from wakelog.storage.read.reader import GetRequest

BYTES = 4096
TOPIC = "TopicTest"
COUNT = 40
CONFIG = store_config(commit_log_file_bytes=BYTES)


def path(number: int) -> str:
    return f"/store/commitlog/{offset_name(number * BYTES)}"


class Gapped:
    """A store that lost segments; `lost` are the numbers of the messages in them."""

    def __init__(self, *missing: int, clean: bool = True, watermark: bool = True) -> None:
        self.fs = MemoryFileSystem()
        store = open_store(self.fs, CONFIG)
        places = []
        for i in range(COUNT):
            (result,) = put(store, b"%3d" % i * 130, now_ms=NOW_MS + i, properties_text="KEYS\x01k")
            places.append(result.physical_offset)
        self.end = store.max_physical_offset
        dispatch(store, self.fs)
        store.close(dispatch_behind_bytes=0 if clean else 1)
        if not watermark:
            self.fs.unlink(CONFIG.paths.watermark)
        for number in missing:
            self.fs.unlink(path(number))
        self.missing = missing
        self.lost = [i for i in range(COUNT) if places[i] // BYTES in missing]
        self.kept = [i for i in range(COUNT) if i not in self.lost]
        self.log = self.segments()

    def segments(self) -> dict[str, bytes]:
        names = self.fs.list_directory("/store/commitlog")
        return {name: read_file(self.fs, f"/store/commitlog/{name}") for name in names}


def served(store: MessageStore) -> list[int]:
    """Return the numbers of the messages that a consumer gets, from the first offset on."""
    found: list[int] = []
    offset, end = 0, store.max_queue_offset(TOPIC, 0)
    while offset < end:
        result = store.get_message(GetRequest(TOPIC, 0, offset, 32))
        assert result is not None and result.next_begin_offset > offset
        for frame in result.frames:
            position = 0
            while position < len(frame):
                record = decode_record(frame, position)
                found.append(int(record.body[:3]))
                position += record.size_bytes
        offset = result.next_begin_offset
    return found


@pytest.mark.parametrize("missing", [(1,), (2,), (3,), (1, 2), (1, 3)])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("watermark", [True, False])
def test_all_else_is_served_and_nothing_is_cut_or_taken(
    missing: tuple[int, ...], clean: bool, watermark: bool
) -> None:
    gapped = Gapped(*missing, clean=clean, watermark=watermark)
    for _ in range(2):
        store = open_store(gapped.fs, CONFIG)
        store.set_dispatched(gapped.end)
        report = store.recovery
        assert served(store) == gapped.kept
        assert {stretch.begin // BYTES for stretch in report.damaged} <= {*missing}
        assert [stretch.reason for stretch in report.damaged] == ["segments are missing"] * len(
            report.damaged
        )
        assert report.log_end == gapped.end
        assert report.read_only is not None and "put them back" in report.read_only
        assert not store.writable
        refused = store.put_message(draft(b"more"), NOW_MS)
        assert (refused.status, refused.cause) == (
            PutStatus.SERVICE_NOT_AVAILABLE,
            report.read_only,
        )
        assert not store.close(dispatch_behind_bytes=0)
        assert gapped.segments() == gapped.log
        assert not gapped.fs.exists("/store/wakelog.quarantine")


def test_with_the_segment_put_back_the_log_goes_on() -> None:
    gapped = Gapped(2)
    whole = Gapped()
    open_store(gapped.fs, CONFIG).close(dispatch_behind_bytes=0)
    write_file(gapped.fs, path(2), whole.log[offset_name(2 * BYTES)])
    store = open_store(gapped.fs, CONFIG)
    assert store.recovery.read_only is None
    store.set_dispatched(gapped.end)
    assert served(store) == list(range(COUNT))
    assert put(store, b"more")[0].status is PutStatus.PUT_OK
    assert store.close(dispatch_behind_bytes=0)


def test_a_distrusted_watermark_is_not_trusted_later() -> None:
    gapped = Gapped(2)
    write_file(gapped.fs, CONFIG.paths.lock, b"lock")  # as a broker of 4.9.3 does
    for doubt in (True, False):
        store = open_store(gapped.fs, CONFIG)
        assert (store.recovery.watermark, store.recovery.watermark_doubt is not None) == (0, doubt)
        store.close(dispatch_behind_bytes=0)


def test_segments_made_ahead_are_let_go_and_stay() -> None:
    gapped = Gapped(2)
    for number in (5, 6):
        write_file(gapped.fs, path(number), bytes(BYTES))
    log = gapped.segments()
    store = open_store(gapped.fs, CONFIG)
    assert store.recovery.log_end == gapped.end
    assert store.recovery.read_only is not None
    store.close(dispatch_behind_bytes=0)
    assert gapped.segments() == log


def test_damage_in_front_of_the_gap_ends_no_log() -> None:
    gapped = Gapped(3, watermark=False)
    data = bytearray(read_file(gapped.fs, path(2)))
    data[:8] = b"\x55" * 8
    write_file(gapped.fs, path(2), bytes(data))
    store = open_store(gapped.fs, CONFIG)
    store.set_dispatched(gapped.end)
    first = next(i for i in range(COUNT) if i in served_in(gapped, 2))
    assert served(store) == [i for i in gapped.kept if i != first]
    assert len(store.recovery.damaged) == 2
    store.close(dispatch_behind_bytes=0)


def served_in(gapped: Gapped, segment: int) -> list[int]:
    """Return the numbers of the messages of one segment."""
    per_segment = gapped.lost[0] // 3  # three whole segments lie in front of the one that is lost
    return list(range(per_segment * segment, per_segment * (segment + 1)))


def test_dispatch_passes_over_the_gap() -> None:
    gapped = Gapped(2)
    for name in gapped.fs.list_directory(f"/store/consumequeue/{TOPIC}/0"):
        gapped.fs.unlink(f"/store/consumequeue/{TOPIC}/0/{name}")
    log = CommitLogReader(gapped.fs, CONFIG)
    reput = Reput(gapped.fs, log, core_dispatchers(gapped.fs, CONFIG, log), CONFIG)
    reput.start(gapped.end, clean_exit=False)
    while reput.step(gapped.end, 1 << 20, NOW_MS).more:
        pass
    assert reput.position == gapped.end
    reput.flush()
    log.close()
    store = open_store(gapped.fs, CONFIG)
    store.set_dispatched(gapped.end)
    assert set(served(store)) == {*gapped.kept}
    store.close(dispatch_behind_bytes=0)
