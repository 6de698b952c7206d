"""Allocation strategies: which queues of a topic each member of a consumer group reads.

A strategy is a function of all queues, all client ids and the own id. Each member computes it by
itself, so Python and Java members of one group have to get the same result from the same lists.

Invariants:
    - both lists are sorted before a strategy sees them.
    - with one strategy in a group, every queue goes to one member. MACHINE_ROOM leaves out the
      queues of other rooms.
    - a client id that the broker does not list yet gets no queue.

Source: org.apache.rocketmq.client.consumer.rebalance.*, org.apache.rocketmq.common.consistenthash.*
(4.9.3).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import md5
from typing import Final, TypeAlias

from wakelog.client.plain import not_accepted, plain_text
from wakelog.protocol.body_codec import MessageQueue

Strategy: TypeAlias = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]
"""Sorted queues, sorted client ids, and an id among them, to the queues of this id."""

VIRTUAL_NODES_COUNT: Final = 10
"""Places of one client in the circle of CONSISTENT_HASH."""


def allocate(
    strategy: Strategy, queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """Return the queues of one member; none if the broker does not list it yet."""
    if not queues or client_id not in client_ids:
        return []
    return strategy(sorted(queues), sorted(client_ids), client_id)


def allocate_averagely(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """Give each member neighbouring queues; the first members get one more (AVG)."""
    index = client_ids.index(client_id)
    size, rest = divmod(len(queues), len(client_ids))
    begin = index * size + min(index, rest)
    return list(queues[begin : begin + size + (index < rest)])


def allocate_by_circle(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """Deal the queues out like cards (AVG_BY_CIRCLE)."""
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


def allocate_by_hash(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """Give a queue to the next member in a circle of hashes (CONSISTENT_HASH)."""
    members_by_place = {
        _place_of(f"{member}-{index}"): member
        for member in client_ids
        for index in range(VIRTUAL_NODES_COUNT)
    }
    places = sorted(members_by_place)

    def owner(queue: MessageQueue) -> str:
        place = bisect_left(places, _place_of(_java_text(queue)))
        return members_by_place[places[place % len(places)]]

    return [queue for queue in queues if owner(queue) == client_id]


def allocate_by_machine_room(
    rooms: frozenset[str],
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    client_id: str,
) -> list[MessageQueue]:
    """Share the queues of brokers with a name `room@...`, for the rooms given (MACHINE_ROOM)."""
    index = client_ids.index(client_id)
    near = [
        queue
        for queue in queues
        if queue.broker_name.count("@") == 1 and queue.broker_name.partition("@")[0] in rooms
    ]
    size, rest = divmod(len(near), len(client_ids))
    own = near[index * size : (index + 1) * size]
    return [*own, near[index + size * len(client_ids)]] if index < rest else own


def by_machine_room(*rooms: str) -> Strategy:
    """Return Java's strategy MACHINE_ROOM for these rooms, to be given as `allocation`.

    It has no name in STRATEGIES, since it needs the rooms.
    """
    return partial(allocate_by_machine_room, frozenset(rooms))


STRATEGIES: Final[dict[str, Strategy]] = {
    "AVG": allocate_averagely,
    "AVG_BY_CIRCLE": allocate_by_circle,
    "CONSISTENT_HASH": allocate_by_hash,
}
"""By the names that 4.9.3 gives them."""


def find_strategy(given: str | Strategy) -> Strategy:
    """Return the strategy of a name, or the function that was given. Raises: InvalidArgument."""
    strategy = given if callable(given) else None
    if isinstance(given, str):
        strategy = STRATEGIES.get(plain_text("allocation", given))
    if strategy is None:
        accepted = f"{', '.join(STRATEGIES)}, by_machine_room(...) or a function"
        raise not_accepted("allocation", given, accepted)
    return strategy


def _place_of(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _java_text(queue: MessageQueue) -> str:
    place = f"topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}"
    return f"MessageQueue [{place}]"
