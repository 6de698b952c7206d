"""Messages as an Arrow table, with the names and types of the Spark source's columns.

pyarrow is imported when the first table is made: it is a package of its own.

Source: the schema of rocketmq-externals/rocketmq-spark.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError

if TYPE_CHECKING:
    import pyarrow

COLUMNS: Final[dict[str, tuple[str, Callable[[ConsumerMessage], Any]]]] = {
    "topic": ("string", lambda one: one.topic),
    "brokerName": ("string", lambda one: one.broker),
    "queueId": ("int32", lambda one: one.record.queue_id),
    "queueOffset": ("int64", lambda one: one.queue_offset),
    "msgId": ("string", lambda one: one.message_id),
    "offsetMsgId": ("string", lambda one: one.offset_message_id),
    "tags": ("string", lambda one: one.tags or None),
    "keys": ("string", lambda one: one.properties.get("KEYS")),
    "flag": ("int32", lambda one: one.record.flag),
    "body": ("binary", lambda one: one.body),
    "properties": ("map", lambda one: list(one.properties.items())),
    "bornTimestamp": ("time", lambda one: one.record.born_timestamp_ms),
    "storeTimestamp": ("time", lambda one: one.record.store_timestamp_ms),
    "reconsumeTimes": ("int32", lambda one: one.reconsume_times),
}
"""Names, types and what is in them; `map` is of strings, `time` of milliseconds in UTC."""


def to_table(messages: Sequence[ConsumerMessage]) -> "pyarrow.Table":
    """Return a table with a row for each message. Raises: ClientError, also without pyarrow."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ClientError("Arrow tables need the package pyarrow", "pip install pyarrow") from None
    types = {
        "map": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "time": pyarrow.timestamp("ms", tz="UTC"),
    }
    schema = pyarrow.schema(
        [
            (name, types.get(kind) or pyarrow.type_for_alias(kind))
            for name, (kind, _) in COLUMNS.items()
        ]
    )
    columns = [[value(one) for one in messages] for _, value in COLUMNS.values()]
    arrays = [
        pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)
