"""A slave's connection on the slave: the log that arrives is its master's, byte for byte."""

import random

import pytest

from tests.fakes.logs import SEGMENT_BYTES, draft, open_log, small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.broker.replication.ha_client_state import (
    FetchEnded,
    HaClientSettings,
    HaClientState,
    MasterLog,
    check_log,
    overlap_begin,
)
from wakelog.broker.replication.shipping import LogRange, Shipping, ShippingSettings
from wakelog.broker.replication.whole_records import Received
from wakelog.protocol.ha_frames import REPORT, encode_header
from wakelog.storage.errors import NotWriteable
from wakelog.storage.log.commit_log import CommitLog

NOW_MS = 1_700_000_000_000
SETTINGS = HaClientSettings()


def fill(log: CommitLog, count: int, seed: int = 1) -> None:
    choice = random.Random(seed)
    for index in range(count):
        log.append(draft(bytes(choice.randrange(900)), queue_id=index % 3), NOW_MS + index)
    log.write_pending()


def master_of(log: CommitLog) -> MasterLog:
    return MasterLog(log.files.min_offset, log.appended_offset, SEGMENT_BYTES)


def content(log: CommitLog, begin: int = 0) -> bytes:
    data = b"".join(file.read(0, SEGMENT_BYTES) for file in log.files.files)
    return data[begin - log.files.min_offset :]


class Pair:
    """A master's log and a slave's, and one connection between them."""

    def __init__(self, master: CommitLog, slave: CommitLog, transfer_bytes: int = 1_000) -> None:
        self.master, self.slave = master, slave
        about = master_of(master)
        begin = overlap_begin(slave.files.min_offset, slave.appended_offset, about)
        overlap = content(slave, begin)[: slave.appended_offset - begin]
        self.shipping = Shipping(ShippingSettings(transfer_bytes=transfer_bytes), NOW_MS)
        self.following = HaClientState(
            SETTINGS, about, own_end=slave.appended_offset, overlap=overlap, now_ms=NOW_MS
        )
        self.range = LogRange(about.begin, about.end, SEGMENT_BYTES)
        self.shipping.receive(self.following.first_report(), self.range, NOW_MS)

    def stream(self) -> bytes:
        """Return everything that the master sends now."""
        self.range = self.range._replace(end=self.master.appended_offset)
        sent = b""
        while (piece := self.shipping.next_piece(self.range, NOW_MS)) is not None:
            file = self.master.files.find(piece.offset)
            assert file is not None
            sent += piece.header + file.read(file.position_of(piece.offset), piece.size_bytes)
        return sent

    def take(self, data: bytes, cuts: random.Random) -> list[Received]:
        """Append what comes in pieces, with a report after each."""
        taken = []
        while data:
            size = cuts.randrange(1, 3_000)
            for received in self.following.receive(data[:size], NOW_MS):
                self.slave.append_bytes(received.offset, received.data, NOW_MS)
                taken.append(received)
            data = data[size:]
            report = self.following.next_report(self.slave.write_pending(), NOW_MS)
            if report is not None:
                self.shipping.receive(report, self.range, NOW_MS)
        return taken


def empty_log() -> CommitLog:
    return open_log(MemoryFileSystem(), small_config())


@pytest.fixture
def master() -> CommitLog:
    log = empty_log()
    fill(log, 40)
    assert len(log.files.files) > 3
    return log


@pytest.mark.parametrize("seed", range(20))
def test_an_empty_slave_gets_every_segment(master: CommitLog, seed: int) -> None:
    pair = Pair(master, empty_log(), transfer_bytes=200 + 100 * seed)
    cuts = random.Random(seed)
    taken = pair.take(pair.stream(), cuts)
    assert taken[-1].stored_ms == NOW_MS + 39
    fill(master, 20, seed)
    pair.take(pair.stream(), cuts)
    assert pair.slave.appended_offset == master.appended_offset == pair.shipping.acked
    assert content(pair.slave) == content(master)


def test_a_slave_goes_on_where_it_ended(master: CommitLog) -> None:
    first = Pair(master, empty_log())
    first.take(first.stream(), random.Random(1))
    fill(master, 30, 5)
    second = Pair(master, first.slave)
    second.take(second.stream(), random.Random(2))
    assert content(second.slave) == content(master)
    assert second.shipping.acked == master.appended_offset


def test_an_empty_slave_of_an_empty_master() -> None:
    pair = Pair(empty_log(), empty_log())
    assert pair.following.first_report() == bytes(8)
    fill(pair.master, 9)
    pair.take(pair.stream(), random.Random(3))
    assert content(pair.slave) == content(pair.master)


def test_records_are_handed_on_whole(master: CommitLog) -> None:
    pair = Pair(master, empty_log())
    stream = pair.stream()
    assert pair.following.receive(stream[:50], NOW_MS) == []
    ends = [one.offset + len(one.data) for one in pair.following.receive(stream[50:2_000], NOW_MS)]
    file = master.files.files[0]
    size = int.from_bytes(file.read(ends[-1], 4), "big")
    assert file.read(ends[-1] + 4, 4) == bytes.fromhex("daa320a7") and size < 2_000


def test_damage_of_the_master_is_copied(master: CommitLog) -> None:
    file = master.files.files[1]
    file.write(0, b"\xff" * 600)
    pair = Pair(master, empty_log())
    pair.take(pair.stream(), random.Random(4))
    assert content(pair.slave) == content(master)


def test_a_flipped_byte_in_the_overlap_ends_it_with_nothing_written(master: CommitLog) -> None:
    first = Pair(master, empty_log())
    first.take(first.stream(), random.Random(1))
    end = first.slave.appended_offset
    fill(master, 5)
    last = master.files.find(end - 300)
    assert last is not None
    last.write(last.position_of(end - 300), b"\xff")
    second = Pair(master, first.slave)
    with pytest.raises(FetchEnded, match="it is another log") as error:
        second.take(second.stream(), random.Random(1))
    assert error.value.is_mismatch
    assert first.slave.end_offset == end


@pytest.mark.parametrize(
    ("data", "cause", "is_mismatch"),
    [
        (encode_header(8, 0), "0 should come next, and 8 came", False),
        (encode_header(0, -5), "no frame of a master", False),
        (encode_header(0, 5_000) + bytes(5_000), "crosses the end of a segment", True),
        (b"GET / HTTP/1.1\r\n\r\n", "no frame of a master", False),
    ],
)
def test_what_no_master_sends_ends_it(data: bytes, cause: str, is_mismatch: bool) -> None:
    empty = MasterLog(0, 0, SEGMENT_BYTES)
    following = HaClientState(SETTINGS, empty, own_end=0, overlap=b"", now_ms=NOW_MS)
    with pytest.raises(FetchEnded, match=cause) as error:
        following.receive(data, NOW_MS)
    assert error.value.is_mismatch is is_mismatch


@pytest.mark.parametrize(
    ("own_end", "master", "cause"),
    [
        (5_000, MasterLog(0, 4_999, SEGMENT_BYTES), "this store has what the master lost"),
        (5_000, MasterLog(8_192, 9_000, SEGMENT_BYTES), "what lies between was deleted"),
        (0, MasterLog(0, 9_000, 1024), "set mappedFileSizeCommitLog=1024"),
    ],
)
def test_logs_that_do_not_fit(own_end: int, master: MasterLog, cause: str) -> None:
    with pytest.raises(FetchEnded, match=cause):
        check_log(own_end, SEGMENT_BYTES, master)
    check_log(9_000, SEGMENT_BYTES, MasterLog(4_096, 9_000, SEGMENT_BYTES))


def test_reports_are_of_what_is_durable_and_was_received(master: CommitLog) -> None:
    pair = Pair(master, empty_log())
    following = pair.following
    assert following.next_report(0, NOW_MS) is None
    following.receive(pair.stream()[:2_000], NOW_MS)
    report = following.next_report(700, NOW_MS)
    assert report is not None and REPORT.unpack(report) == (700,)
    assert following.next_report(700, NOW_MS) is None
    heartbeat_ms = NOW_MS + SETTINGS.heartbeat_ms
    assert following.next_ms() == heartbeat_ms
    assert following.next_report(700, heartbeat_ms) == report
    far = following.next_report(1 << 40, heartbeat_ms)
    assert far is not None and REPORT.unpack(far)[0] <= 2_000


def test_a_silent_master_is_given_up() -> None:
    empty = MasterLog(0, 0, SEGMENT_BYTES)
    following = HaClientState(SETTINGS, empty, own_end=0, overlap=b"", now_ms=NOW_MS)
    following.receive(encode_header(0, 0), NOW_MS + 5)
    following.check_silence(NOW_MS + 20_005)
    with pytest.raises(FetchEnded, match="20001 ms"):
        following.check_silence(NOW_MS + 20_006)


def test_a_slave_wakes_for_its_report_and_for_the_end_of_a_silent_master() -> None:
    empty = MasterLog(0, 0, SEGMENT_BYTES)
    settings = HaClientSettings(heartbeat_ms=50_000, housekeeping_ms=20_000)
    following = HaClientState(settings, empty, own_end=0, overlap=b"", now_ms=NOW_MS)
    assert following.next_ms() == NOW_MS + 20_001
    following.check_silence(following.next_ms() - 1)
    with pytest.raises(FetchEnded):
        following.check_silence(following.next_ms())
    following.receive(encode_header(0, 0), NOW_MS + 40_000)
    assert following.next_ms() == NOW_MS + 50_000
    assert following.next_report(0, NOW_MS + 49_999) is None
    assert following.next_report(0, NOW_MS + 50_000) is not None
    assert following.next_ms() == NOW_MS + 60_001


def test_a_log_that_takes_no_more_says_so() -> None:
    log = empty_log()
    log.fail("the disk broke")
    with pytest.raises(NotWriteable, match="the disk broke"):
        log.append_bytes(0, b"x", NOW_MS)
