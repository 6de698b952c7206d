"""What queues give: in turn, and not while they are paused or without their lock."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.clusters import messages
from tests.client.group_cluster import SETTLER
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.inbox import LARGE_QUEUES_MAX, LOCK_MS, Inbox, Queue
from wakelog.client.process_queue import ProcessQueue
from wakelog.network.limits import ServerLimits
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.record import decode_record


def queue_of(inbox: Inbox, queue_id: int, count: int, *, is_ordered: bool = False) -> Queue:
    place = MessageQueue("T", "a", queue_id)
    made: Queue = ProcessQueue(place, 0, is_ordered=is_ordered)
    records = map(decode_record, messages(count, queue_id=queue_id))
    made.put([ConsumerMessage(each, place, SETTLER) for each in records], count)
    inbox.add(made)
    inbox.wake(place)
    return made


def places(found: list[ConsumerMessage]) -> list[tuple[int, int]]:
    return [(each.queue.queue_id, each.queue_offset) for each in found]


def test_queues_take_turns() -> None:
    inbox = Inbox()
    queue_of(inbox, 0, 3)
    queue_of(inbox, 1, 1)
    assert places(inbox.take(0, 3)) == [(0, 0), (1, 0), (0, 1)]
    assert inbox.arrived.is_set()
    assert places(inbox.take(0, 3)) == [(0, 2)]
    assert not inbox.arrived.is_set()


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_lists_have_what_one_message_after_the_other_would_have(
    counts: list[int], sizes: list[int]
) -> None:
    inbox, single = Inbox(), Inbox()
    for each in (inbox, single):
        for queue_id, count in enumerate(counts):
            queue_of(each, queue_id, count)
    for size in sizes:
        one_by_one = [message for _ in range(size) for message in single.take(0, 1)]
        assert places(inbox.take(0, size)) == places(one_by_one)
    assert [each.in_hand_count for each in inbox.queues.values()] == [
        each.in_hand_count for each in single.queues.values()
    ]


def test_pulls_are_large_for_few_queues() -> None:
    inbox = Inbox()
    for queue_id in range(LARGE_QUEUES_MAX):
        queue_of(inbox, queue_id, 1)
    assert inbox.has_large_pulls
    queue_of(inbox, LARGE_QUEUES_MAX, 1)
    assert not inbox.has_large_pulls
    # Responses to all at once, with those of another member, are below what ends a connection.
    assert ServerLimits().write_buffer_bytes_max > LARGE_QUEUES_MAX * (1 << 20) * 2


def test_a_paused_or_leaving_queue_gives_nothing() -> None:
    inbox = Inbox()
    queue = queue_of(inbox, 0, 1).queue
    for held in (inbox.paused, inbox.leaving):
        held.add(queue)
        inbox.wake(queue)
        assert inbox.take(0, 1) == []
        held.remove(queue)
    inbox.wake(queue)
    assert places(inbox.take(0, 1)) == [(0, 0)]


def test_an_ordered_queue_gives_nothing_once_its_lock_is_old() -> None:
    inbox = Inbox()
    made = queue_of(inbox, 0, 2, is_ordered=True)
    assert inbox.take(0, 1) == []
    inbox.locked(made.queue, 1_000)
    [message] = inbox.take(1_000 + LOCK_MS - 1, 1)
    made.ack([message])
    inbox.wake(made.queue)
    assert inbox.take(1_000 + LOCK_MS, 1) == []


def test_messages_that_were_not_handed_over_are_given_again_in_their_order() -> None:
    inbox = Inbox()
    queues = [queue_of(inbox, n, 3) for n in range(2)]
    taken = inbox.take(0, 6)
    queues[0].put_back(taken[0], due_ms=1_000)  # given back already
    with pytest.raises(KeyError), inbox.handing_over(taken):
        raise KeyError
    assert inbox.arrived.is_set()
    again = inbox.take(0, 6)
    assert sorted(places(again)) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [each.queue_offset for each in again if each.queue.queue_id == 1] == [0, 1, 2]


def test_a_message_of_a_queue_that_went_away_has_no_holder() -> None:
    inbox = Inbox()
    made = queue_of(inbox, 0, 1)
    [message] = inbox.take(0, 1)
    assert inbox.holder(message) is made
    inbox.remove(made.queue)
    assert inbox.holder(message) is None


def test_a_direct_message_comes_first_unless_it_is_withdrawn() -> None:
    async def run() -> None:
        inbox = Inbox()
        queue_of(inbox, 0, 1)
        [record] = map(decode_record, messages(1, first=9))
        direct = ConsumerMessage(record, MessageQueue("T", "a", 5), SETTLER)
        inbox.put_directly(direct)
        inbox.withdraw(direct)
        inbox.put_directly(direct)
        assert places(inbox.take(0, 2)) == [(5, 9), (0, 0)]

    asyncio.run(run())


def test_direct_messages_beyond_what_is_asked_for_stay_in_their_order() -> None:
    async def run() -> None:
        inbox = Inbox()
        for record in map(decode_record, messages(3)):
            inbox.put_directly(ConsumerMessage(record, MessageQueue("T", "a", 5), SETTLER))
        taken = [places(inbox.take(0, count)) for count in (1, 2, 1)]
        assert taken == [[(5, 0)], [(5, 1), (5, 2)], []]

    asyncio.run(run())


class Model:
    """What three queues with five messages each must give, the last of them ordered."""

    def __init__(self, inbox: Inbox, chance: random.Random) -> None:
        self.inbox, self.chance, self.now_ms, self.locked_until_ms = inbox, chance, 0, 0
        self.queues = [queue_of(inbox, n, 5, is_ordered=n == 2) for n in range(3)]
        self.waits = {each.queue: list(range(5)) for each in self.queues}
        self.hands: dict[MessageQueue, list[ConsumerMessage]] = {x.queue: [] for x in self.queues}

    def able(self) -> list[MessageQueue]:
        """Return the queues that give something now."""
        ordered = self.queues[2].queue
        is_locked = self.now_ms < self.locked_until_ms and not self.hands[ordered]
        kept = self.inbox.paused | self.inbox.leaving | ({ordered} if not is_locked else set())
        return [place for place, waits in self.waits.items() if waits and place not in kept]

    def happen(self) -> None:
        """Let something happen, and have each queue looked at that may give something now."""
        queue, inbox = self.chance.choice(self.queues), self.inbox
        held = self.hands[queue.queue]
        match self.chance.randrange(6):
            case 0:
                inbox.paused.symmetric_difference_update({queue.queue})
            case 1:
                inbox.leaving.symmetric_difference_update({queue.queue})
            case 2:
                self.now_ms += LOCK_MS // 3
            case 3:
                inbox.locked(self.queues[2].queue, self.now_ms)
                self.locked_until_ms = self.now_ms + LOCK_MS
            case 4 if held:
                queue.ack([held.pop(0)])
            case 5:
                inbox.untake(held)
                self.waits[queue.queue][:0] = [each.queue_offset for each in held]
                held.clear()
        for each in self.queues:
            inbox.wake(each.queue)

    def take(self, count_max: int) -> None:
        """Take messages: as many as there are, in the order of each queue."""
        able = self.able()
        room = sum(1 if each.queue_id == 2 else len(self.waits[each]) for each in able)
        taken = self.inbox.take(self.now_ms, count_max)
        assert len(taken) == min(count_max, room)
        for message in taken:
            assert message.queue in able
            assert message.queue_offset == self.waits[message.queue].pop(0)
            self.hands[message.queue].append(message)
        if count_max > room:
            assert not self.inbox.arrived.is_set()


@pytest.mark.parametrize("seed", range(20))
def test_what_is_given_is_what_a_plain_model_gives(seed: int) -> None:
    model = Model(Inbox(), random.Random(seed))
    for _ in range(60):
        model.happen()
        model.take(model.chance.randrange(4))
        for queue in model.queues:
            held = sorted(each.queue_offset for each in model.hands[queue.queue])
            assert sorted(each.queue_offset for each in queue.in_hand()) == held


def test_whatever_may_give_something_wakes_a_fetch() -> None:
    inbox = Inbox()
    made = queue_of(inbox, 0, 1)
    direct = ConsumerMessage(decode_record(messages(1)[0]), MessageQueue("T", "a", 5), SETTLER)
    [taken] = inbox.take(0, 2)
    events: list[Callable[[], object]] = [
        lambda: inbox.wake(made.queue),
        lambda: inbox.locked(made.queue, 0),
        lambda: inbox.untake([taken]),
        lambda: inbox.put_directly(direct),
    ]
    for happens in events:
        inbox.take(0, 2)
        assert not inbox.arrived.is_set()
        happens()
        assert inbox.arrived.is_set()
