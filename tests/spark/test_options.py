"""Options: values, aliases, options that exclude each other, and errors."""

from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import StructType

from wakelog.client.options import ClientOptions
from wakelog.spark.columns import (
    DAMAGE_COLUMNS,
    KAFKA_COLUMNS,
    MESSAGE_COLUMNS,
    NULLABLE,
    chosen_columns,
    nearest,
)
from wakelog.spark.errors import OptionError
from wakelog.spark.options import (
    _OPTIONS,
    ReadOptions,
    check_use,
    options_of,
    read_options,
)
from wakelog.spark.positions import Position
from wakelog.spark.remote.stream import RemoteStreamReader

PATH = {"path": "/s"}
TLS = {"nameServer": "h:1", "tls.enable": "true"}

VALUES: list[tuple[str, str, str, Any]] = [
    ("storePath", "/t", "store_path", "/t"),
    ("startingTimestamp", "1700000000000", "begin", Position(time_ms=1_700_000_000_000)),
    ("maxBytesPerPartition", "128m", "partition_bytes_max", 128 << 20),
    ("arrowBatchBytes", "100", "rows.batch_bytes", 100),
    ("maxTriggerDelay", "30s", "trigger_delay_max_ms", 30_000),
    ("FAILONDATALOSS", "False", "fail_on_data_loss", False),
    ("columns", "topic, body", "columns", ("topic", "body")),
    ("subExpression", " a || b||", "tags", ("a", "b")),
    ("readMode", "file", "table", "messages"),
    ("paths", '["/s","a=/t"]', "store_path", "/s,a=/t"),
]


@pytest.mark.parametrize(("name", "text", "field", "expected"), VALUES)
def test_a_value(name: str, text: str, field: str, expected: Any) -> None:
    path = {} if name in ("storePath", "paths") else PATH
    assert attrgetter(field)(read_options(path | {name: text})) == expected


TOPICS: list[tuple[dict[str, str], str, bool]] = [
    ({}, "A", True),
    ({}, "%RETRY%g", False),
    ({}, "%DLQ%g", False),
    ({}, "SCHEDULE_TOPIC_XXXX", False),
    ({}, "rmq_sys_x", False),
    ({"includeRetry": "true"}, "%RETRY%g", True),
    ({"includeDlq": "true"}, "%DLQ%g", True),
    ({"includeSystemTopics": "true"}, "TBW102", True),
    ({"topic": "A,B"}, "B", True),
    ({"subscribe": "%DLQ%g"}, "%DLQ%g", True),
    ({"subscribe": "A"}, "B", False),
    ({"subscribePattern": "A.*"}, "AB", True),
    ({"subscribePattern": "A"}, "AB", False),
    ({"subscribePattern": ".*"}, "%RETRY%g", False),
    ({"assign": '{"A":[0]}'}, "A", True),
    ({"assign": '{"A":{"b":[0]}}'}, "A", True),
    ({"assign": '{"A":{"c":[0]}}'}, "A", False),
    ({"assign": '{"A":[1]}'}, "A", False),
]


@pytest.mark.parametrize(("options", "topic", "expected"), TOPICS)
def test_which_queues_are_read(options: dict[str, str], topic: str, expected: bool) -> None:
    assert read_options(PATH | options).topics.accept("b", topic, 0) is expected


WRONG: list[tuple[dict[str, str], str]] = [
    ({"topc": "A"}, r"no option 'topc', did you mean 'topic'\?"),
    ({"zzzzzz": "A"}, "no option 'zzzzzz'$"),
    ({"offsets": "A"}, r"no option 'offsets', did you mean '\w*[oO]ffsets\w*'\?"),
    ({"group": "g"}, "no option 'group', it is 'consumerGroup' here"),
    ({"kafka.bootstrap.servers": "h:1"}, "it is 'nameServer' here"),
    ({"topic": " , "}, "it takes names of topics"),
    ({"arrowBatchBytes": "3g"}, "it takes a size of at most 1g"),
    ({"nameServer": "g:1,h:1"}, "it takes HOST:PORT, several with semicolons between"),
    ({"nameServer": "h"}, "option nameServer is 'h'; it takes HOST:PORT"),
    ({"nameServer": "h:1", "secretKey": "s"}, "options accessKey and secretKey go together"),
    ({"nameServer": "h:1", "accessKey": "a"}, "options accessKey and secretKey go together"),
    ({"nameServer": "h:1", "securityToken": "t"}, "securityToken goes with accessKey"),
    ({"nameServer": "h:1", "accessKey": " "}, "it takes a text that is not empty"),
    ({"accessKey": "a", "secretKey": "s"}, "option accessKey does not go with reading files"),
    ({"sqlFilter": "a >"}, "option sqlFilter is 'a >'; it takes an expression of SQL92"),
    ({"pullBatchSize": "5"}, "pullBatchSize does not go with reading files"),
    ({"nameServer": "h:1", "namesrvAddr": "g:1"}, "mean the same, and have two values"),
    ({"readMode": "ray"}, "option snapshot is missing"),
    ({"tls.enable": "true"}, "option tls.enable does not go with reading files"),
    ({"tls.trustCertPath": "/x"}, r"no option 'tls.trustCertPath', did you mean 'tls.client.t"),
    ({"nameServer": "h:1", "tls.enable": "yes"}, "it takes true or false"),
    ({"nameServer": "h:1", "tls.client.certPath": "/x"}, "certPath goes with tls.enable true"),
    ({**TLS, "tls.client.trustCertPath": "/x"}, "tls.client: /x cannot be read as certificates"),
    ({**TLS, "tls.client.keyPath": "/x"}, "keyPath goes with tls.client.certPath"),
    ({"readMode": "remote"}, "storePath is missing, .* or nameServer, to read over the wire"),
    ({"paths": "/s"}, "it takes a JSON list of paths"),
    ({"paths": '["/t"]'}, "options path and paths mean the same, and have two values"),
    ({"provider": "rocketmq"}, "say CREATE TEMPORARY VIEW"),
    ({"readMode": "fast"}, "it takes auto or file"),
    ({"decompress": "yes"}, "it takes true or false"),
    ({"minPartitions": "0"}, "a number from 1 on"),
    ({"maxBytesPerPartition": "many"}, "a size such as"),
    ({"maxTriggerDelay": "15"}, "a time such as"),
    ({"startingTimestamp": "soon"}, "milliseconds, or a time"),
    ({"subscribePattern": "("}, "a regular expression"),
    ({"topic": "A", "subscribePattern": "B"}, "exclude one another"),
    ({"topic": "A", "subscribe": "B"}, "mean the same, and have two values"),
    ({"assign": "{"}, "option assign"),
    ({"assign": '{"A":"x"}'}, "option assign"),
    ({"columns": "['topic']"}, r"option columns .* names with commas .* topic,body, and no list"),
    ({"startingOffsets": "earlyest"}, r"takes earliest, latest or JSON .* mean 'earliest'\?"),
    ({"endingOffsets": "lattest"}, r"it takes latest or JSON .* did you mean 'latest'\?"),
    ({"pushdown": "true"}, "it takes false only: Spark would use the filters of one query"),
    ({"columns": "topik"}, r"no column 'topik', did you mean 'topic'\?"),
    ({"columns": "body", "schemaMode": "kafka"}, "there are key, value"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_the_error_of_a_wrong_option(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_options(PATH | options)


def test_a_path_or_a_name_server_is_needed() -> None:
    with pytest.raises(OptionError, match="storePath is missing"):
        read_options({})
    with pytest.raises(OptionError, match="storePath is missing: the store"):
        read_options({"nameServer": "h:1", "readMode": "file"})
    for name, text in {"table": "damage", "maxBytesPerPartition": "1m"}.items():
        with pytest.raises(OptionError, match=f"{name} does not go with reading over the wire"):
            read_options({"nameServer": "h:1", name: text})


def test_files_are_read_if_the_path_exists_here(tmp_path: Path) -> None:
    both = {"nameServer": "h:1", "storePath": f"a={tmp_path}", "pullBatchSize": "5"}
    assert read_options(both).remote is None
    assert read_options(both | {"storePath": tmp_path.as_uri()}).remote is None
    for there in ({"storePath": f"a={tmp_path}/none"}, {"readMode": "remote"}):
        assert read_options(both | there).remote == ClientOptions(("h:1",), "wakelog-spark")
        assert read_options(both | there).pull_count == 5


@pytest.mark.parametrize(
    ("options", "stream", "message"),
    [
        ({"maxOffsetsPerTrigger": "1"}, False, "for streams only"),
        ({"endingOffsets": "latest"}, True, "for batch reads only"),
        ({"pushdown": "false"}, True, "for batch reads only"),
    ],
)
def test_options_of_the_other_kind_of_query(
    options: dict[str, str], stream: bool, message: str
) -> None:
    check_use(options, stream=not stream)
    with pytest.raises(OptionError, match=message):
        check_use(options, stream=stream)


def test_options_without_those_of_the_other_way_of_reading() -> None:
    given = {"topic": "T", "ACCESSKEY": "a", "maxBytesPerPartition": "1m", "typo": "x"}
    assert set(options_of(given, remote=False)) == {"topic", "maxBytesPerPartition", "typo"}
    assert set(options_of(given, remote=True)) == {"topic", "ACCESSKEY", "typo"}


ODD = [
    "", " ",
    "a\ud800", "a\0b", "-1", "0", "9" * 30, "9" * 5_000, "nan", "1e400", "\u0663", "\u00b2",
    "[", "{", "[1]", "{}", "(" * 200, "[" * 2_000, '{"T": {"0": 1e400}}', "9" * 20 + "d",
    "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "h:99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize("name", _OPTIONS)
@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_an_odd_value_of_any_option_is_read_or_refused_by_name(name: str) -> None:
    for odd in ODD:
        for place in ({"storePath": "/store"}, {"nameServer": "h:9876"}):
            with suppress(OptionError):  # another error is a failure
                read_options({**place, name: odd})


def test_columns_are_chosen_in_the_order_of_asking() -> None:
    assert list(chosen_columns(MESSAGE_COLUMNS, ["BODY", "topic"])) == ["body", "topic"]
    with pytest.raises(OptionError, match="there are brokerName, path"):
        chosen_columns(DAMAGE_COLUMNS, ["x"])


def test_nullable_columns_are_columns_of_a_table() -> None:
    assert {*MESSAGE_COLUMNS, *KAFKA_COLUMNS} >= NULLABLE


def test_the_hint_has_a_similar_name_only() -> None:
    assert nearest("tpoic", MESSAGE_COLUMNS) == ", did you mean 'topic'?"
    assert nearest("timestamp", MESSAGE_COLUMNS) == ", did you mean 'bornTimestamp'?"
    assert nearest("stamp", MESSAGE_COLUMNS) == ", did you mean 'bornTimestamp'?"
    for far in ("zzz", "sta", ""):
        assert nearest(far, MESSAGE_COLUMNS) == ""


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (ReadOptions(), ReadAllAvailable),
        (ReadOptions(offsets_per_trigger_max=5, bytes_per_trigger_max=5), ReadMaxRows),
        (ReadOptions(bytes_per_trigger_max=5, offsets_per_trigger_min=5), ReadMaxBytes),
        (ReadOptions(offsets_per_trigger_min=5), ReadMinRows),
    ],
)
def test_the_default_limit_is_one_of_the_options(
    options: ReadOptions, kind: type[ReadLimit]
) -> None:
    stream = RemoteStreamReader(options, StructType())
    assert type(stream.getDefaultReadLimit()) is kind
    assert stream.reportLatestOffset() is None
