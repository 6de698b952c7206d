"""What users give a consumer: topics with filters, and places in queues.

Each function returns plain values, or refuses what it gets by the argument's name (`plain`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, SupportsIndex, TypeAlias

from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.options import with_namespace
from wakelog.client.plain import (
    check_flags,
    milliseconds,
    moment_milliseconds,
    not_accepted,
    plain_text,
    plain_topic,
    whole_number,
)
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import INT_MAX
from wakelog.protocol.subscription import build_subscription

TOPICS: Final = "the name of a topic, several, or each with its tags or Sql(...)"
STARTS: Final = ("first", "last")
SQL92: Final = "SQL92"


_USED_BY: Final = {
    "offset_folder": "for broadcast=True: the brokers keep the offsets of others",
    "instance_name": "for broadcast=True: the brokers keep the offsets of others",
    "allocation": "for a group that shares out the queues of topics=: not with broadcast=True",
    "start_timeout": "for a consumer with topics=",
    "consume_timeout": "for neither ordered=True nor broadcast=True: theirs wait for `ack`",
}
"""The consumers that use an argument."""


class Sql(NamedTuple):
    """A filter by SQL92, such as `amount > 100 AND region = 'EU'`, in the place of tags."""

    expression: str


Topics: TypeAlias = Mapping[str, str | Sql] | Iterable[str] | str


def read_topics(topics: object, namespace: str, *, version: int) -> dict[str, SubscriptionData]:
    """Return the subscriptions by topic, with the namespace. Raises: InvalidArgument."""
    if isinstance(topics, str):
        topics = [topics]
    if not isinstance(topics, Iterable) or isinstance(topics, bytes | bytearray | memoryview):
        raise not_accepted("topics", topics, TOPICS)
    pairs = topics.items() if isinstance(topics, Mapping) else ((each, "*") for each in topics)
    found = {}
    for topic, given in pairs:
        kind, expression = (SQL92, given.expression) if isinstance(given, Sql) else (None, given)
        expression = plain_text("topics", expression, TOPICS)
        name = with_namespace(namespace, plain_topic(topic, "topics", TOPICS))
        try:
            found[name] = build_subscription(name, expression, kind, sub_version=version)
        except RemoteProtocolError as error:
            cause = f"the expression {expression!r} for topic {topic} is no filter"
            raise InvalidArgument(cause, "Give tags with || between, *, or Sql(...)") from error
    return found


def plain_start(given: object) -> str | datetime:
    """Return where a queue begins. Raises: InvalidArgument."""
    if isinstance(given, datetime):
        moment_milliseconds("start", given)
        return given
    place = plain_text("start", given, "first, last or a datetime")
    if place not in STARTS:
        raise not_accepted("start", place, "first, last or a datetime")
    return place


def plain_retries(given: object) -> int | None:
    """Return how often a message is consumed again, None for the default."""
    return None if given is None else whole_number("max_retries", given, 0, INT_MAX)


def plain_start_timeout(given: object) -> float | None:
    """Return for how many seconds a start may wait, None for a start that does not."""
    return None if given is None else max(milliseconds("start_timeout", given), 0) / 1000


def check_modes(*, ordered: bool, broadcast: bool, trace: bool) -> None:
    """Check the flags of a consumer. Raises: InvalidArgument."""
    check_flags(ordered=ordered, broadcast=broadcast, trace=trace)
    if ordered and broadcast:
        cause = "ordered and broadcast are both given"
        raise InvalidArgument(cause, "Give one: a broker's lock is for one consumer of a group")


def check_used(**is_used: bool) -> None:
    """Refuse what a consumer of this kind would not use. Raises: InvalidArgument.

    is_used: by argument; also true for one that has its default.
    """
    for name, used in is_used.items():
        if not used:
            cause = f"{name} is given, and such a consumer does not use it"
            raise InvalidArgument(cause, f"It is {_USED_BY[name]}")


def plain_place(given: object) -> int | str | datetime:
    """Return where to go on. Raises: InvalidArgument."""
    if isinstance(given, datetime):
        moment_milliseconds("place", given)
        return given
    if isinstance(given, SupportsIndex):
        return whole_number("place", given, 0)
    place = plain_text("place", given, "an offset, a time, first or last")
    if place not in STARTS:
        raise not_accepted("place", place, "an offset, a time, first or last")
    return place


def plain_queue(given: object) -> MessageQueue:
    """Return a queue whose parts are plain. Raises: InvalidArgument."""
    if not isinstance(given, MessageQueue):
        raise not_accepted("queue", given, "one of `await consumer.queues(topic)`")
    topic, broker_name = plain_text("queue", given.topic), plain_text("queue", given.broker_name)
    return MessageQueue(topic, broker_name, whole_number("queue", given.queue_id, 0, INT_MAX))


def plain_instance(given: object) -> str:
    """Return the name of an instance, a part of a path. Raises: InvalidArgument."""
    name = plain_text("instance_name", given)
    if not name or "/" in name or "\0" in name:
        raise not_accepted("instance_name", name, "a text that can be the name of a folder")
    return name


def unknown_topic(topic: str) -> ClientError:
    """Return the error about a topic without a route."""
    return ClientError(f"no name server knows topic {topic}", "Check its name")


def check_message(given: object) -> None:
    """Raise InvalidArgument for what is no message of a consumer."""
    if not isinstance(given, ConsumerMessage):
        accepted = "what `fetch` or the iteration returned, several as `*messages`"
        raise not_accepted("a message", [] if isinstance(given, list) else given, accepted)


def check_messages(given: Sequence[object]) -> None:
    """Raise InvalidArgument if one is no message of a consumer."""
    if not set(map(type, given)) <= {ConsumerMessage}:
        for message in given:
            check_message(message)


def plain_queues(given: object) -> set[MessageQueue]:
    """Return several queues. Raises: InvalidArgument."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise not_accepted("queues", given, "some of `await consumer.queues(topic)`")
    return set(map(plain_queue, given))


def check_absent(absent: Iterable[MessageQueue]) -> None:
    """Raise InvalidArgument for queues that cannot be read, if there are any."""
    for queue in sorted(absent):
        cause = f"topic {queue.topic} has no queue {queue.queue_id} at broker "
        cause += f"{queue.broker_name} that can be read"
        raise InvalidArgument(cause, "Assign some of `await consumer.queues(topic)`")
