"""Makes messages of Arrow batches, and checks all of them before one is sent.

RocketMQ's own properties in a row (`REAL_TOPIC`, `UNIQ_KEY`, ...) describe how the message went
through another log, so they are left out. Only in a retry topic `RETRY_TOPIC` and
`ORIGIN_MESSAGE_ID` stay, since consumers read the origin of a message there. Tags, keys and delay
come from the columns with these names. Without such a column they come from the properties.

Invariants: a broker can store each returned message: topic, sizes and properties follow 4.9.3's
rules. If one row of a batch cannot become a message, the whole batch is refused.

Source: org.apache.rocketmq.client.Validators#checkMessage,
org.apache.rocketmq.common.message.MessageConst (4.9.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from wakelog.client.messages import (
    OWN_PROPERTIES,
    SHARDING_KEY,
    EncodedMessage,
    refusal_reason,
)
from wakelog.protocol import properties as stored
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.properties import DELAY, PROPERTIES_BYTES_MAX, WAIT, encode_properties
from wakelog.spark.errors import SourceError
from wakelog.spark.sink.unique_keys import UniqueKeys

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMN_PROPERTIES: Final = {"tags": stored.TAGS, "keys": stored.KEYS}
_OF_RETRIES: Final = frozenset({stored.RETRY_TOPIC, stored.ORIGIN_MESSAGE_ID})


class RowRefused(SourceError):
    """A row cannot become a message; no message of its batch was sent."""

    def __init__(self, row: int, reason: str) -> None:
        """row: its number in the partition."""
        super().__init__(f"row {row} of the partition cannot be written: {reason}")


def read_messages(
    batch: pa.RecordBatch, names: tuple[str, ...], topic: str, keys: UniqueKeys, first_row: int
) -> list[EncodedMessage]:
    """Return the messages of a batch.

    names: the name in `options.COLUMNS` of each column. topic: of rows without one.
    Raises: RowRefused.
    """
    columns = {name: batch.column(i).to_pylist() for i, name in enumerate(names)}
    rows = (
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    )
    return [_message(row, topic, keys, number) for number, row in enumerate(rows, first_row)]


def _message(row: Mapping[str, Any], topic: str, keys: UniqueKeys, number: int) -> EncodedMessage:
    body, topic = row["body"], row.get("topic") or topic
    body = body.encode() if isinstance(body, str) else body
    if not topic:
        raise RowRefused(number, "it has no topic, and there is no option topic")
    if reason := refusal_reason(topic, body):
        raise RowRefused(number, reason)
    assert body is not None
    is_retry = topic.startswith(RETRY_PREFIX)
    properties = dict(_properties(row, is_retry=is_retry))
    for name, value in (*properties.items(), (stored.UNIQ_KEY, row.get("uniqueKey") or "")):
        if not name or "\1" in name + value or "\2" in name + value:
            raise RowRefused(number, f"property {name!r} is empty or has the characters 1 or 2")
    key = row.get("uniqueKey") or keys.key(number)
    text = encode_properties({**properties, stored.UNIQ_KEY: key, WAIT: "true"})
    if len(text.encode()) > PROPERTIES_BYTES_MAX:
        raise RowRefused(number, f"its properties are over {PROPERTIES_BYTES_MAX} bytes")
    queue_id = row.get("queueId")
    if queue_id is not None and queue_id < 0:
        raise RowRefused(number, f"queueId is {queue_id}")
    return EncodedMessage(
        topic=topic,
        body=body,
        properties=text,
        flag=row.get("flag") or 0,
        queue=None if queue_id is None else (row.get("brokerName") or "", queue_id),
        sharding_key=row.get("shardingKey") or "",
        is_alone=DELAY in properties or is_retry,
    )


def _properties(row: Mapping[str, Any], *, is_retry: bool) -> Iterator[tuple[str, str]]:
    """Yield the properties to store; the last value of a repeated name counts."""
    left_out = OWN_PROPERTIES - _OF_RETRIES if is_retry else OWN_PROPERTIES
    for name, value in row.get("properties") or ():
        if name not in left_out and value:
            yield name, value
    for column, name in _COLUMN_PROPERTIES.items():
        value = row.get(column)
        if value:
            yield name, value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if row.get("shardingKey"):
        yield SHARDING_KEY, row["shardingKey"]
    if row.get("delayTimeLevel"):
        yield DELAY, str(row["delayTimeLevel"])
