"""Where the log ends: a torn tail ends it, damage to what was durable does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import draft, open_log
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, store_config
from wakelog.protocol.record import MAGIC_OFFSET, encode_blank
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.recovery import log_end
from wakelog.storage.recovery.log_end import LogEnd, LogEndSearch
from wakelog.storage.recovery.queues import QueueEnds

BYTES = 4096
CONFIG = store_config(commit_log_file_bytes=BYTES)
DURABLE_MS = NOW_MS + 1_000_000


class Log:
    """A log of small messages, one a second; the ninth opens a second segment, and so on."""

    def __init__(self, count: int) -> None:
        self.fs = MemoryFileSystem()
        self.log: CommitLog = open_log(self.fs, CONFIG)
        self.places = [
            self.log.append(draft(b"%3d" % i * 130), NOW_MS + 1000 * i).physical_offset
            for i in range(count)
        ]
        self.end = self.log.write_pending()

    def overwrite(self, physical_offset: int, data: bytes) -> None:
        file = self.log.files.find(physical_offset)
        assert file is not None
        file.write(physical_offset - file.start_offset, data)

    def search(self, begin: int = 0, **options: Any) -> LogEnd:
        options = {"cut_from": 0, "durable_ms": 0, "check_body": True} | options
        self.ends = QueueEnds(enable_multi_dispatch=False, enable_lmq=False)
        return LogEndSearch(self.log.files, self.ends, **options).run(begin)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 30])
def test_an_undamaged_log_ends_after_its_last_record(count: int) -> None:
    log = Log(count)
    end = log.search()
    assert (end.physical_offset, end.records_checked_count, end.damaged) == (log.end, count, ())
    assert end.last_store_timestamp_ms == (NOW_MS + 1000 * (count - 1) if count else 0)
    assert log.ends.table() == ({("TopicTest", 0): count} if count else {})


def test_the_search_can_begin_at_any_segment() -> None:
    log = Log(30)
    assert log.search(2 * BYTES).physical_offset == log.end
    assert log.search(2 * BYTES).records_checked_count < 30


def test_a_full_last_segment_ends_before_its_blank() -> None:
    """4.9.3 stops there too when the next segment is missing."""
    log = Log(9)
    blank = log.places[7] + log.places[1] - log.places[0]
    log.log.files.truncate(BYTES)
    assert log.search().physical_offset == blank


def test_a_later_unused_segment_does_not_matter() -> None:
    log = Log(9)
    for place in log.places[8:]:
        log.overwrite(place, bytes(600))
    assert log.search().physical_offset == BYTES


@pytest.mark.parametrize("at", [0, MAGIC_OFFSET, 30, 100, 300])
def test_a_torn_tail_ends_the_log(at: int) -> None:
    log = Log(20)
    torn = log.places[13]
    log.overwrite(torn + at, b"\x55" + bytes(log.places[1] - at - 1))
    end = log.search()
    assert (end.physical_offset, end.records_checked_count) == (torn, 13)
    assert end.reason
    # Nothing later proves that the place was ever durable: the last sync was before it.
    assert log.search(durable_ms=NOW_MS + 12_000).physical_offset == torn
    # What was stored in the last millisecond of the checkpoint may be younger than it.
    assert log.search(durable_ms=NOW_MS + 14_000).physical_offset == torn
    assert log.search(durable_ms=NOW_MS + 14_001).physical_offset == log.end


@pytest.mark.parametrize("is_known", [True, False])
def test_zeros_below_the_watermark_are_content(is_known: bool) -> None:
    """Properties may hold as many zeros as a sector has; only the watermark distinguishes them."""
    log = Log(3)
    log.log.append(draft(b"zeros", properties_text="\0" * 1500), NOW_MS + 3000)
    end = log.log.write_pending()
    found = log.search(watermark=end if is_known else log.end)
    assert found.physical_offset == (end if is_known else log.end)
    assert found.damaged == ()
    # A search that ends the log as 4.9.3 ignores the watermark, and uses the checkpoint's time.
    found = log.search(watermark=log.end, durable_ms=DURABLE_MS, cut_at_damage=True)
    assert found.physical_offset == end


@pytest.mark.parametrize("victim", [0, 5, 7, 8, 13])
def test_damage_to_what_was_durable_does_not_end_it(victim: int) -> None:
    log = Log(20)
    begin = log.places[victim]
    log.overwrite(begin + 150, b"\x55")
    end = log.search(durable_ms=DURABLE_MS)
    assert end.physical_offset == log.end
    assert [stretch[:2] for stretch in end.damaged] == [(begin, log.places[victim + 1])]
    assert end.damaged[0].reason == "the body's CRC differs"
    assert end.records_checked_count == 19
    assert log.search(durable_ms=DURABLE_MS, cut_at_damage=True).physical_offset == begin


def test_a_damaged_blank_leads_to_the_next_segment() -> None:
    log = Log(20)
    blank = log.places[7] + log.places[1]
    log.overwrite(blank, b"\x55" * 8)
    end = log.search(durable_ms=DURABLE_MS)
    assert (end.physical_offset, end.records_checked_count) == (log.end, 20)
    assert [stretch[:2] for stretch in end.damaged] == [(blank, BYTES)]


def test_the_last_record_may_always_be_torn() -> None:
    log = Log(20)
    log.overwrite(log.places[19] + 150, b"\x55")
    assert log.search(durable_ms=DURABLE_MS).physical_offset == log.places[19]


def test_what_an_earlier_end_left_does_not_count() -> None:
    """4.9.3 cuts in memory only: after the new end lie records older than the new ones."""
    log = Log(20)
    newer = NOW_MS + 500_000
    for i in (3, 4):
        # Messages 3 and 4 were sent again after a crash; the old 6 to 19 are still on the disk.
        log.overwrite(log.places[i] + 56, newer.to_bytes(8, "big"))
    log.overwrite(log.places[5], b"\x55" * 8)
    assert log.search(durable_ms=newer + 1).physical_offset == log.places[5]


def test_below_the_cut_nothing_ends_the_log() -> None:
    log = Log(30)
    log.overwrite(log.places[2] + 5, b"\x55")
    log.overwrite(log.places[12] + 150, b"\x55")  # bodies are not checked there
    end = log.search(cut_from=2 * BYTES)
    assert end.physical_offset == log.end
    assert [stretch[:2] for stretch in end.damaged] == [(log.places[2], log.places[3])]


def test_a_segment_of_nothing_below_the_cut_is_passed_over() -> None:
    log = Log(30)
    log.overwrite(0, bytes(BYTES))
    end = log.search(cut_from=BYTES)
    assert (end.physical_offset, end.damaged[0][:2]) == (log.end, (0, BYTES))


@given(
    st.integers(0, 2 * BYTES - 1),
    st.binary(min_size=1, max_size=200),
    st.sampled_from([0, NOW_MS + 9_500, DURABLE_MS]),
    st.integers(600, 9000),
)
def test_any_damage_is_survived(place: int, data: bytes, durable_ms: int, piece_bytes: int) -> None:
    """Whatever is overwritten: the end is a record's place, and what is reported is passed over."""
    log = Log(20)
    log.overwrite(place, data[: BYTES - place % BYTES])
    search = LogEndSearch(
        log.log.files,
        QueueEnds(enable_multi_dispatch=False, enable_lmq=False),
        cut_from=0,
        durable_ms=durable_ms,
        check_body=True,
    )
    search._buffer = bytearray(piece_bytes)  # as if records were larger than a piece
    end = search.run(0)
    assert end == log.search(durable_ms=durable_ms)
    places = {*log.places, log.end, *(stretch.begin for stretch in end.damaged)}
    blanks = {segment + BYTES for segment in (0, BYTES)}
    assert end.physical_offset in places | blanks or end.physical_offset % BYTES > 3000
    for stretch in end.damaged:
        assert stretch.begin < stretch.end <= end.physical_offset
    sound = {p for p in log.places if p < end.physical_offset}
    passed_over = {p for p in sound if any(s.begin <= p < s.end for s in end.damaged)}
    assert end.records_checked_count == len(sound) - len(passed_over)


@pytest.mark.parametrize("victim", [3, 8, 18, 19])
def test_below_the_watermark_only_damage_can_be(victim: int) -> None:
    log = Log(20)
    place = log.places[victim]
    resume = log.end if victim == 19 else log.places[victim + 1]
    kinds = [b"\x55" * 80, bytes(80)]
    if log.end - place < BYTES // 2:
        # A blank where the log's last records were; in front of another segment it may be one.
        kinds.append(encode_blank(BYTES - place % BYTES)[:8])
    for data in kinds:
        log.overwrite(place, data)
        end = log.search(watermark=log.end)
        assert end.physical_offset == log.end
        assert [stretch[:2] for stretch in end.damaged] == [(place, resume)]
        assert log.search(watermark=log.end, cut_at_damage=True).damaged == ()
        # At the watermark or above it is a torn tail as ever.
        assert log.search(watermark=place).damaged == ()
        # So it is whatever the checkpoint says: the watermark was durable before.
        end = log.search(watermark=place, durable_ms=DURABLE_MS)
        assert (end.physical_offset, end.damaged) == (place, ())


def test_a_record_at_the_watermark_may_lack_a_sector_and_one_below_it_not() -> None:
    log = Log(3)
    properties = "NOTE\x01" + "n" * 1200
    place = log.log.append(draft(properties_text=properties), NOW_MS + 3000).physical_offset
    log.end = log.log.write_pending()
    assert log.search(durable_ms=NOW_MS, watermark=place).physical_offset == log.end
    log.overwrite(place + 1024 - place % 512, bytes(512))
    # A clock that was set back makes it older than what the checkpoint calls durable.
    assert log.search(durable_ms=NOW_MS + 9_000, watermark=place).physical_offset == place
    assert log.search(durable_ms=NOW_MS, watermark=place).physical_offset == place
    assert log.search(durable_ms=NOW_MS, watermark=log.end).physical_offset == log.end
    unchecked = log.search(durable_ms=NOW_MS, watermark=place, check_body=False)
    assert unchecked.physical_offset == log.end
    # Without a watermark the times decide; the checkpoint's may belong to a later broker.
    assert log.search(durable_ms=NOW_MS + 3_000).physical_offset == place
    assert log.search(durable_ms=NOW_MS + 3_001).physical_offset == log.end


@pytest.mark.parametrize(
    ("damaged", "older", "watermark"),
    [
        (4, {5: -1000}, 5),  # what stands at the watermark may be left over from an earlier end
        (7, {8: -1000, 9: -500}, 20),  # a clock was set back while the log rolled
        (4, {5: 3000}, 20),  # stored in the same millisecond as the one in front
    ],
)
def test_below_the_watermark_a_time_alone_ends_no_log(
    damaged: int, older: dict[int, int], watermark: int
) -> None:
    log = Log(20)
    places = [*log.places, log.end]
    for i, time_ms in older.items():
        log.overwrite(places[i] + 56, (NOW_MS + time_ms).to_bytes(8, "big"))
    log.overwrite(places[damaged], b"\x55" * 8)
    end = log.search(watermark=places[watermark])
    assert end.physical_offset == log.end
    assert [stretch[:2] for stretch in end.damaged] == [(places[damaged], places[damaged + 1])]


def test_a_small_record_at_the_end_of_a_segment_gives_its_time() -> None:
    log = Log(0)
    log.log.append(draft(b"x" * (BYTES - 210)), NOW_MS)
    log.log.append(draft(b""), NOW_MS + 1000)
    end = log.log.write_pending()
    found = log.search()
    assert (found.physical_offset, found.records_checked_count) == (end, 2)
    assert found.last_store_timestamp_ms == NOW_MS + 1000


def test_so_may_a_small_one_at_the_end_of_what_is_read_at_once() -> None:
    log = Log(0)
    log.log.append(draft(b"x" * 307), NOW_MS)
    place = log.log.append(draft(b"", properties_text="A\x01" + "a" * 8), NOW_MS).physical_offset
    end = log.log.write_pending()
    log.overwrite(512, bytes(end - 512))

    def found(**options: Any) -> tuple[int, int]:
        ends = QueueEnds(enable_multi_dispatch=False, enable_lmq=False)
        search = LogEndSearch(log.log.files, ends, cut_from=0, check_body=True, **options)
        search._buffer = bytearray(end)
        log_end = search.run(0)
        return log_end.physical_offset, log_end.records_checked_count

    assert found(durable_ms=0, watermark=place) == (place, 1)
    assert found(durable_ms=0, watermark=end) == (end, 2)
    assert found(durable_ms=NOW_MS) == (place, 1)
    assert found(durable_ms=NOW_MS + 1) == (end, 2)


def test_what_another_broker_wrote_over_below_the_watermark_ends_the_log() -> None:
    log = Log(20)
    newer = NOW_MS + 500_000
    for i in (3, 4):
        log.overwrite(log.places[i] + 56, newer.to_bytes(8, "big"))
    log.overwrite(log.places[5], b"\x55" * 8)
    assert log.search(watermark=log.end).physical_offset == log.places[5]


@pytest.mark.parametrize("piece_bytes", [100, 4096])
def test_a_record_longer_than_a_piece_is_checked_whole(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_end, "PIECE_BYTES", piece_bytes)
    log = Log(20)
    for body_bytes in (1, 3_000, 10, 3_500):
        log.log.append(draft(bytes(body_bytes)), NOW_MS + 30_000)
    end = log.log.write_pending()
    found = log.search()
    assert (found.physical_offset, found.records_checked_count) == (end, 24)
