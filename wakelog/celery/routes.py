"""Routes: where a message of an exchange goes, and what a queue reads.

kombu has queues, and exchanges that lead to them by bindings. A process knows the bindings that it
has declared, and no others. RocketMQ has topics, each read by any number of groups.

    a queue                    a topic, and a group of the same name
    a message for a queue      goes to its topic, if this process knows that the queue is bound
    any other message          goes to the topic of its exchange
    a temporary queue          has no topic: each reader of it reads the topics of its exchanges
    any other queue            reads its own topic, and those of its exchanges by groups of its own

A temporary queue is one that is exclusive, or is deleted with its last reader: the replies and
events of remote control are such. A message that went to a queue and to an exchange says so, and
that queue leaves the second one out.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from wakelog.celery.payload import PUT_IN, Payload

FANOUT = "fanout"
TOPIC = "topic"


class Binding(NamedTuple):
    """What leads from an exchange to a queue. kind: of the exchange, as kombu names it."""

    exchange: str
    kind: str
    routing_key: str
    queue: str

    def matches(self, routing_key: str) -> bool:
        """Return whether a message with this key is for the queue."""
        if self.kind == FANOUT:
            return True
        if self.kind == TOPIC:
            return _pattern(self.routing_key).fullmatch("." + routing_key) is not None
        return self.routing_key == routing_key


class Target(NamedTuple):
    """Where a message goes: the queues, and whether to the topic of its exchange, too."""

    queues: tuple[str, ...]
    to_exchange: bool


def target_of(
    bindings: Iterable[Binding], exchange: str, routing_key: str, temporary: Iterable[str]
) -> Target:
    """Return where a message goes. bindings: those that this process knows."""
    of_exchange = [each for each in bindings if each.exchange == exchange]
    shared = [each for each in of_exchange if each.queue not in temporary]
    queues = tuple(
        dict.fromkeys(
            each.queue for each in shared if each.kind != FANOUT and each.matches(routing_key)
        )
    )
    return Target(queues, not queues or len(shared) < len(of_exchange))


def is_for(queue: str, bindings: Iterable[Binding], exchange: str, payload: Payload) -> bool:
    """Return whether a message in the topic of an exchange is for a queue."""
    if queue in payload.get(PUT_IN, ()):
        return False
    routing_key = payload["properties"]["delivery_info"].get("routing_key", "")
    if not exchange:  # the default exchange leads to every queue by its name
        return bool(routing_key == queue)
    return any(
        each.matches(routing_key)
        for each in bindings
        if each.exchange == exchange and each.queue == queue
    )


def _pattern(routing_key: str) -> re.Pattern[str]:
    """Return what a key of a topic exchange matches: `*` is one word, `#` any number of them."""
    words = {"*": r"\.[^.]*", "#": r"(?:\.[^.]*)*"}
    return re.compile(
        "".join(words.get(word, r"\." + re.escape(word)) for word in routing_key.split("."))
    )
