"""The options of a write, and which columns it takes.

Source: org.apache.rocketmq.client.producer.DefaultMQProducer (4.9.3) for names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from wakelog.client.options import ClientOptions
from wakelog.spark.columns import nearest
from wakelog.spark.errors import OptionError
from wakelog.spark.option_texts import (
    TLS_FIELDS,
    TLS_FLAGS,
    read_addresses,
    read_credentials,
    read_flag,
    read_group,
    read_secret,
    read_tls,
)

BODY_BYTES_MAX: Final = 4 << 20
"""maxMessageSize of 4.9.3's producer and broker."""

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
"""What a row may have, with the Spark types that each may be of."""

_ALIASES: Final = {"value": "body", "key": "keys"}
"""As Spark's Kafka sink calls them."""


class WriteOptions(NamedTuple):
    """What the user asked for.

    topic: of rows without one; "" for none.
    batch_bytes_max, batch_rows_max: of one request.
    query: a name for a batch write; a repeated write with the same name has the same unique keys.
    """

    client: ClientOptions
    topic: str = ""
    batch_bytes_max: int = 1 << 20
    batch_rows_max: int = 1000
    query: str = ""


_CLIENT_DEFAULTS: Final = {"group": "wakelog-spark", "retries_max": 2}


def _text(text: str) -> str:
    return text


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.strip().isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"a number from {least} to {most}")
        return int(text)

    return read


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "nameServer": ("name_servers", read_addresses),
    "namesrvAddr": ("name_servers", read_addresses),
    "topic": ("topic", _text),
    "producerGroup": ("group", read_group),
    "retryTimesWhenSendFailed": ("retries_max", _number(0, 100)),
    "sendMsgTimeout": ("timeout_ms", _number(1, 600_000)),
    "batchBytes": ("batch_bytes_max", _number(1, BODY_BYTES_MAX)),
    "batchRows": ("batch_rows_max", _number(1, 32_767)),
    "queryId": ("query", _text),
    "accessKey": ("access_key", read_secret),
    "secretKey": ("secret_key", read_secret),
    "securityToken": ("security_token", read_secret),
    **{
        word: (field, read_flag if word in TLS_FLAGS else read_secret)
        for word, field in TLS_FIELDS.items()
    },
}
_BY_LOWER: Final = {name.lower(): name for name in _OPTIONS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "path"})
"""Spark hands these over with the others."""


def read_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Read what a user gave. Raises: OptionError."""
    values: dict[str, Any] = {}
    for word, text in options.items():
        if word.lower() in _OF_SPARK:
            continue
        name = _BY_LOWER.get(word.lower())
        if name is None:
            raise OptionError(f"there is no option {word!r} of a write{nearest(word, _OPTIONS)}")
        field, read = _OPTIONS[name]
        try:
            value = read(text)
        except ValueError as error:
            raise OptionError(f"option {name} is {text!r}; it takes {error}") from error
        if values.setdefault(field, value) != value:
            raise OptionError("options nameServer and namesrvAddr are one, with two values")
    values["credentials"] = read_credentials(values)
    values["tls"] = read_tls(values)
    if "name_servers" not in values:
        raise OptionError("option nameServer is missing: HOST:PORT of the name server to write to")
    client = {name: values.pop(name) for name in ClientOptions._fields if name in values}
    return WriteOptions(ClientOptions(**{**_CLIENT_DEFAULTS, **client}), **values)


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> tuple[str, ...]:
    """Return by which names of `COLUMNS` the columns of a table are written, in their order.

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
        raise OptionError("column body is missing (or value): what is to be sent")
    if "topic" not in found and not options.topic:
        raise OptionError("nothing says which topic: give the option topic, or a column topic")
    if "brokerName" in found and "queueId" not in found:
        raise OptionError("column brokerName is there without queueId, which it belongs to")
    return tuple(found)
