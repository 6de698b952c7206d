"""The options of `format("rocketmq")`: names, values, defaults, and what to say about a wrong one.

Names are compared without case, as Spark does. An option that does not exist is an error with the
nearest name that does.

Source: the options of rocketmq-externals/rocketmq-spark and of Spark's Kafka source, whose names
and values are kept where the meaning is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from glob import glob
from typing import Any, Final, NamedTuple

import msgspec

from wakelog.client.options import ClientOptions
from wakelog.spark.bounds import Topics
from wakelog.spark.columns import (
    DAMAGE_COLUMNS,
    KAFKA_COLUMNS,
    MESSAGE_COLUMNS,
    chosen_columns,
    nearest,
)
from wakelog.spark.errors import OptionError
from wakelog.spark.option_texts import (
    TLS_FIELDS,
    TLS_FLAGS,
    one_of,
    read_addresses,
    read_batch_bytes,
    read_bytes,
    read_count,
    read_credentials,
    read_delay_ms,
    read_expression,
    read_flag,
    read_group,
    read_moment_ms,
    read_names,
    read_number,
    read_paths,
    read_pattern,
    read_secret,
    read_tags,
    read_text,
    read_tls,
    read_topics,
)
from wakelog.spark.records.record_walk import BATCH_BYTES, BATCH_ROWS
from wakelog.spark.snapshots import read_snapshots
from wakelog.spark.stores import named_paths
from wakelog.storage.retention.snapshot import Snapshot

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
DEFAULT_GROUP: Final = "wakelog-spark"
TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
"""As Spark's Kafka source: how long `minOffsetsPerTrigger` may hold messages back."""


class ReadOptions(NamedTuple):
    """What the user asked for, checked one by one; offsets and times are still words.

    remote: None for files. pull_count: of messages in one response.
    """

    store_path: str = ""
    snapshots: tuple[Snapshot, ...] = ()
    remote: ClientOptions | None = None
    pull_count: int = 1024
    table: str = "messages"
    topics: Topics = Topics()
    tags: tuple[str, ...] = ()
    sql: str = ""
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
    partition_bytes_max: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = ()
    pushdown: bool = False
    clock_step_ms: int | None = None
    schema_mode: str = "rocketmq"
    include_headers: bool = True
    properties_format: str = "map"
    decompress: bool = True
    verify_crc: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES
    committing_group: str = ""

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
    """One option: its field of `ReadOptions`, what reads its text, and when it may be given.

    remote_only: for the wire; a field of `ClientOptions` is written `remote.` before its name.
    file_only: for files.
    """

    field: str
    read: Callable[[str], Any]
    stream_only: bool = False
    batch_only: bool = False
    remote_only: bool = False
    file_only: bool = False


_OPTIONS: Final[Mapping[str, _Option]] = {
    "storePath": _Option("store_path", read_text),
    "path": _Option("store_path", read_text),
    "paths": _Option("store_path", read_paths),
    "snapshot": _Option("snapshots", read_snapshots, batch_only=True, file_only=True),
    "readMode": _Option("mode", one_of("auto", "file", "remote", "ray")),
    "nameServer": _Option("remote.name_servers", read_addresses, remote_only=True),
    "namesrvAddr": _Option("remote.name_servers", read_addresses, remote_only=True),
    "consumerGroup": _Option("remote.group", read_group, remote_only=True),
    "fetchTimeoutMs": _Option("remote.timeout_ms", read_count, remote_only=True),
    "fetchOffset.numRetries": _Option("remote.retries_max", read_number, remote_only=True),
    "fetchOffset.retryIntervalMs": _Option("remote.pause_ms", read_number, remote_only=True),
    "pullBatchSize": _Option("pull_count", read_count, remote_only=True),
    "accessKey": _Option("remote.access_key", read_secret, remote_only=True),
    "secretKey": _Option("remote.secret_key", read_secret, remote_only=True),
    "securityToken": _Option("remote.security_token", read_secret, remote_only=True),
    **{
        word: _Option(
            f"remote.{field}", read_flag if word in TLS_FLAGS else read_secret, remote_only=True
        )
        for word, field in TLS_FIELDS.items()
    },
    "commitOffsetsToGroup": _Option(
        "committing_group", read_group, stream_only=True, remote_only=True
    ),
    "table": _Option("table", one_of("messages", "damage"), batch_only=True, file_only=True),
    "topic": _Option("subscribe", read_topics),
    "subscribe": _Option("subscribe", read_topics),
    "subscribePattern": _Option("pattern", read_pattern),
    "assign": _Option("assign", read_text),
    "subExpression": _Option("tags", read_tags),
    "sqlFilter": _Option("sql", read_expression),
    "startingOffsets": _Option("starting_offsets", read_text),
    "endingOffsets": _Option("ending_offsets", read_text, batch_only=True),
    "startingTimestamp": _Option("starting_timestamp", read_moment_ms),
    "endingTimestamp": _Option("ending_timestamp", read_moment_ms, batch_only=True),
    "startingOffsetsByTimestamp": _Option("starting_by_timestamp", read_text),
    "endingOffsetsByTimestamp": _Option("ending_by_timestamp", read_text, batch_only=True),
    "startingOffsetsByTimestampStrategy": _Option(
        "by_timestamp_strategy", one_of("error", "latest")
    ),
    "startingOffsetsFromGroup": _Option("starting_group", read_text),
    "maxOffsetsPerTrigger": _Option("offsets_per_trigger_max", read_count, stream_only=True),
    "minOffsetsPerTrigger": _Option("offsets_per_trigger_min", read_count, stream_only=True),
    "maxTriggerDelay": _Option("trigger_delay_max_ms", read_delay_ms, stream_only=True),
    "maxBytesPerTrigger": _Option(
        "bytes_per_trigger_max", read_bytes, stream_only=True, file_only=True
    ),
    "minPartitions": _Option("partitions_min", read_count),
    "maxRecordsPerPartition": _Option("partition_records_max", read_count),
    "maxBytesPerPartition": _Option("partition_bytes_max", read_bytes, file_only=True),
    "failOnDataLoss": _Option("fail_on_data_loss", read_flag),
    "includeSystemTopics": _Option("include_system", read_flag),
    "includeRetry": _Option("include_retry", read_flag),
    "includeDlq": _Option("include_dlq", read_flag),
    "columns": _Option("columns", read_names),
    "pushdown": _Option("pushdown", read_flag, batch_only=True),
    "maxClockStep": _Option("clock_step_ms", read_delay_ms, file_only=True),
    "schemaMode": _Option("schema_mode", one_of("rocketmq", "kafka")),
    "includeHeaders": _Option("include_headers", read_flag),
    "propertiesFormat": _Option("properties_format", one_of("map", "json")),
    "decompress": _Option("decompress", read_flag),
    "verifyCrc": _Option("verify_crc", read_flag),
    "arrowBatchRows": _Option("batch_rows", read_count),
    "arrowBatchBytes": _Option("batch_bytes", read_batch_bytes),
}

_BY_LOWER: Final = {name.lower(): name for name in _OPTIONS}

_OF_OTHER_SOURCES: Final = {
    "group": "consumerGroup",
    "kafka.group.id": "consumerGroup",
    "groupidprefix": "consumerGroup",
    "kafka.bootstrap.servers": "nameServer",
    "kafkaconsumer.polltimeoutms": "fetchTimeoutMs",
    "pulltimeoutms": "fetchTimeoutMs",
}
"""By lower name, what rocketmq-spark and Spark's Kafka source call otherwise."""
_OF_A_CATALOG: Final = "provider"
"""What Spark adds to the options of CREATE TABLE."""
_ALIASES: Final = (
    ("storePath", "path", "paths"),
    ("topic", "subscribe"),
    ("nameServer", "namesrvAddr"),
)
_REMOTE_FIELD: Final = "remote."
_ONE_OF: Final = ("subscribe", "subscribePattern", "assign")


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read what a user gave. Raises: OptionError."""
    if _OF_A_CATALOG in options:
        raise OptionError(
            "a table of Spark's catalog cannot be read by a source in Python, and would be empty: "
            "say CREATE TEMPORARY VIEW in the place of CREATE TABLE"
        )
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
    values["remote"] = _remote(values, given)
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


def options_of(options: Mapping[str, str], *, remote: bool) -> dict[str, str]:
    """Return options without those that go with the other way of reading alone."""
    found = {}
    for word, text in options.items():
        option = _OPTIONS.get(_BY_LOWER.get(word.lower(), ""))
        if option is None or not (option.file_only if remote else option.remote_only):
            found[word] = text
    return found


def _unknown(word: str) -> str:
    other = _OF_OTHER_SOURCES.get(word.lower())
    meant = f", it is {other!r} here" if other else nearest(word, _OPTIONS)
    return f"there is no option {word!r}{meant}"


def _check_together(given: Mapping[str, str]) -> None:
    for names in _ALIASES:
        there = [name for name in names if name in given]
        if len({given[name] for name in there}) > 1:
            raise OptionError(f"options {' and '.join(there)} are one, with two values")
    topics = [
        name for name in _ONE_OF if name in given or (name == _ONE_OF[0] and "topic" in given)
    ]
    if len(topics) > 1:
        raise OptionError(f"options {' and '.join(topics)} exclude one another")


def _remote(values: dict[str, Any], given: Mapping[str, str]) -> ClientOptions | None:
    """Take out what is of the wire, and say whether it is what this query reads.

    Raises: OptionError.
    """
    fields = {
        name.removeprefix(_REMOTE_FIELD): values.pop(name)
        for name in list(values)
        if name.startswith(_REMOTE_FIELD)
    }
    fields.setdefault("group", DEFAULT_GROUP)
    fields["credentials"] = read_credentials(fields)
    fields["tls"] = read_tls(fields)
    path, servers = values.get("store_path"), fields.get("name_servers")
    snapshots = values.get("snapshots")
    mode = _way(values.pop("mode", "auto"), path, servers, snapshots)
    other = "file_only" if mode == "remote" else "remote_only"
    for name in given if not ((path or snapshots) and servers) else ():
        if getattr(_OPTIONS[name], other):
            way = "over the wire, from nameServer" if mode == "remote" else "files, from storePath"
            raise OptionError(f"option {name} does not go with reading {way}")
    return ClientOptions(**fields) if mode == "remote" else None


def _way(mode: str, path: Any, servers: Any, snapshots: Any) -> str:
    """Return whether it is files or the wire that is read. Raises: OptionError."""
    if path and snapshots:
        raise OptionError("options snapshot and storePath exclude one another")
    if mode == "ray" and not snapshots:
        raise OptionError(
            "option snapshot is missing: readMode ray reads what a broker of actors hands over"
        )
    if mode == "auto":
        is_here = snapshots or (path and (not servers or _is_seen(path)))
        mode = "file" if is_here else "remote"
    if mode == "remote" and snapshots:
        raise OptionError("option snapshot does not go with reading over the wire")
    if mode == "file" and not path and not snapshots:
        raise OptionError("option storePath is missing: the store directory to read")
    if mode == "remote" and not servers:
        raise OptionError(
            "option storePath is missing, the store directory to read; or nameServer, to read "
            "over the wire"
        )
    return "file" if mode == "ray" else mode


def _is_seen(store_path: str) -> bool:
    """Tell whether anything lies where files would be read from, as seen from here."""
    return any(glob(path) for _, path in named_paths(store_path))


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
