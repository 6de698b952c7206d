"""The options of a write, and the columns that it accepts.

Source: org.apache.rocketmq.client.producer.DefaultMQProducer (4.9.3) for names and defaults.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from wakelog.client.messages import BODY_BYTES_MAX
from wakelog.client.options import ClientOptions
from wakelog.spark.columns import nearest
from wakelog.spark.errors import OptionError
from wakelog.spark.option_texts import (
    CONNECTION_OPTIONS,
    Reader,
    number_from,
    read_group,
    read_values,
    take_client_options,
)

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string",),
    "properties": ("map<string,string>",),
    "delayTimeLevel": ("int",),
    "shardingKey": ("string",),
    "brokerName": ("string",),
    "queueId": ("int",),
    "flag": ("int",),
    "uniqueKey": ("string",),
}
"""The columns that a row may have, with the Spark types of each."""

_ALIASES: Final = {"value": "body", "key": "keys"}
"""The names of Spark's Kafka sink."""


class WriteOptions(NamedTuple):
    """The options of a write, each one checked.

    topic: of rows without one; "" for none.
    batch_bytes_max, batch_rows_max: of one request.
    query: a name for a batch write; a repeated write with the same name has the same unique keys.
    """

    client: ClientOptions
    topic: str = ""
    batch_bytes_max: int = 1 << 20
    batch_rows_max: int = 1000
    query: str = ""


_OPTIONS: Final[Mapping[str, tuple[str, Reader]]] = {
    **CONNECTION_OPTIONS,
    "topic": ("topic", str),
    "producerGroup": ("group", read_group),
    "retryTimesWhenSendFailed": ("retries_max", number_from(0, 100)),
    "sendMsgTimeout": ("timeout_ms", number_from(1, 600_000)),
    "batchBytes": ("batch_bytes_max", number_from(1, BODY_BYTES_MAX)),
    "batchRows": ("batch_rows_max", number_from(1, 32_767)),
    "queryId": ("query", str),
}
_BY_LOWER: Final = {name.lower(): name for name in _OPTIONS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "path"})
"""Spark passes these along with the others."""


def read_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Read what a user gave. Raises: OptionError."""
    given: dict[str, str] = {}
    for word, text in options.items():
        name = _BY_LOWER.get(word.lower())
        if name is not None:
            given[name] = text
        elif word.lower() not in _OF_SPARK:
            raise OptionError(f"there is no option {word!r} of a write{nearest(word, _OPTIONS)}")
    values = read_values(given, _OPTIONS)
    client = take_client_options(values, group="wakelog-spark", retries_max=2)
    if not client.name_servers:
        raise OptionError("option nameServer is missing: HOST:PORT of the name server to write to")
    return WriteOptions(client, **values)


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> tuple[str, ...]:
    """Return the name in `COLUMNS` of each column of a table, in the table's order.

    columns: their names and Spark types. Raises: OptionError.
    """
    known = {name.lower(): name for name in COLUMNS} | _ALIASES
    found: list[str] = []
    for word, kind in columns.items():
        name = known.get(word.lower())
        if name is None:
            raise OptionError(
                f"column {word!r} cannot be written{nearest(word, COLUMNS)}; there are "
                + ", ".join(COLUMNS)
            )
        kinds = ("binary", "string") if word.lower() in _ALIASES else COLUMNS[name]
        if kind not in kinds:
            raise OptionError(f"column {word} is of type {kind}, not {' or '.join(kinds)}")
        if name in found:
            raise OptionError(f"column {name} is there twice, once as {word}")
        found.append(name)
    if "body" not in found:
        raise OptionError("column body (or value) is missing: the content of the messages")
    if "topic" not in found and not options.topic:
        raise OptionError("no topic is named: give the option topic, or a column topic")
    if "brokerName" in found and "queueId" not in found:
        raise OptionError("column brokerName needs a column queueId beside it")
    return tuple(found)
