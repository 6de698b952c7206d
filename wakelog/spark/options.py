"""The options of `format("rocketmq")` for reads: names, values, defaults, and errors.

Names are compared without case, as Spark does. The error for an unknown option names the nearest
one.

Source: the options of rocketmq-externals/rocketmq-spark and of Spark's Kafka source. Names and
values are the same where the meaning is the same.
"""

from collections.abc import Mapping
from glob import glob
from typing import Any, Final, NamedTuple

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
    CONNECTION_OPTIONS,
    Reader,
    number_from,
    one_of,
    read_batch_bytes,
    read_bytes,
    read_columns,
    read_delay_ms,
    read_expression,
    read_flag,
    read_group,
    read_moment_ms,
    read_paths,
    read_pattern,
    read_tags,
    read_topics,
    read_values,
    take_client_options,
    take_fields,
)
from wakelog.spark.positions import (
    Position,
    read_assignment,
    read_begin,
    read_end,
    read_offsets,
    take_begin,
    take_end,
)
from wakelog.spark.records.column_walk import RowOptions
from wakelog.spark.snapshots import read_snapshots
from wakelog.spark.stores import named_paths
from wakelog.storage.retention.snapshot import Snapshot

DEFAULT_GROUP: Final = "wakelog-spark"
TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
"""How long `minOffsetsPerTrigger` may hold messages back, as in Spark's Kafka source."""
CLOCK_STEP_MS: Final = 60_000
"""How far the clock of a broker may have stepped back; NTP steps by far less."""


class ReadOptions(NamedTuple):
    """The options of a read, each one checked; positions are not resolved yet.

    remote: None for reads of files. pull_count: messages in one response.
    """

    store_path: str = ""
    snapshots: tuple[Snapshot, ...] = ()
    remote: ClientOptions | None = None
    pull_count: int = 1024
    table: str = "messages"
    topics: Topics = Topics()
    tags: tuple[str, ...] = ()
    sql: str = ""
    begin: Position = Position()
    end: Position = Position()
    by_timestamp_strategy: str = "error"
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_ms: int = TRIGGER_DELAY_MS
    bytes_per_trigger_max: int | None = None
    partitions_min: int = 1
    partition_records_max: int | None = None
    partition_bytes_max: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = ()
    clock_step_ms: int = CLOCK_STEP_MS
    schema_mode: str = "rocketmq"
    include_headers: bool = True
    properties_format: str = "map"
    rows: RowOptions = RowOptions()
    committing_group: str = ""

    def column_types(self) -> dict[str, str]:
        """Return all columns of the table, chosen or not."""
        if self.table == "damage":
            return dict(DAMAGE_COLUMNS)
        if self.schema_mode == "kafka":
            dropped = set() if self.include_headers else {"headers"}
            return {name: kind for name, kind in KAFKA_COLUMNS.items() if name not in dropped}
        columns = dict(MESSAGE_COLUMNS)
        if self.properties_format == "json":
            columns["properties"] = "string"
        return columns


def _read_pushdown(text: str) -> None:
    """Refuse `true`: Spark 4.3 keeps the plan of the last filters for every use of a table."""
    if read_flag(text):
        raise ValueError(
            "false only: Spark would use the filters of one query of a table for the others too, "
            "and rows would be missing. Say what to read in topic, assign, startingOffsets, "
            "startingTimestamp and their like"
        )


class _Option(NamedTuple):
    """One option: its field, the reader of its text, and the queries that may have it.

    query: "stream", "batch", or "" for both. way: "file", "wire", or "" for both.
    """

    field: str
    read: Reader
    query: str = ""
    way: str = ""


_OPTIONS: Final[Mapping[str, _Option]] = {
    "storePath": _Option("store_path", str),
    "path": _Option("store_path", str),
    "paths": _Option("store_path", read_paths),
    "snapshot": _Option("snapshots", read_snapshots, "batch", "file"),
    "readMode": _Option("mode", one_of("auto", "file", "remote", "ray")),
    **{name: _Option(*row, way="wire") for name, row in CONNECTION_OPTIONS.items()},
    "consumerGroup": _Option("group", read_group, way="wire"),
    "fetchTimeoutMs": _Option("timeout_ms", number_from(1), way="wire"),
    "fetchOffset.numRetries": _Option("retries_max", number_from(0), way="wire"),
    "fetchOffset.retryIntervalMs": _Option("pause_ms", number_from(0), way="wire"),
    "pullBatchSize": _Option("pull_count", number_from(1), way="wire"),
    "commitOffsetsToGroup": _Option("committing_group", read_group, "stream", "wire"),
    "table": _Option("table", one_of("messages", "damage"), "batch", "file"),
    "topic": _Option("names", read_topics),
    "subscribe": _Option("names", read_topics),
    "subscribePattern": _Option("pattern", read_pattern),
    "assign": _Option("assigned", read_assignment),
    "subExpression": _Option("tags", read_tags),
    "sqlFilter": _Option("sql", read_expression),
    "startingOffsets": _Option("starting_offsets", read_begin),
    "endingOffsets": _Option("ending_offsets", read_end, "batch"),
    "startingTimestamp": _Option("starting_time_ms", read_moment_ms),
    "endingTimestamp": _Option("ending_time_ms", read_moment_ms, "batch"),
    "startingOffsetsByTimestamp": _Option("starting_times_ms", read_offsets),
    "endingOffsetsByTimestamp": _Option("ending_times_ms", read_offsets, "batch"),
    "startingOffsetsByTimestampStrategy": _Option(
        "by_timestamp_strategy", one_of("error", "latest")
    ),
    "startingOffsetsFromGroup": _Option("starting_group", str),
    "maxOffsetsPerTrigger": _Option("offsets_per_trigger_max", number_from(1), "stream"),
    "minOffsetsPerTrigger": _Option("offsets_per_trigger_min", number_from(1), "stream"),
    "maxTriggerDelay": _Option("trigger_delay_max_ms", read_delay_ms, "stream"),
    "maxBytesPerTrigger": _Option("bytes_per_trigger_max", read_bytes, "stream", "file"),
    "minPartitions": _Option("partitions_min", number_from(1)),
    "maxRecordsPerPartition": _Option("partition_records_max", number_from(1)),
    "maxBytesPerPartition": _Option("partition_bytes_max", read_bytes, way="file"),
    "failOnDataLoss": _Option("fail_on_data_loss", read_flag),
    "includeSystemTopics": _Option("include_system", read_flag),
    "includeRetry": _Option("include_retry", read_flag),
    "includeDlq": _Option("include_dlq", read_flag),
    "columns": _Option("columns", read_columns),
    "pushdown": _Option("pushdown", _read_pushdown, "batch"),
    "maxClockStep": _Option("clock_step_ms", read_delay_ms, way="file"),
    "schemaMode": _Option("schema_mode", one_of("rocketmq", "kafka")),
    "includeHeaders": _Option("include_headers", read_flag),
    "propertiesFormat": _Option("properties_format", one_of("map", "json")),
    "decompress": _Option("decompress", read_flag),
    "verifyCrc": _Option("verify_crc", read_flag),
    "arrowBatchRows": _Option("batch_rows", number_from(1)),
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
"""Names in rocketmq-spark and in Spark's Kafka source, in lower case, to the names here."""
_OF_A_CATALOG: Final = "provider"
"""Spark adds this to the options of CREATE TABLE."""
_TOPIC_FIELDS: Final = {"names": "subscribe", "pattern": "subscribePattern", "assigned": "assign"}


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read what a user gave. Raises: OptionError."""
    if _OF_A_CATALOG in options:
        raise OptionError(
            "a source in Python cannot serve a table of Spark's catalog, which would be empty: "
            "say CREATE TEMPORARY VIEW in the place of CREATE TABLE"
        )
    given: dict[str, str] = {}
    for word, text in options.items():
        name = _BY_LOWER.get(word.lower())
        if name is None:
            raise OptionError(_unknown(word))
        given[name] = text
    values = read_values(given, _OPTIONS)
    values.pop("pushdown", None)
    values["remote"] = _take_remote(values, given)
    values["topics"] = _take_topics(values)
    values["rows"] = take_fields(values, RowOptions)
    values["begin"], values["end"] = take_begin(values), take_end(values)
    read = ReadOptions(**values)
    chosen_columns(read.column_types(), read.columns)
    return read


def check_use(options: Mapping[str, str], *, stream: bool) -> None:
    """Refuse options of the other kind of query. Raises: OptionError."""
    for word in options:
        name = _BY_LOWER[word.lower()]
        query = _OPTIONS[name].query
        if query and stream != (query == "stream"):
            kind = "batch reads" if stream else "streams"
            raise OptionError(f"option {name} is for {kind} only")


def options_of(options: Mapping[str, str], *, remote: bool) -> dict[str, str]:
    """Return the options without those that only the other way of reading has."""
    other = "file" if remote else "wire"
    dropped = {name.lower() for name, option in _OPTIONS.items() if option.way == other}
    return {word: text for word, text in options.items() if word.lower() not in dropped}


def _unknown(word: str) -> str:
    other = _OF_OTHER_SOURCES.get(word.lower())
    meant = f", it is {other!r} here" if other else nearest(word, _OPTIONS)
    return f"there is no option {word!r}{meant}"


def _take_remote(values: dict[str, Any], given: Mapping[str, str]) -> ClientOptions | None:
    """Take the fields of the wire out; return None if the query reads files.

    Raises: OptionError.
    """
    client = take_client_options(values, group=DEFAULT_GROUP)
    path, snapshots = values.get("store_path"), values.get("snapshots")
    mode = _choose_way(values.pop("mode", "auto"), path, client.name_servers, snapshots)
    other = "file" if mode == "wire" else "wire"
    for name in given if not ((path or snapshots) and client.name_servers) else ():
        if _OPTIONS[name].way == other:
            way = "over the wire, from nameServer" if mode == "wire" else "files, from storePath"
            raise OptionError(f"option {name} does not go with reading {way}")
    return client if mode == "wire" else None


def _choose_way(mode: str, path: Any, servers: Any, snapshots: Any) -> str:
    """Return "file" or "wire". Raises: OptionError."""
    if path and snapshots:
        raise OptionError("options snapshot and storePath exclude one another")
    if mode == "ray" and not snapshots:
        raise OptionError(
            "option snapshot is missing: readMode ray reads what the actor of a broker hands over"
        )
    if mode == "auto":
        is_here = path and (not servers or any(glob(each) for _, each in named_paths(path)))
        mode = "file" if snapshots or is_here else "remote"
    if mode == "remote" and snapshots:
        raise OptionError("option snapshot does not go with reading over the wire")
    if mode == "file" and not path and not snapshots:
        raise OptionError("option storePath is missing: the store directory to read")
    if mode == "remote" and not servers:
        raise OptionError(
            "option storePath is missing, the store directory to read; or nameServer, to read "
            "over the wire"
        )
    return "wire" if mode == "remote" else "file"


def _take_topics(values: dict[str, Any]) -> Topics:
    given = [name for field, name in _TOPIC_FIELDS.items() if field in values]
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)} exclude one another")
    topics: Topics = take_fields(values, Topics)
    return topics
