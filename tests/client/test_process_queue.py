"""A queue between pull and acknowledgement: order, offsets and limits."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.client import process_queue as module
from wakelog.client.process_queue import MESSAGES_MAX, SPAN_MAX, ProcessQueue
from wakelog.protocol.body_codec import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


class Item(NamedTuple):
    queue_offset: int
    size_bytes: int = 100


def filled(count: int, *, first: int = 0, is_ordered: bool = False) -> ProcessQueue[Item]:
    queue = ProcessQueue[Item](QUEUE, first, is_ordered=is_ordered)
    queue.put([Item(first + n) for n in range(count)], first + count)
    return queue


def take(queue: ProcessQueue[Item], now_ms: int = 0) -> Item:
    [found] = queue.take(now_ms, min(queue.ready_count(now_ms), 1))
    return found


def test_the_offset_follows_the_first_message_that_is_not_acknowledged() -> None:
    queue = filled(3, first=10)
    first, second, third = (take(queue) for _ in range(3))
    assert queue.committable == 10
    queue.ack([second])
    assert queue.committable == 10
    queue.ack([first])
    assert queue.committable == 12
    queue.ack([third])
    assert queue.committable == 13


def test_another_thread_that_asks_during_a_restart_hears_that_all_is_gone() -> None:
    queue = filled(1)
    message = take(queue)
    assert queue.holds(message)

    class Restarting(dict[int, int]):
        def __contains__(self, offset: object) -> bool:
            found = super().__contains__(offset)
            queue.restart(0)
            return found

    queue._in_hand = Restarting(queue._in_hand)
    assert not queue.holds(message)


@given(st.permutations(range(20)))
def test_the_offset_never_passes_what_waits(order: list[int]) -> None:
    queue = filled(20)
    items = [take(queue) for _ in range(20)]
    waiting = set(range(20))
    for number in order:
        queue.ack([items[number]])
        waiting.remove(number)
        assert queue.committable == min(waiting, default=20)
    assert queue.size_bytes == queue.messages_count == queue.in_hand_count == 0


def test_an_acknowledgement_of_what_is_not_in_hand_does_nothing() -> None:
    queue = filled(4)
    first, second, third = (take(queue) for _ in range(3))
    queue.put_back(second, due_ms=1_000)
    given = [third, second, Item(0), third, first, Item(9)]
    assert queue.ack(given) == [third, first]
    assert (queue.committable, queue.size_bytes, queue.acked_count) == (1, 200, 2)


@given(st.integers(0, 6), st.lists(st.integers(0, 9), max_size=12))
def test_of_messages_with_one_offset_the_first_is_there(held: int, offsets: list[int]) -> None:
    queue = filled(held)
    taken = [take(queue) for _ in range(held)]
    kept = {item.queue_offset: item for item in taken}
    pulled = [Item(offset, 1 + place) for place, offset in enumerate(offsets)]
    fresh = []
    for item in pulled:
        if kept.setdefault(item.queue_offset, item) is item:
            fresh.append(item)
    queue.put(pulled, 10)
    assert queue.take(0, queue.ready_count(0)) == fresh
    assert queue.size_bytes == sum(item.size_bytes for item in kept.values())
    assert queue.last_offset == (fresh[-1].queue_offset if fresh else max(held - 1, 0))


def test_offsets_that_were_filtered_out_are_passed() -> None:
    queue = ProcessQueue[Item](QUEUE, 0)
    queue.put([], 800)
    assert queue.committable == queue.next_offset == 800
    queue.put([Item(805)], 900)
    assert queue.committable == 805
    queue.ack([take(queue)])
    assert queue.committable == 900


def test_an_ordered_queue_gives_one_message_at_a_time() -> None:
    queue = filled(2, is_ordered=True)
    first = take(queue)
    assert queue.ready_count(0) == 0
    queue.put_back(first, due_ms=1_000)
    assert queue.ready_count(999) == 0
    assert take(queue, 1_000) is first
    queue.ack([first])
    assert take(queue).queue_offset == 1


def test_other_queues_go_on_while_one_message_waits() -> None:
    queue = filled(2)
    queue.put_back(take(queue), due_ms=1_000)
    assert take(queue).queue_offset == 1
    assert queue.ready_count(999) == 0
    assert take(queue, 1_000).queue_offset == 0
    assert queue.returned_count == 1


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_message_that_was_not_handed_over_is_the_next(is_ordered: bool) -> None:
    queue = filled(2, is_ordered=is_ordered)
    first = take(queue)
    queue.untake(first)
    assert (queue.taken_count, queue.in_hand_count, queue.committable) == (0, 0, 0)
    assert take(queue) is first


def test_nothing_is_pulled_beyond_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = filled(MESSAGES_MAX)
    assert not queue.full_reason
    queue.put([Item(MESSAGES_MAX)], MESSAGES_MAX + 1)
    assert str(MESSAGES_MAX) in queue.full_reason
    monkeypatch.setattr(module, "BYTES_MAX", 250)
    assert not filled(2).full_reason
    assert "250 bytes" in filled(3).full_reason


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_message_that_stays_behind_holds_the_queue(is_ordered: bool) -> None:
    queue = ProcessQueue[Item](QUEUE, 0, is_ordered=is_ordered)
    queue.put([Item(0), Item(SPAN_MAX)], SPAN_MAX + 1)
    assert not queue.full_reason
    queue.put([Item(SPAN_MAX + 1)], SPAN_MAX + 2)
    assert bool(queue.full_reason) == (not is_ordered)


def test_a_restart_forgets_everything() -> None:
    queue = filled(5)
    returned, taken = take(queue), take(queue)
    queue.put_back(returned, due_ms=1_000)
    queue.restart(2)
    assert (queue.committable, queue.next_offset, queue.messages_count) == (2, 2, 0)
    assert not queue.holds(taken)
    assert (queue.due_ms, queue.size_bytes, queue.in_hand_count) == (None, 0, 0)
    assert queue.ready_count(2_000) == 0
    queue.put([Item(2), Item(3)], 4)
    assert [take(queue, 2_000).queue_offset for _ in range(2)] == [2, 3]
    assert queue.ready_count(2_000) == 0


def test_a_message_is_held_by_identity() -> None:
    queue = filled(1)
    old = take(queue)
    queue.restart(0)
    queue.put([Item(0, 7)], 1)
    new = take(queue)
    assert queue.holds(new)
    assert not queue.holds(old)


def test_a_message_that_was_pulled_twice_is_there_once() -> None:
    queue = filled(2)
    queue.put([Item(1), Item(2)], 3)
    assert queue.messages_count == 3
    assert queue.size_bytes == 300


def test_overdue_messages_are_those_in_hand() -> None:
    queue = filled(3)
    early, late = take(queue, 1_000), take(queue, 2_000)
    assert queue.overdue(2_000) == [early]
    assert queue.overdue(2_001) == [early, late]


@pytest.mark.parametrize(("size_bytes", "is_full"), [(250, False), (251, True)])
def test_a_queue_is_full_above_so_many_bytes(
    size_bytes: int, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BYTES_MAX", 250)
    queue = ProcessQueue[Item](QUEUE, 0)
    queue.put([Item(0, size_bytes)], 1)
    assert bool(queue.full_reason) is is_full
    queue.ack([take(queue)])
    assert not queue.full_reason and queue.size_bytes == 0


@pytest.mark.parametrize(("span", "is_full"), [(SPAN_MAX, False), (SPAN_MAX + 1, True)])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_queue_goes_so_far_ahead_of_what_waits(
    span: int, is_full: bool, is_ordered: bool
) -> None:
    queue = ProcessQueue[Item](QUEUE, 5, is_ordered=is_ordered)
    queue.put([Item(5), Item(5 + span)], 6 + span)
    assert bool(queue.full_reason) is (is_full and not is_ordered)


def test_a_message_that_was_put_back_is_due_at_its_time() -> None:
    queue = filled(2)
    first, second = take(queue), take(queue)
    queue.put_back(first, due_ms=1_000)
    assert queue.due_ms == 1_000 and not queue.holds(first) and queue.holds(second)
    assert queue.ready_count(999) == 0
    assert take(queue, 1_000) is first and queue.due_ms is None
