"""Where a query begins and ends, as its options say.

    option                          value
    startingOffsets, endingOffsets  earliest, latest, or offsets of queues: -2 earliest, -1 latest
    startingTimestamp, ...          one time for every queue
    startingOffsetsByTimestamp, ... times of queues
    startingOffsetsFromGroup        the offsets that a consumer group has committed

A time for every queue wins over times of queues, and these win over offsets. A queue that is not
named begins at its earliest message and ends at its latest.

Source: Spark's Structured Streaming + Kafka guide; rocketmq-externals/rocketmq-spark for -1 and -2.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from wakelog.spark.bounds import QueueKey, Topics
from wakelog.spark.columns import nearest
from wakelog.spark.errors import OptionError
from wakelog.typed_values import decode_json

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1

Offsets = Mapping[str, Mapping[str, Mapping[int, int]]]
"""Topic to broker name ("" for every broker) to queue id to an offset or a time."""


class Position(NamedTuple):
    """The begin or the end of a query. One field is set, or none for the default.

    word: EARLIEST or LATEST. offsets, times_ms: of single queues. time_ms: of every queue.
    """

    word: str = ""
    offsets: Mapping[str, Mapping[str, Mapping[int, int]]] = {}
    time_ms: int | None = None
    times_ms: Mapping[str, Mapping[str, Mapping[int, int]]] = {}
    group: str = ""


def take_begin(values: dict[str, Any]) -> Position:
    """Take the values of the begin out of an option reader's values. Raises: OptionError."""
    group = values.pop("starting_group", "")
    if group and "starting_offsets" in values:
        raise OptionError("startingOffsets and startingOffsetsFromGroup exclude one another")
    found = _take(values, "starting")
    return Position(group=group) if group else found


def take_end(values: dict[str, Any]) -> Position:
    """Take the values of the end out of an option reader's values."""
    return _take(values, "ending")


def _take(values: dict[str, Any], side: str) -> Position:
    offsets: Position = values.pop(f"{side}_offsets", Position())
    times_ms: Offsets = values.pop(f"{side}_times_ms", {})
    time_ms: int | None = values.pop(f"{side}_time_ms", None)
    if time_ms is not None:
        return Position(time_ms=time_ms)
    return Position(times_ms=times_ms) if times_ms else offsets


def read_begin(text: str) -> Position:
    """Read startingOffsets. Raises: ValueError."""
    return _read_position(text, offset_min=EARLIEST_OFFSET)


def read_end(text: str) -> Position:
    """Read endingOffsets. Raises: ValueError."""
    if text.strip().lower() == EARLIEST:
        raise ValueError("latest or offsets; it cannot be earliest: no message would be read")
    return _read_position(text, offset_min=LATEST_OFFSET)


def _read_position(text: str, *, offset_min: int) -> Position:
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return Position(word=word)
    words = [EARLIEST, LATEST] if offset_min == EARLIEST_OFFSET else [LATEST]
    if not word.startswith("{"):
        raise ValueError(
            f'{", ".join(words)} or JSON such as {{"topic":{{"0":5}}}}{nearest(word, words)}'
        )
    offsets = read_offsets(text)
    for topic, brokers in offsets.items():
        for queues in brokers.values():
            if queues and min(queues.values()) < offset_min:
                raise ValueError(
                    f"offsets from 0, -1 for latest{', -2 for earliest' * (offset_min == -2)}; "
                    f"{min(queues.values())} of {topic} is none of these"
                )
    return Position(offsets=offsets)


def read_offsets(text: str) -> Offsets:
    """Read `{"topic":{"broker":{"0":5}}}`, or `{"topic":{"0":5}}` for every broker.

    Raises: ValueError.
    """
    found: dict[str, dict[str, dict[int, int]]] = {}
    for topic, inner in _decode(text, dict[str, dict[str, dict[str, int] | int]]).items():
        for word, value in inner.items():
            broker, queues = (word, value) if isinstance(value, dict) else ("", {word: value})
            for queue, offset in queues.items():
                if not queue.isdecimal():
                    raise ValueError(f"queue ids and their values; {queue!r} is no queue id")
                found.setdefault(topic, {}).setdefault(broker, {})[int(queue)] = offset
    return found


def read_assignment(text: str) -> dict[str, dict[str, frozenset[int]]]:
    """Read `{"topic":{"broker":[0,1]}}`, or `{"topic":[0,1]}` for every broker (the name "").

    Raises: ValueError.
    """
    by_topic = _decode(text, dict[str, dict[str, list[int]] | list[int]])
    return {
        topic: {
            broker: frozenset(queues)
            for broker, queues in (found if isinstance(found, dict) else {"": found}).items()
        }
        for topic, found in by_topic.items()
    }


def _decode(text: str, kind: Any) -> Any:
    try:
        return decode_json(text, kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"JSON by topic and queue ({error})") from error


def each_queue(
    offsets: Offsets, topics: Topics, brokers: Collection[str], what: str
) -> Iterator[tuple[QueueKey, int]]:
    """Yield each queue and its value. Raises: OptionError for an unknown broker or queue.

    what: the word for a broker in the error.
    """
    for topic, by_broker in offsets.items():
        for name, queues in by_broker.items():
            if name and name not in brokers:
                raise OptionError(
                    f"no {what} is called {name!r}{nearest(name, brokers)}; there are "
                    + ", ".join(brokers)
                )
            for broker in [name] if name else brokers:
                for queue_id, value in queues.items():
                    if not topics.accept(broker, topic, queue_id):
                        raise OptionError(
                            f"the offsets name queue {queue_id} of {topic!r}, which is not "
                            "subscribed"
                        )
                    yield (broker, topic, queue_id), value
