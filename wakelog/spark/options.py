"""The options of `format("rocketmq")`: names, values, defaults, and what to say about a wrong one.

Names are compared without case, as Spark does. An option that does not exist is an error with the
nearest name that does; one that exists and is not served yet says so.

Source: the options of rocketmq-externals/rocketmq-spark and of Spark's Kafka source, whose names
and values are kept where the meaning is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from wakelog.spark.bounds import Topics
from wakelog.spark.columns import (
    DAMAGE_COLUMNS,
    KAFKA_COLUMNS,
    MESSAGE_COLUMNS,
    chosen_columns,
    nearest,
)
from wakelog.spark.errors import OptionError
from wakelog.spark.plan import PARTITION_BYTES
from wakelog.spark.records.record_walk import BATCH_BYTES, BATCH_ROWS
from wakelog.spark.snapshots import read_snapshots
from wakelog.storage.retention.snapshot import Snapshot

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
"""As Spark's Kafka source: how long `minOffsetsPerTrigger` may hold messages back."""

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIMES: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+)\s*([bkmg]?)b?", re.IGNORECASE)
_TIME = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)", re.IGNORECASE)


class ReadOptions(NamedTuple):
    """What the user asked for, checked one by one; offsets and times are still words."""

    store_path: str = ""
    snapshots: tuple[Snapshot, ...] = ()
    table: str = "messages"
    topics: Topics = Topics()
    tags: tuple[str, ...] = ()
    starting_offsets: str = ""
    ending_offsets: str = ""
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_by_timestamp: str = ""
    ending_by_timestamp: str = ""
    by_timestamp_strategy: str = "error"
    starting_group: str = ""
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_ms: int = TRIGGER_DELAY_MS
    bytes_per_trigger_max: int | None = None
    partitions_min: int = 1
    partition_records_max: int | None = None
    partition_bytes_max: int = PARTITION_BYTES
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = ()
    pushdown: bool = False
    schema_mode: str = "rocketmq"
    include_headers: bool = True
    properties_format: str = "map"
    decompress: bool = True
    verify_crc: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES

    def column_types(self) -> dict[str, str]:
        """Return all columns of the table asked for, whether or not they were chosen."""
        if self.table == "damage":
            return dict(DAMAGE_COLUMNS)
        if self.schema_mode == "kafka":
            dropped = set() if self.include_headers else {"headers"}
            return {name: kind for name, kind in KAFKA_COLUMNS.items() if name not in dropped}
        columns = dict(MESSAGE_COLUMNS)
        if self.properties_format == "json":
            columns["properties"] = "string"
        return columns


class _Option(NamedTuple):
    """One option: its field of `ReadOptions`, what reads its text, and when it may be given."""

    field: str
    read: Callable[[str], Any]
    stream_only: bool = False
    batch_only: bool = False


def _text(text: str) -> str:
    return text


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("a number above 0")
    return int(text)


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError("a size such as 1000000, 512k or 128m")
    return int(match[1]) * _UNITS[match[2].lower()]


def _delay(text: str) -> int:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("a time such as 500ms, 30s or 15m")
    return int(match[1]) * _TIMES[match[2].lower()]


def _moment(text: str) -> int:
    """Read milliseconds, or a time in ISO 8601, which is UTC if it has no zone of its own."""
    if re.fullmatch(r"-?\d+", text.strip()):
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("milliseconds, or a time such as 2026-11-01T08:00:00Z") from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(" or ".join(words))
        return text.lower()

    return read


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _tags(text: str) -> tuple[str, ...]:
    """Read a tag expression, as FilterAPI does: `*` or tags joined by `||`."""
    if text.strip() in ("", "*"):
        return ()
    return tuple(filter(None, (tag.strip() for tag in text.split("||"))))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def _ignored(text: str) -> None:
    return None


_OPTIONS: Final[Mapping[str, _Option]] = {
    "storePath": _Option("store_path", _text),
    "path": _Option("store_path", _text),
    "snapshot": _Option("snapshots", read_snapshots, batch_only=True),
    "readMode": _Option("", _one_of("auto", "file", "remote", "ray")),
    "table": _Option("table", _one_of("messages", "damage"), batch_only=True),
    "topic": _Option("subscribe", _list),
    "subscribe": _Option("subscribe", _list),
    "subscribePattern": _Option("pattern", _pattern),
    "assign": _Option("assign", _text),
    "subExpression": _Option("tags", _tags),
    "startingOffsets": _Option("starting_offsets", _text),
    "endingOffsets": _Option("ending_offsets", _text, batch_only=True),
    "startingTimestamp": _Option("starting_timestamp", _moment),
    "endingTimestamp": _Option("ending_timestamp", _moment, batch_only=True),
    "startingOffsetsByTimestamp": _Option("starting_by_timestamp", _text),
    "endingOffsetsByTimestamp": _Option("ending_by_timestamp", _text, batch_only=True),
    "startingOffsetsByTimestampStrategy": _Option(
        "by_timestamp_strategy", _one_of("error", "latest")
    ),
    "startingOffsetsFromGroup": _Option("starting_group", _text),
    "maxOffsetsPerTrigger": _Option("offsets_per_trigger_max", _count, stream_only=True),
    "minOffsetsPerTrigger": _Option("offsets_per_trigger_min", _count, stream_only=True),
    "maxTriggerDelay": _Option("trigger_delay_max_ms", _delay, stream_only=True),
    "maxBytesPerTrigger": _Option("bytes_per_trigger_max", _bytes, stream_only=True),
    "minPartitions": _Option("partitions_min", _count),
    "maxRecordsPerPartition": _Option("partition_records_max", _count),
    "maxBytesPerPartition": _Option("partition_bytes_max", _bytes),
    "failOnDataLoss": _Option("fail_on_data_loss", _flag),
    "includeSystemTopics": _Option("include_system", _flag),
    "includeRetry": _Option("include_retry", _flag),
    "includeDlq": _Option("include_dlq", _flag),
    "columns": _Option("columns", _list),
    "pushdown": _Option("pushdown", _flag, batch_only=True),
    "schemaMode": _Option("schema_mode", _one_of("rocketmq", "kafka")),
    "includeHeaders": _Option("include_headers", _flag),
    "propertiesFormat": _Option("properties_format", _one_of("map", "json")),
    "decompress": _Option("decompress", _flag),
    "verifyCrc": _Option("verify_crc", _flag),
    "arrowBatchRows": _Option("batch_rows", _count),
    "arrowBatchBytes": _Option("batch_bytes", _bytes),
}

_BY_LOWER: Final = {name.lower(): name for name in _OPTIONS}

# What the design has and this release does not.
_REMOTE: Final = (
    "nameServer",
    "namesrvAddr",
    "sqlFilter",
    "commitOffsetsToGroup",
    "fetchTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "pullBatchSize",
    "accessKey",
    "secretKey",
    "securityToken",
)
_REMOTE_BY_LOWER: Final = {name.lower(): name for name in _REMOTE}
_ALIASES: Final = (("storePath", "path"), ("topic", "subscribe"))
_ONE_OF: Final = ("subscribe", "subscribePattern", "assign")


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read what a user gave. Raises: OptionError."""
    given: dict[str, str] = {}
    for word, text in options.items():
        name = _BY_LOWER.get(word.lower())
        if name is None:
            raise OptionError(_unknown(word))
        given[name] = text
    values: dict[str, Any] = {}
    for name, text in given.items():
        option = _OPTIONS[name]
        try:
            values[option.field] = option.read(text)
        except ValueError as error:
            raise OptionError(f"option {name} is {text!r}; it takes {error}") from error
    _check_together(given)
    values.pop("", None)
    values["topics"] = _topics(values)
    read = ReadOptions(**values)
    chosen_columns(read.column_types(), read.columns)
    return read


def check_use(options: Mapping[str, str], *, stream: bool) -> None:
    """Refuse options of the other kind of query. Raises: OptionError."""
    for word in options:
        option = _OPTIONS[_BY_LOWER[word.lower()]]
        if option.stream_only and not stream:
            raise OptionError(f"option {_BY_LOWER[word.lower()]} is for streams only")
        if option.batch_only and stream:
            raise OptionError(f"option {_BY_LOWER[word.lower()]} is for batch reads only")


def _unknown(word: str) -> str:
    remote = _REMOTE_BY_LOWER.get(word.lower())
    if remote or word.lower().startswith("tls."):
        return f"option {remote or word} is not served yet: only files are read, from storePath"
    return f"there is no option {word!r}{nearest(word, _OPTIONS)}"


def _check_together(given: Mapping[str, str]) -> None:
    for names in _ALIASES:
        texts = {given[name] for name in names if name in given}
        if len(texts) > 1:
            raise OptionError(f"options {' and '.join(names)} are one, with two values")
    topics = [
        name for name in _ONE_OF if name in given or (name == _ONE_OF[0] and "topic" in given)
    ]
    if len(topics) > 1:
        raise OptionError(f"options {' and '.join(topics)} exclude one another")
    if given.get("readMode", "auto").lower() in ("remote", "ray"):
        raise OptionError("readMode remote and ray are not served yet: only files are read")
    has_path = bool(given.get("storePath") or given.get("path"))
    if "snapshot" in given:
        if has_path:
            raise OptionError("options snapshot and storePath exclude one another")
    elif not has_path:
        raise OptionError("option storePath is missing: the store directory to read")


def _topics(values: dict[str, Any]) -> Topics:
    assigned = values.pop("assign", None)
    return Topics(
        names=frozenset(values.pop("subscribe", ())),
        pattern=values.pop("pattern", ""),
        assigned=None if assigned is None else read_assignment(assigned),
        include_system=values.pop("include_system", False),
        include_retry=values.pop("include_retry", False),
        include_dlq=values.pop("include_dlq", False),
    )


def read_assignment(text: str) -> dict[str, dict[str, frozenset[int]]]:
    """Read `{"topic":{"broker":[0,1]}}`, or `{"topic":[0,1]}` of every broker (the name "").

    Raises: OptionError.
    """
    by_broker = _decoded(text, dict[str, dict[str, list[int]] | list[int]], "assign")
    return {
        topic: {
            broker: frozenset(queues)
            for broker, queues in (found if isinstance(found, dict) else {"": found}).items()
        }
        for topic, found in by_broker.items()
    }


Offsets = dict[str, dict[str, dict[int, int]]]
"""Topic to broker name, "" for any, to queue id to an offset or a time."""


def read_offsets(text: str, option: str) -> Offsets:
    """Read `{"topic":{"broker":{"0":5}}}`, or `{"topic":{"0":5}}` of every broker.

    Raises: OptionError.
    """
    kind = dict[str, dict[str, dict[str, int] | int]]
    found: Offsets = {}
    for topic, inner in _decoded(text, kind, option).items():
        for word, value in inner.items():
            broker, queues = (word, value) if isinstance(value, dict) else ("", {word: value})
            for queue, offset in queues.items():
                if not queue.isdecimal():
                    raise OptionError(f"option {option}: {queue!r} is no queue id")
                found.setdefault(topic, {}).setdefault(broker, {})[int(queue)] = offset
    return found


def _decoded(text: str, kind: Any, option: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise OptionError(f"option {option} is {text!r}: {error}") from error
