"""The watermark is trusted after our own stops and crashes, not after another broker's."""

from contextlib import closing

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import NOW_MS, dispatch, open_store, put, store_config
from wakelog.protocol.record import encode_record
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint, CheckpointTimes, read_times
from wakelog.storage.durability.marks import AbortFile
from wakelog.storage.durability.watermark import Watermark, read_mark
from wakelog.storage.errors import DamagedStore, StoreFailed
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.recovery.steps import recover
from wakelog.storage.recovery.watermark_trust import (
    DurablePositions,
    known_durable,
    seal_of,
    unseal_log,
)

CONFIG = store_config(commit_log_file_bytes=4096)
SEGMENT = "/store/commitlog/00000000000000000000"
STOPPED_MS = NOW_MS + 10_000


def distrusted(trace: str) -> DurablePositions:
    return DurablePositions(doubt=f"another broker had the store, and {trace}")


class Left:
    """A store of three messages that was left in order, or by a crash."""

    def __init__(self, *, clean: bool) -> None:
        self.fs = MemoryFileSystem()
        store = open_store(self.fs, CONFIG)
        put(store, b"one", b"two", b"three")
        dispatch(store, self.fs, begin=0)
        self.end = store.max_physical_offset
        store.close(dispatch_behind_bytes=0 if clean else 1)

    def known(self, config: StoreConfig = CONFIG) -> DurablePositions:
        files = commit_log_files(self.fs, config)
        files.load()
        try:
            return known_durable(
                self.fs, config, files, read_times(self.fs, config.paths.checkpoint)
            )
        finally:
            files.close()

    def abort(self) -> None:
        AbortFile(self.fs, CONFIG.paths.abort).create()

    def write_checkpoint(self, physic_ms: int) -> None:
        checkpoint = Checkpoint(self.fs, CONFIG.paths.checkpoint)
        checkpoint.set_physic(physic_ms)
        checkpoint.close()

    def write_message(self) -> None:
        record = encode_record(
            queue_id=0,
            flag=0,
            queue_offset=3,
            physical_offset=self.end,
            sys_flag=0,
            born_timestamp_ms=STOPPED_MS,
            born_host=("127.0.0.1", 40_000),
            store_timestamp_ms=STOPPED_MS,
            store_host=("127.0.0.1", 10_911),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=b"from another broker",
            topic="TopicTest",
            properties=b"",
        )
        data = bytearray(read_file(self.fs, SEGMENT))
        data[self.end : self.end + len(record)] = record
        write_file(self.fs, SEGMENT, bytes(data))
        self.touch()

    def touch(self) -> None:
        self.fs.set_modified_ms(SEGMENT, STOPPED_MS)


@pytest.mark.parametrize("clean", [True, False])
def test_our_own_watermark_is_trusted(clean: bool) -> None:
    left = Left(clean=clean)
    assert left.known() == DurablePositions(left.end)
    assert (read_mark(left.fs, CONFIG.paths.watermark).seal is not None) is clean
    left.touch()
    assert left.known() == DurablePositions(left.end)


def test_what_was_durable_may_end_with_the_last_segment() -> None:
    left = Left(clean=False)
    for end in (4096, 4097):
        with closing(Watermark(left.fs, CONFIG.paths.watermark)) as watermark:
            watermark.note(end, NOW_MS)
        if end == 4096:
            assert left.known() == DurablePositions(end)
    with pytest.raises(DamagedStore, match="its segments end at 4096"):
        left.known()


def test_a_clean_stop_is_sealed_by_what_another_broker_changes() -> None:
    left = Left(clean=True)
    left.write_checkpoint(STOPPED_MS)
    assert left.known() == DurablePositions(
        doubt="another broker had the store, and wrote its checkpoint"
    )


def test_a_message_after_the_end_is_another_brokers() -> None:
    left = Left(clean=True)
    left.write_message()
    found = left.known()
    assert found == DurablePositions(
        doubt="another broker had the store, and wrote after the log's end"
    )


def test_an_abort_mark_that_we_removed_is_another_brokers() -> None:
    left = Left(clean=True)
    left.abort()
    # A start of ours that was killed before anything was written, or one of another broker's.
    assert left.known() == DurablePositions(left.end)
    left.touch()
    found = left.known()
    assert found == DurablePositions(
        doubt="another broker had the store, and did not stop in order"
    )


def test_after_a_crash_a_removed_abort_mark_is_another_brokers() -> None:
    left = Left(clean=False)
    AbortFile(left.fs, CONFIG.paths.abort).remove()
    assert left.known().doubt is not None


def test_after_a_crash_a_younger_checkpoint_is_another_brokers() -> None:
    left = Left(clean=False)
    left.write_checkpoint(read_mark(left.fs, CONFIG.paths.watermark).physic_ms)
    assert left.known() == DurablePositions(left.end)
    left.write_checkpoint(STOPPED_MS)
    assert left.known().watermark == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_that_wrote_into_the_lock_is_another(clean: bool) -> None:
    left = Left(clean=clean)
    write_file(left.fs, CONFIG.paths.lock, b"lock")
    found = distrusted("wrote into its lock")
    assert left.known() == found
    store = open_store(left.fs, CONFIG)
    assert store.recovery.watermark_doubt == found.doubt
    store.close(dispatch_behind_bytes=1)
    assert left.known() == DurablePositions(left.end)


def test_a_lock_that_cannot_be_read_is_no_answer() -> None:
    left = Left(clean=True)
    left.fs.fail("open")
    with pytest.raises(StoreFailed):
        left.known()


def test_recovery_says_so_and_begins_a_new_one() -> None:
    left = Left(clean=True)
    left.write_message()
    left.write_checkpoint(STOPPED_MS)
    report = recover(left.fs, CONFIG, STOPPED_MS).report
    assert report.watermark == 0 and report.watermark_doubt is not None
    assert report.log_end > left.end
    mark = read_mark(left.fs, CONFIG.paths.watermark)
    assert (mark.physical_offset, mark.physic_ms) == (report.log_end, STOPPED_MS)


def test_a_store_of_a_real_broker_has_none() -> None:
    left = Left(clean=True)
    left.fs.unlink(CONFIG.paths.watermark)
    assert left.known() == DurablePositions()


def test_a_slave_does_without() -> None:
    left = Left(clean=True)
    slave = store_config(commit_log_file_bytes=4096, broker_role=BrokerRole.SLAVE)
    assert left.known(slave) == DurablePositions()


def test_missing_segments_are_not_guessed() -> None:
    left = Left(clean=True)
    left.fs.unlink(SEGMENT)
    with pytest.raises(DamagedStore, match="missing segments back, or remove"):
        left.known()


def test_a_start_may_end_anywhere() -> None:
    left = Left(clean=True)
    left.write_message()  # the end that the seal was made for is no more
    report, files = recover(left.fs, CONFIG, STOPPED_MS)
    files.close()
    assert left.known() == DurablePositions(report.log_end)
    left.abort()
    assert left.known() == DurablePositions(report.log_end)
    unseal_log(left.fs, CONFIG)
    left.touch()
    assert left.known() == DurablePositions(report.log_end)
    assert read_mark(left.fs, CONFIG.paths.watermark).seal is None


def test_a_seal_that_cannot_be_read_is_a_failure() -> None:
    left = Left(clean=True)
    files = commit_log_files(left.fs, CONFIG)
    files.load()
    left.fs.fail("pread")
    with pytest.raises(StoreFailed):
        seal_of(left.fs, CONFIG, files, left.end)
    assert seal_of(left.fs, CONFIG, commit_log_files(left.fs, CONFIG), 0).segment_bytes == 0


def test_a_seal_is_of_the_segment_that_was_written_last() -> None:
    """A log that ends with a segment has written that one, not the next."""
    left = Left(clean=True)
    write_file(left.fs, SEGMENT.replace("0" * 20, f"{4096:020d}"), bytes(4096))
    left.touch()
    files = commit_log_files(left.fs, CONFIG)
    files.load()
    assert seal_of(left.fs, CONFIG, files, 4096).modified_ms == STOPPED_MS
    assert seal_of(left.fs, CONFIG, files, 4097).modified_ms != STOPPED_MS


def test_reading_the_times_makes_no_file() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    assert read_times(fs, CONFIG.paths.checkpoint) == CheckpointTimes()
    assert not fs.exists(CONFIG.paths.checkpoint)
    write_file(fs, CONFIG.paths.checkpoint, bytes(4096))
    fs.fail("pread")
    with pytest.raises(StoreFailed):
        read_times(fs, CONFIG.paths.checkpoint)
