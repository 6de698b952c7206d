"""Messages as an Arrow table, with the names and types of the Spark source's columns.

`arrow_columns.py` makes the same of pulled bytes, as long as the compiled library understands them.
pyarrow is imported when the first table is made: it is a package of its own.

Source: the schema of rocketmq-externals/rocketmq-spark.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final

from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError
from wakelog.protocol.properties import KEYS, TAGS, UNIQ_KEY, decode_properties
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger("wakelog.client")


class _Rows:
    """What columns are made of, a list for each; each is filled in one go."""

    def __init__(self, messages: Sequence[ConsumerMessage]) -> None:
        self.messages = messages
        self.records = [one.record for one in messages]

    @cached_property
    def properties(self) -> list[dict[str, str]]:
        """The properties of each."""
        return [decode_properties(record.properties_text) for record in self.records]

    @cached_property
    def offset_ids(self) -> list[str]:
        """The broker's id of each."""
        return [one.offset_message_id for one in self.messages]

    def bodies(self) -> list[bytes]:
        """The body of each, inflated. Raises: ClientError."""
        return [
            one.body if one.record.sys_flag & MESSAGE_COMPRESSED else one.record.body
            for one in self.messages
        ]

    def of_property(self, name: str) -> list[str | None]:
        """One property of each."""
        return [properties.get(name) for properties in self.properties]

    def message_ids(self) -> list[str]:
        """The producer's id of each; the broker's without one."""
        ids = zip(self.of_property(UNIQ_KEY), self.offset_ids, strict=True)
        return [own or offset_id for own, offset_id in ids]


COLUMNS: Final[dict[str, tuple[str, Callable[[_Rows], Sequence[Any]]]]] = {
    "topic": ("string", lambda rows: [one.topic for one in rows.messages]),
    "brokerName": ("string", lambda rows: [one.broker for one in rows.messages]),
    "queueId": ("int32", lambda rows: [record.queue_id for record in rows.records]),
    "queueOffset": ("int64", lambda rows: [record.queue_offset for record in rows.records]),
    "msgId": ("string", _Rows.message_ids),
    "offsetMsgId": ("string", lambda rows: rows.offset_ids),
    "tags": ("string", lambda rows: rows.of_property(TAGS)),
    "keys": ("string", lambda rows: rows.of_property(KEYS)),
    "flag": ("int32", lambda rows: [record.flag for record in rows.records]),
    "body": ("binary", _Rows.bodies),
    "properties": ("map", lambda rows: rows.properties),
    "bornTimestamp": ("time", lambda rows: [record.born_timestamp_ms for record in rows.records]),
    "storeTimestamp": ("time", lambda rows: [record.store_timestamp_ms for record in rows.records]),
    "reconsumeTimes": ("int32", lambda rows: [one.reconsume_times for one in rows.messages]),
}
"""Names, types and what is in them; `map` is of strings, `time` of milliseconds in UTC."""


async def readable(messages: Sequence[ConsumerMessage]) -> list[ConsumerMessage]:
    """Return the messages whose bodies can be read, and give the others back.

    Raises: ClientError if there are messages, and no body can be read.
    """
    failed = {
        place: error
        for place, one in enumerate(messages)
        if one.record.sys_flag & MESSAGE_COMPRESSED and (error := _body_error(one))
    }
    for place, error in failed.items():
        logger.warning("given back: %s", error)
        await messages[place].nack()
    if failed and len(failed) == len(messages):
        raise failed[0]
    return [one for place, one in enumerate(messages) if place not in failed]


def _body_error(message: ConsumerMessage) -> ClientError | None:
    """Return why a body cannot be inflated, None if it can; it is kept for the table."""
    try:
        len(message.body)
    except ClientError as error:
        return error
    return None


def load_pyarrow() -> Any:
    """Return the package pyarrow. Raises: ClientError without it."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ClientError(
            "Arrow tables need the package pyarrow", "Run pip install pyarrow"
        ) from None
    return pyarrow


@cache
def schema() -> "pyarrow.Schema":
    """Return names and types of the columns. Raises: ClientError without pyarrow."""
    pyarrow = load_pyarrow()
    types = {
        "map": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "time": pyarrow.timestamp("ms", tz="UTC"),
    }
    return pyarrow.schema(
        [
            (name, types.get(kind) or pyarrow.type_for_alias(kind))
            for name, (kind, _) in COLUMNS.items()
        ]
    )


def to_table(messages: Sequence[ConsumerMessage]) -> "pyarrow.Table":
    """Return a table with a row for each message. Raises: ClientError, also without pyarrow."""
    pyarrow = load_pyarrow()
    rows = _Rows(messages)
    arrays = [
        _maps(rows.properties) if kind == "map" else pyarrow.array(values(rows), field.type)
        for (kind, values), field in zip(COLUMNS.values(), schema(), strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema())


def table_of(batches: "Sequence[pyarrow.RecordBatch]") -> "pyarrow.Table":
    """Return batches as one table, which has the columns without any batch, too."""
    return load_pyarrow().Table.from_batches(batches, schema=schema())


def _maps(maps: Sequence[dict[str, str]]) -> "pyarrow.MapArray":
    """Return a column of maps, made of two long columns: quicker than a list of pairs a row."""
    import pyarrow

    begins = pyarrow.array(accumulate(map(len, maps), initial=0), pyarrow.int32())
    names = pyarrow.array(list(chain.from_iterable(maps)), pyarrow.string())
    texts = list(chain.from_iterable(one.values() for one in maps))
    return pyarrow.MapArray.from_arrays(begins, names, pyarrow.array(texts, pyarrow.string()))
