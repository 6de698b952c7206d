"""Rows of pulls: which pulls become rows, what is open, what a queue gives and keeps."""

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


def test_a_queue_that_begins_elsewhere_has_no_row_of_before() -> None:
    queue = ProcessQueue[Item](QUEUE, 0)
    queue.rows.put(rows_of(4))
    queue.rows.put(rows_of(4, 4))
    assert len(queue.rows.take(0, 4)) == 1
    queue.restart(9)
    assert (queue.messages_count, queue.in_hand_count, queue.committable) == (0, 0, 9)
    assert queue.rows.take(0, 9) == [] and not queue.rows.size_bytes
