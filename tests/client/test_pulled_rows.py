"""Rows of pulls: which pulls become rows, what is open, what a queue gives and keeps."""

from random import Random
from typing import NamedTuple

import pytest

from tests.client.clusters import messages
from tests.client.group_cluster import SETTLER
from tests.fakes.records import record
from wakelog.client import pulled_rows
from wakelog.client.process_queue import ProcessQueue
from wakelog.client.pulled_rows import PulledRows, RowQueue, scan
from wakelog.compiled.library import CHOICE
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.sys_flag import TRANSACTION_PREPARED


class Item(NamedTuple):
    queue_offset: int
    size_bytes: int


QUEUE = MessageQueue("T", "a", 0)
pytestmark = pytest.mark.skipif(CHOICE.library is None, reason=str(CHOICE))


def scanned(body: bytes | memoryview, *tags: str, rows_expected: int = 100) -> PulledRows | None:
    assert CHOICE.library is not None
    return scan(CHOICE.library, body, QUEUE, frozenset(tags), rows_expected)


def rows_of(count: int, first: int = 0) -> PulledRows:
    found = scanned(b"".join(messages(count, first=first)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "body",
    [
        b"",
        record(0)[:-1],
        record(0) + bytes(91),
        record(0, topic="U"),
        record(0, queue_id=1),
        record(0) + record(200, sys_flag=TRANSACTION_PREPARED),
    ],
)
def test_a_pull_with_anything_else_has_no_rows(body: bytes) -> None:
    assert scanned(body) is None


def test_other_tags_are_left_out() -> None:
    body = b"".join(
        record(200 * n, b"TAGS\1" + tag, queue_offset=n)
        for n, tag in enumerate((b"paid", b"sent", b"paid", b"p"))
    )
    found = scanned(body, "paid")
    assert found is not None
    assert [one.queue_offset for one in found.messages(SETTLER)] == [0, 2]
    assert scanned(body, "lost") is None


@pytest.mark.parametrize("rows_expected", [-5, 0, 3, 40, 1 << 40])
def test_a_pull_of_more_rows_than_expected_is_read_whole(rows_expected: int) -> None:
    for count in (2, 3, 4, 40):
        body = b"".join(messages(count))
        found = scanned(memoryview(bytearray(body)), rows_expected=rows_expected)
        assert found is not None and len(found) == count


def test_rows_are_open_until_they_are_closed() -> None:
    rows = rows_of(4, first=10)
    assert (rows.close(slice(0, 2)), rows.close(slice(1, 3)), rows.open_count) == (2, 1, 1)
    assert (rows.begin_offset, rows.first_open, rows.last_offset) == (10, 13, 13)
    assert [one.body for one in rows.messages(SETTLER)] == [b"13"]


def test_a_queue_gives_what_is_asked_for_in_order() -> None:
    queue = RowQueue()
    for begin in (0, 4, 8):
        queue.put(rows_of(4, begin))
    queue.put(rows_of(4, 4))  # pulled twice
    assert (queue.count, queue.first_open) == (12, 0)
    first, second = queue.take(0, 6)
    assert (len(first), len(second), queue.in_hand_count) == (4, 2, 6)
    queue.untake(second)
    again, third = queue.take(1, 4)
    assert (again.begin_offset, len(again), third.begin_offset, len(third)) == (4, 2, 6, 2)
    queue.close(again, slice(0, 2))
    assert queue.first_open == 0
    queue.close(first, slice(0, 3))
    assert queue.first_open == 3
    queue.close(first, slice(3, 4))
    assert (queue.first_open, queue.count, queue.holds(first)) == (6, 6, False)


def test_what_is_overdue_is_forgotten_and_returned() -> None:
    queue = RowQueue()
    queue.put(rows_of(2))
    queue.put(rows_of(2, first=2))
    [early] = queue.take(5, 2)
    queue.take(9, 2)
    assert queue.take_overdue(5) == []
    assert queue.take_overdue(6) == [(early, 5)]
    assert (queue.first_open, queue.count) == (2, 2)


def test_a_full_queue_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = RowQueue()
    queue.put(rows_of(4))
    assert queue.full_reason == ""
    monkeypatch.setattr(pulled_rows, "BYTES_MAX", 100)
    assert queue.full_reason == "over 100 bytes of rows wait for ack_arrow()"
    monkeypatch.setattr(pulled_rows, "ROWS_MAX", 3)
    assert queue.full_reason == "over 3 rows wait for ack_arrow()"
    queue.clear()
    assert (queue.full_reason, queue.first_open, queue.take(0, 9)) == ("", None, [])


@pytest.mark.parametrize(
    ("rows", "spare_rows", "spare_bytes", "limit"),
    [(4, 0, 0, ""), (4, -1, 0, "rows"), (4, 0, -1, "bytes"), (4, -1, -1, "rows"), (0, 0, 0, "")],
)
def test_a_queue_is_full_above_each_limit(
    rows: int, spare_rows: int, spare_bytes: int, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = RowQueue()
    if rows:
        queue.put(rows_of(rows))
    monkeypatch.setattr(pulled_rows, "ROWS_MAX", queue.count + spare_rows)
    monkeypatch.setattr(pulled_rows, "BYTES_MAX", queue.size_bytes + spare_bytes)
    assert (limit in queue.full_reason) if limit else not queue.full_reason


def offsets_of(rows: PulledRows) -> list[int]:
    return list(range(rows.begin_offset, rows.last_offset + 1))


class Twins:
    """A queue of rows, and beside it the state of each row in a plain table.

    pulls: the offsets that belong together, by the first. in_hand: rows, and since when.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.queue = RowQueue()
        self.states: dict[int, str] = {}  # ready, in hand, acknowledged
        self.pulls: dict[int, list[int]] = {}
        self.in_hand: dict[int, tuple[PulledRows, int]] = {}
        self.gone: list[PulledRows] = []
        self.end = 0

    def those(self, *wanted: str) -> list[int]:
        offsets = [offset for _, pull in sorted(self.pulls.items()) for offset in pull]
        return [offset for offset in offsets if self.states[offset] in wanted]

    def put(self, now_ms: int) -> None:
        begin = self.random.choice([self.end, self.end, *list(self.pulls)[:1]])
        offsets = list(range(begin, begin + self.random.randint(1, 6)))
        self.queue.put(rows_of(len(offsets), begin))
        if begin == self.end:  # else it was pulled twice
            self.pulls[begin], self.end = offsets, offsets[-1] + 1
            self.states |= dict.fromkeys(offsets, "ready")

    def take(self, now_ms: int) -> None:
        rows_max = self.random.randint(0, 9)
        ready = self.those("ready")[:rows_max]
        taken = self.queue.take(now_ms, rows_max)
        assert [offset for rows in taken for offset in offsets_of(rows)] == ready
        for rows in taken:
            offsets = self.pulls[rows.begin_offset]
            self.pulls[rows.begin_offset], rest = offsets[: len(rows)], offsets[len(rows) :]
            self.pulls |= {rest[0]: rest} if rest else {}
            self.in_hand[rows.begin_offset] = rows, now_ms
        self.states |= dict.fromkeys(ready, "in hand")

    def untake(self, now_ms: int) -> None:
        for rows, _ in reversed(list(self.in_hand.values())):
            ready = [*self.those("ready"), self.end]
            if rows.open_count == len(rows) and rows.last_offset < ready[0]:
                self.queue.untake(rows)
                self.states |= dict.fromkeys(offsets_of(rows), "ready")
                del self.in_hand[rows.begin_offset]

    def close(self, now_ms: int) -> None:
        for rows, _ in self.random.sample(list(self.in_hand.values()), min(1, len(self.in_hand))):
            begin = self.random.randrange(len(rows))
            some = offsets_of(rows)[begin : begin + self.random.randint(1, 6)]
            count = sum(self.states[each] == "in hand" for each in some)
            assert self.queue.close(rows, slice(begin, begin + len(some))) == count
            self.states |= dict.fromkeys(some, "acknowledged")
            if {self.states[each] for each in offsets_of(rows)} == {"acknowledged"}:
                self.drop(rows)

    def take_overdue(self, now_ms: int) -> None:
        before_ms = self.random.randint(now_ms - 30, now_ms)
        late = [(rows, at_ms) for rows, at_ms in self.in_hand.values() if at_ms < before_ms]
        assert self.queue.take_overdue(before_ms) == late
        for rows, _ in late:
            self.drop(rows)

    def drop(self, rows: PulledRows) -> None:
        del self.pulls[rows.begin_offset], self.in_hand[rows.begin_offset]
        self.gone.append(rows)

    def compare(self) -> None:
        queue, pulled = self.queue, [each for pull in self.pulls.values() for each in pull]
        assert queue.first_open == next(iter(self.those("ready", "in hand")), None)
        assert queue.in_hand_count == len(self.those("in hand"))
        sizes_bytes = [len(messages(1, first=each)[0]) for each in pulled]
        assert (queue.count, queue.size_bytes) == (len(pulled), sum(sizes_bytes))
        assert all(queue.holds(rows) for rows, _ in self.in_hand.values())
        assert not any(queue.holds(rows) for rows in self.gone)


@pytest.mark.parametrize("seed", range(8))
def test_a_queue_keeps_what_a_plain_table_keeps(seed: int) -> None:
    both = Twins(seed)
    steps = [both.put, both.put, both.take, both.take, both.close, both.untake, both.take_overdue]
    for now_ms in range(150):
        both.random.choice(steps)(now_ms)
        both.compare()
    ready = both.those("ready")
    assert [each for rows in both.queue.take_ready() for each in offsets_of(rows)] == ready
    assert both.queue.count == sum(len(rows) for rows, _ in both.in_hand.values())
    for rows, taken_ms in list(both.in_hand.values()):
        assert both.queue.forget(rows) == (rows, taken_ms)
    assert (both.queue.count, both.queue.size_bytes, both.queue.in_hand_count) == (0, 0, 0)


def test_a_queue_that_begins_elsewhere_has_no_row_of_before() -> None:
    queue = ProcessQueue[Item](QUEUE, 0)
    queue.rows.put(rows_of(4))
    queue.rows.put(rows_of(4, 4))
    assert len(queue.rows.take(0, 4)) == 1
    queue.restart(9)
    assert (queue.messages_count, queue.in_hand_count, queue.committable) == (0, 0, 9)
    assert queue.rows.take(0, 9) == [] and not queue.rows.size_bytes
