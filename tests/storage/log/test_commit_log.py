"""Appending: offsets, limits, rolls, batches, failures, the bytes of the real broker."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from tests.fakes.logs import (
    SEGMENT_BYTES,
    batch_of,
    draft,
    open_log,
    read_file,
    small_config,
    write_file,
)
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import open_golden
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import (
    BLANK_MAGIC,
    MESSAGE_MAGIC,
    MessageRecord,
    decode_record,
    encode_blank,
)
from wakelog.storage.errors import NotWriteable
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.allocate import make_segment
from wakelog.storage.log.append import MessageDraft, PutResult, PutStatus
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.paths import offset_name

NOW_MS = 1_700_000_000_000
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC


@pytest.fixture
def log(fs: MemoryFileSystem) -> CommitLog:
    return open_log(fs, small_config())


def stored(fs: MemoryFileSystem, result: PutResult) -> MessageRecord:
    """Return the record of a put as the disk holds it."""
    reader = CommitLogReader(fs, small_config())
    data = reader.read(result.physical_offset, result.size_bytes)
    assert data is not None
    reader.close()
    return decode_record(data)


def append_as(log: CommitLog, kind: str, now_ms: int) -> PutResult:
    """Put one message, or a batch of two."""
    if kind == "one":
        return log.append(draft(), now_ms)
    return log.append_batch(batch_of([draft(b"a"), draft(b"bb")]), now_ms)


class TestAppend:
    def test_offsets_are_given_in_order(self, fs: MemoryFileSystem, log: CommitLog) -> None:
        results = [log.append(draft(b"x" * i, queue_id=i % 2), NOW_MS) for i in range(4)]
        assert [r.status for r in results] == [PutStatus.PUT_OK] * 4
        assert [r.queue_offset for r in results] == [0, 0, 1, 1]
        ends = [r.physical_offset_end for r in results]
        assert [r.physical_offset for r in results] == [0, *ends[:-1]]
        assert log.write_pending() == ends[-1] == log.appended_offset
        record = stored(fs, results[3])
        assert record.physical_offset == results[3].physical_offset
        assert (record.queue_offset, record.store_timestamp_ms) == (1, NOW_MS)
        log.validate()

    def test_nothing_is_written_before_write_pending(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        result = log.append(draft(), NOW_MS)
        assert (log.appended_offset, log.end_offset) == (0, result.size_bytes)
        assert fs.calls["pwritev"] == 0
        log.append(draft(), NOW_MS)
        log.write_pending()
        log.write_pending()
        assert fs.calls["pwritev"] == 1
        assert log.appended_offset == log.end_offset == 2 * result.size_bytes

    def test_a_log_goes_on_where_recovery_said(self, fs: MemoryFileSystem, log: CommitLog) -> None:
        first = log.append(draft(b"first"), NOW_MS)
        log.append(draft(b"lost"), NOW_MS)
        log.write_pending()
        offsets = {("TopicTest", 0): 9}
        again = open_log(
            fs, small_config(), end_offset=first.physical_offset_end, queue_offsets=offsets
        )
        result = again.append(draft(b"second"), NOW_MS)
        again.write_pending()
        assert (result.physical_offset, result.queue_offset) == (first.physical_offset_end, 9)
        assert stored(fs, first).body == b"first"
        assert again.queue_offsets.get(("TopicTest", 0)) == 10
        assert again.queue_offsets.get(("Unknown", 0)) == 0

    @pytest.mark.parametrize(
        ("sys_flag", "consumed"), [(0, True), (COMMIT, True), (PREPARED, False), (ROLLBACK, False)]
    )
    def test_only_what_consumers_see_moves_a_queue(
        self, log: CommitLog, sys_flag: int, consumed: bool
    ) -> None:
        """Fact 15 of the specification."""
        log.append(draft(), NOW_MS)
        result = log.append(draft(sys_flag=sys_flag), NOW_MS)
        assert result.queue_offset == (1 if consumed else 0)
        assert log.queue_offsets.get(("TopicTest", 0)) == (2 if consumed else 1)

    @pytest.mark.parametrize("kind", ["one", "batch"])
    def test_store_times_of_no_kind_fall_when_the_clock_is_set_back(
        self, fs: MemoryFileSystem, log: CommitLog, kind: str
    ) -> None:
        found = [append_as(log, kind, now_ms) for now_ms in (5_000, 4_000, 5_001, 1)]
        log.write_pending()
        assert [one.store_timestamp_ms for one in found] == [5_000, 5_000, 5_001, 5_001]
        for one in found:
            data = read_file(fs, "/store/commitlog/" + offset_name(0))[one.physical_offset :]
            assert decode_record(data).store_timestamp_ms == one.store_timestamp_ms

    def test_store_times_do_not_fall_within_a_segment(self, log: CommitLog) -> None:
        body = b"x" * (SEGMENT_BYTES // 2)
        times = [log.append(draft(body), now).store_timestamp_ms for now in (5_000, 4_000, 4_500)]
        assert times == [5_000, 4_000, 4_500]  # each opens a segment of its own
        times = [log.append(draft(), now).store_timestamp_ms for now in (4_400, 4_600, 1)]
        assert times == [4_500, 4_600, 4_600]

    def test_a_log_that_goes_on_within_a_segment_goes_on_from_its_last_time(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        log.append(draft(), 5_000)
        end = log.write_pending()
        for end_offset, stored_ms in ((end, 5_000), (0, 3_000)):
            again = open_log(fs, small_config(), end_offset=end_offset, last_store_ms=5_000)
            assert again.append(draft(), 3_000).store_timestamp_ms == stored_ms

    def test_a_deleted_topic_starts_over(self, log: CommitLog) -> None:
        log.append(draft(), NOW_MS)
        log.queue_offsets.close(("TopicTest",), {})
        assert log.append(draft(), NOW_MS).status is PutStatus.SERVICE_NOT_AVAILABLE
        log.queue_offsets.open(("TopicTest",), removed=True)
        assert log.append(draft(), NOW_MS).queue_offset == 0


class TestLimits:
    @pytest.mark.parametrize(
        ("message", "status"),
        [
            (draft(topic="a/b"), PutStatus.MESSAGE_ILLEGAL),
            (draft(topic="x" * 128), PutStatus.MESSAGE_ILLEGAL),
            (draft(queue_id=-1), PutStatus.MESSAGE_ILLEGAL),
            (draft(b"x" * 5000), PutStatus.MESSAGE_ILLEGAL),
            (draft(flag=1 << 40), PutStatus.MESSAGE_ILLEGAL),
            (draft(born_host=("nonsense", 1)), PutStatus.MESSAGE_ILLEGAL),
            (draft(properties_text="a\x01" + "x" * 32_766), PutStatus.MESSAGE_ILLEGAL),
            (draft(properties_text="a\x01" + "é" * 20_000), PutStatus.PROPERTIES_SIZE_EXCEEDED),
        ],
    )
    def test_what_cannot_be_stored_is_a_result(
        self, fs: MemoryFileSystem, message: MessageDraft, status: PutStatus
    ) -> None:
        log = open_log(fs, small_config(commit_log_file_bytes=1 << 17, message_bytes_max=4096))
        assert log.append(message, NOW_MS).status is status
        assert log.end_offset == 0
        assert log.append(draft(), NOW_MS).queue_offset == 0

    def test_the_whole_record_counts_not_its_body(self, fs: MemoryFileSystem) -> None:
        """Fact 12 of the specification."""
        size = open_log(fs, small_config()).append(draft(b"x" * 100), NOW_MS).size_bytes
        log = open_log(fs, small_config(message_bytes_max=size))
        assert log.append(draft(b"x" * 100), NOW_MS).status is PutStatus.PUT_OK
        assert log.append(draft(b"x" * 101), NOW_MS).status is PutStatus.MESSAGE_ILLEGAL

    @pytest.mark.parametrize("kind", ["one", "batch"])
    def test_what_has_the_greatest_size_is_stored(self, kind: str) -> None:
        size = append_as(open_log(MemoryFileSystem(), small_config()), kind, NOW_MS).size_bytes
        for bytes_max, fits in ((size, True), (size - 1, False)):
            log = open_log(MemoryFileSystem(), small_config(message_bytes_max=bytes_max))
            assert (append_as(log, kind, NOW_MS).status is PutStatus.PUT_OK) is fits

    def test_the_longest_properties_are_stored(self, fs: MemoryFileSystem) -> None:
        config = small_config(commit_log_file_bytes=1 << 17)
        log = open_log(fs, config)
        result = log.append(draft(properties_text="a\x01" + "x" * 32_765), NOW_MS)
        assert result.status is PutStatus.PUT_OK

    def test_a_record_that_fits_no_segment_is_refused(self, log: CommitLog) -> None:
        assert log.append(draft(b"x" * SEGMENT_BYTES), NOW_MS).status is PutStatus.MESSAGE_ILLEGAL
        assert log.end_offset == 0


class TestRoll:
    @pytest.mark.parametrize("kind", ["one", "batch"])
    @pytest.mark.parametrize("spare_bytes", range(10))
    def test_a_record_needs_eight_bytes_after_it(
        self, fs: MemoryFileSystem, log: CommitLog, spare_bytes: int, kind: str
    ) -> None:
        """Fact 10 of the specification: with less to spare it opens the next segment."""
        size = append_as(log, kind, NOW_MS).size_bytes
        self.fill(log, size + spare_bytes)
        fits = spare_bytes >= 8
        found = append_as(log, kind, NOW_MS)
        begin = SEGMENT_BYTES - size - spare_bytes
        assert found.physical_offset == (begin if fits else SEGMENT_BYTES)
        append_as(log, kind, NOW_MS)
        log.write_pending()
        first = read_file(fs, "/store/commitlog/" + offset_name(0))
        blank_bytes = spare_bytes if fits else size + spare_bytes
        assert first[-blank_bytes:] == encode_blank(blank_bytes).ljust(blank_bytes, b"\0")
        assert not fits or stored(fs, found).physical_offset == begin

    @pytest.mark.parametrize("left_bytes", range(9))
    def test_a_foreign_log_may_leave_less_than_a_blank(
        self, fs: MemoryFileSystem, left_bytes: int
    ) -> None:
        """Nothing is written over the end of its segment."""
        write_file(fs, "/store/commitlog/" + offset_name(0), b"\1" * SEGMENT_BYTES)
        log = open_log(fs, small_config(), end_offset=SEGMENT_BYTES - left_bytes)
        found = log.append(draft(b"next"), NOW_MS)
        log.write_pending()
        assert found.physical_offset == SEGMENT_BYTES and stored(fs, found).body == b"next"
        first = read_file(fs, "/store/commitlog/" + offset_name(0))
        blank = encode_blank(8) if left_bytes == 8 else bytes(left_bytes)
        assert first == b"\1" * (SEGMENT_BYTES - left_bytes) + blank

    def fill(self, log: CommitLog, free_bytes: int) -> None:
        """Append one record that leaves `free_bytes` in the first segment."""
        body_bytes = SEGMENT_BYTES - log.end_offset - free_bytes - 91 - len("TopicTest")
        log.append(draft(b"x" * body_bytes), NOW_MS)
        assert log.end_offset == SEGMENT_BYTES - free_bytes

    def test_a_blank_ends_the_file_and_the_record_opens_the_next(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        self.fill(log, 50)
        result = log.append(draft(b"next"), NOW_MS)
        assert result.physical_offset == SEGMENT_BYTES
        assert log.write_pending() == result.physical_offset_end
        assert fs.calls["pwritev"] == 2
        first = read_file(fs, "/store/commitlog/" + offset_name(0))
        assert first[-50:] == encode_blank(50) + bytes(42)
        assert BLANK_MAGIC == -875_286_124
        assert stored(fs, result).body == b"next"
        log.validate()

    def test_one_turn_can_cross_several_segments(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        results = [log.append(draft(bytes([i]) * 1500), NOW_MS) for i in range(7)]
        log.write_pending()
        assert len(log.files.files) == 4
        assert [stored(fs, r).body for r in results] == [bytes([i]) * 1500 for i in range(7)]
        assert [stored(fs, r).queue_offset for r in results] == list(range(7))

    def test_a_full_disk_leaves_the_log_as_it_was(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, small_config())
        self.fill(log, 200)
        log.write_pending()
        end = log.end_offset
        fs.fail("truncate", number=errno.ENOSPC)
        refused = log.append(draft(b"x" * 500), NOW_MS)
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert refused.cause is not None and os.strerror(errno.ENOSPC) in refused.cause
        assert (log.end_offset, log.failure) == (end, None)
        # A small one still fits, and once there is room the log goes on by itself.
        assert log.append(draft(), NOW_MS).physical_offset == end
        assert log.append(draft(b"x" * 500), NOW_MS).physical_offset == SEGMENT_BYTES
        log.write_pending()

    def test_segments_come_from_the_source_given(self, fs: MemoryFileSystem) -> None:
        asked = []

        class Nothing:
            failure = None

            def take_segment(self, start_offset: int) -> str | None:
                asked.append(start_offset)
                return None

        log = open_log(fs, small_config(), segments=Nothing())
        assert log.append(draft(), NOW_MS).status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert asked == [0]

    def test_a_segment_that_holds_records_is_not_written_over(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        path = "/store/commitlog/" + offset_name(SEGMENT_BYTES)
        write_file(fs, path, b"old records".ljust(SEGMENT_BYTES, b"\0"))
        self.fill(log, 200)
        refused = log.append(draft(b"x" * 500), NOW_MS)
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert log.failure is not None and path in log.failure
        assert refused.cause == log.failure
        assert read_file(fs, path).startswith(b"old records")

    def test_a_segment_that_cannot_be_opened_now_is_taken_later(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        self.fill(log, 200)
        make_segment(
            fs, log.files.path_for(SEGMENT_BYTES), SEGMENT_BYTES, temporary_path="/store/x"
        )
        fs.fail("open", nth=2, number=errno.EMFILE)  # the first looks at its length
        refused = log.append(draft(b"x" * 500), NOW_MS)
        assert refused.status is PutStatus.CREATE_MAPPED_FILE_FAILED
        assert log.failure is None and len(log.files.files) == 1
        assert log.append(draft(b"x" * 500), NOW_MS).physical_offset == SEGMENT_BYTES
        log.write_pending()

    def test_closing_removes_segments_that_were_never_used(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        log.append(draft(), NOW_MS)
        for start in (SEGMENT_BYTES, 2 * SEGMENT_BYTES):
            fs.close(fs.open("/store/commitlog/" + offset_name(start), create=True))
        log.close()
        assert fs.list_directory("/store/commitlog") == [offset_name(0)]
        assert fs.descriptor_count == 0


class TestBatch:
    def batch(self, *bodies: bytes) -> EncodedBatch:
        outer = draft(b"", queue_id=2, properties_text="CLUSTER\x01c")
        messages = [(i, b, b"k\x01v") for i, b in enumerate(bodies)]
        return EncodedBatch(outer, messages)

    def test_its_records_follow_each_other(self, fs: MemoryFileSystem, log: CommitLog) -> None:
        log.append(draft(queue_id=2), NOW_MS)
        result = log.append_batch(self.batch(b"a", b"bb", b"ccc"), NOW_MS)
        log.write_pending()
        assert result.queue_offset == 1
        assert len(result.physical_offsets) == 3
        assert result.physical_offsets[0] == result.physical_offset
        assert result.physical_offset_end == log.appended_offset
        reader = CommitLogReader(fs, small_config())
        data = reader.read_span(result.physical_offset, result.size_bytes)
        records = [decode_record(data, o - result.physical_offset) for o in result.physical_offsets]
        assert [r.body for r in records] == [b"a", b"bb", b"ccc"]
        assert [r.queue_offset for r in records] == [1, 2, 3]
        assert [r.physical_offset for r in records] == list(result.physical_offsets)
        assert {r.properties_text for r in records} == {"k\x01v\x02CLUSTER\x01c"}
        assert log.queue_offsets.get(("TopicTest", 2)) == 4

    def test_it_is_never_split_over_two_segments(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        log.append(draft(b"x" * 3000), NOW_MS)
        result = log.append_batch(self.batch(b"a" * 400, b"b" * 400), NOW_MS)
        assert result.physical_offset == SEGMENT_BYTES
        log.write_pending()
        assert stored(fs, result._replace(size_bytes=log.end_offset - SEGMENT_BYTES)).body[0] == 97

    @pytest.mark.parametrize(
        ("bodies", "status"),
        [
            ((), PutStatus.MESSAGE_ILLEGAL),
            ((b"x" * 1900,), PutStatus.UNKNOWN_ERROR),
            ((b"x" * 900, b"x" * 900), PutStatus.UNKNOWN_ERROR),
        ],
    )
    def test_what_is_too_long_is_a_result(
        self, fs: MemoryFileSystem, bodies: tuple[bytes, ...], status: PutStatus
    ) -> None:
        """Fact 12: each frame and their sum; 4.9.3 throws, which is a system error."""
        log = open_log(fs, small_config(message_bytes_max=2000))
        assert log.append_batch(self.batch(*bodies), NOW_MS).status is status
        assert log.end_offset == 0

    @pytest.mark.parametrize(
        ("drafts", "status"),
        [
            ([draft(b"x", sys_flag=PREPARED)], PutStatus.MESSAGE_ILLEGAL),
            ([draft(topic="a b")], PutStatus.MESSAGE_ILLEGAL),
            ([draft(b"x" * 2000)] * 2, PutStatus.MESSAGE_ILLEGAL),  # more than a segment
        ],
    )
    def test_what_cannot_be_stored_is_refused(
        self, log: CommitLog, drafts: list[MessageDraft], status: PutStatus
    ) -> None:
        assert log.append_batch(batch_of(drafts), NOW_MS).status is status


class TestFailedWrite:
    def test_nothing_of_it_counts_and_the_log_stops(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        kept = log.append(draft(), NOW_MS)
        log.write_pending()
        log.append(draft(), NOW_MS)
        fs.fail("pwritev", number=errno.EIO)
        with pytest.raises(NotWriteable, match="Input/output error"):
            log.write_pending()
        assert log.appended_offset == kept.physical_offset_end
        assert log.append(draft(), NOW_MS).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert (
            log.append_batch(batch_of([draft()]), NOW_MS).status is PutStatus.SERVICE_NOT_AVAILABLE
        )
        with pytest.raises(NotWriteable):
            log.write_pending()
        assert log.failure is not None and "write" in log.failure

    def test_a_turn_over_two_segments_fails_as_one(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        for _ in range(4):
            log.append(draft(b"x" * 1500), NOW_MS)
        fs.fail("pwritev", nth=2)
        with pytest.raises(NotWriteable):
            log.write_pending()
        assert log.appended_offset == 0

    def test_a_failed_sync_stops_it_too(self, log: CommitLog) -> None:
        log.fail("sync of segment 0 failed")
        log.fail("another reason")
        assert log.failure == "sync of segment 0 failed"
        assert log.append(draft(), NOW_MS).status is PutStatus.SERVICE_NOT_AVAILABLE

    def test_a_failed_log_closes_without_writing(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        log.append(draft(), NOW_MS)
        log.fail("damage")
        log.close()
        assert fs.calls["pwritev"] == 0 and fs.descriptor_count == 0


class TestMultiDispatch:
    TEXT = "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b,TopicTest\x02TAGS\x01t"

    def test_each_queue_gets_its_offset(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, small_config(enable_multi_dispatch=True, enable_lmq=True))
        results = [log.append(draft(properties_text=self.TEXT), NOW_MS) for _ in range(2)]
        log.write_pending()
        properties = [decode_properties(stored(fs, r).properties_text) for r in results]
        assert [p["INNER_MULTI_QUEUE_OFFSET"] for p in properties] == ["0,0,0", "1,1,1"]
        assert log.queue_offsets.get(("%LMQ%a", 0)) == 2
        # The message's own queue, named again, moves once for each message.
        assert log.queue_offsets.get(("TopicTest", 0)) == 2

    def test_a_half_message_moves_none(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, small_config(enable_multi_dispatch=True, enable_lmq=True))
        log.append(draft(properties_text=self.TEXT, sys_flag=PREPARED), NOW_MS)
        assert log.queue_offsets.get(("%LMQ%a", 0)) == 0

    def test_without_the_option_it_is_a_property_like_others(
        self, fs: MemoryFileSystem, log: CommitLog
    ) -> None:
        result = log.append(draft(properties_text=self.TEXT), NOW_MS)
        log.write_pending()
        assert stored(fs, result).properties_text == self.TEXT

    def test_an_illegal_queue_name_refuses_the_message(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, small_config(enable_multi_dispatch=True))
        text = "INNER_MULTI_DISPATCH\x01../../etc"
        assert log.append(draft(properties_text=text), NOW_MS).status is PutStatus.MESSAGE_ILLEGAL


class TestGolden:
    """What the real 4.9.3 broker wrote is written again, byte for byte."""

    @pytest.mark.parametrize(
        "name", ["basic", "batch", "ipv6", "delay_tx_retry", "filter_ext", "multi_dispatch"]
    )
    def test_its_segments_come_out_the_same(self, name: str, tmp_path: Path) -> None:
        store, _ = open_golden(name, tmp_path)
        multi_dispatch = name == "multi_dispatch"
        fs = FileSystem()
        size = 65_536
        config = small_config(
            store_path_root=str(tmp_path / "again"),
            commit_log_file_bytes=size,
            enable_multi_dispatch=multi_dispatch,
            enable_lmq=multi_dispatch,
        )
        log = open_log(fs, config)
        segments = sorted((store / "commitlog").iterdir())
        found = [record for segment in segments for record in records(segment.read_bytes())]
        assert len(found) > 50
        for _, group in itertools.groupby(found, sent_together):
            together = list(group)
            drafts = [draft_of(record, without_offsets(record)) for record in together]
            now_ms = together[0].store_timestamp_ms
            if len(drafts) > 1:
                result = log.append_batch(batch_of(drafts), now_ms)
            else:
                result = log.append(drafts[0], now_ms)
            assert result.physical_offsets == tuple(r.physical_offset for r in together)
            assert result.queue_offset == together[0].queue_offset
        log.write_pending()
        for segment in segments:
            written = (tmp_path / "again/commitlog" / segment.name).read_bytes()
            assert written == segment.read_bytes(), segment.name
        log.close()


def records(data: bytes) -> list[MessageRecord]:
    """Decode a segment up to its blank or its zeros."""
    found = []
    position = 0
    while int.from_bytes(data[position + 4 : position + 8], "big", signed=True) == MESSAGE_MAGIC:
        found.append(decode_record(data, position))
        position += found[-1].size_bytes
    return found


def draft_of(record: MessageRecord, properties_text: str) -> MessageDraft:
    """Return the draft that a record came from."""
    return MessageDraft(
        topic=record.topic,
        queue_id=record.queue_id,
        body=record.body,
        properties_text=properties_text,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )


def sent_together(record: MessageRecord) -> object:
    """Return what the records of one batch share; only theirs carry WAIT twice."""
    if record.properties_text.count("WAIT\x01") < 2:
        return record.physical_offset
    return record.topic, record.queue_id, record.born_timestamp_ms, record.store_timestamp_ms


def without_offsets(record: MessageRecord) -> str:
    """Take the broker's own addition out of a multi-dispatch message's properties."""
    pairs = record.properties_text.split("\x02")
    return "\x02".join(p for p in pairs if not p.startswith("INNER_MULTI_QUEUE_OFFSET\x01"))
