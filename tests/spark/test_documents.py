"""The blocks of docs/spark.md, in the session that tests share.

`/data` stands for a folder with stores, `127.0.0.1:9876` for a name server of a cluster. The one
that opens a session itself runs alone in `./dev long`, as it stands there (`tests/test_docs.py`).
"""

import json
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_spark import run
from tests.documents import IN_SPARK, ROOT, Block, blocks_of
from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import write_segments

NAME_SERVER = "127.0.0.1:9876"
OPENS_SESSION = 'open_session("local[2]")'
BLOCKS = sorted(
    (
        block
        for block in blocks_of(ROOT / "docs" / "spark.md")
        if block.how == IN_SPARK or OPENS_SESSION in block.text
    ),
    key=lambda block: "write.format" not in block.text,
)
"""Those that write first: others read the topic."""
WRITTEN = ("copied", "orders.parquet", "checkpoint")
"""What the first block makes in the folder where it runs; Spark's Java is in another one."""
SEGMENT_BYTES = 1 << 30
"""The size of a real broker's files; the unwritten part uses no disk."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copied log and three stores, of the same messages."""
    folder = tmp_path_factory.mktemp("data")
    log = LogBytes(1 << 16)
    for i in range(40):
        log.add(
            properties(KEYS=f"k{i % 4}", TAGS="t", UNIQ_KEY=f"U{i}"),
            topic="orders",
            queue_id=i % 2,
            queue_offset=i // 2,
            body=b"%d" % i,
            store_timestamp_ms=STORE_MS + 1000 * i,
            born_timestamp_ms=STORE_MS + 990 * i,
        )
    for name in ("copied", "store/commitlog", "a/commitlog", "b/commitlog"):
        write_segments(folder / name, log)
    with open(folder / "copied" / f"{0:020d}", "ab") as file:
        file.truncate(SEGMENT_BYTES)
    (folder / "store" / "config").mkdir()
    table = {"offsetTable": {"orders@orders": {"0": 5, "1": 6}}}
    (folder / "store" / "config" / "consumerOffset.json").write_text(json.dumps(table))
    return folder


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block, id=block.place, marks=[pytest.mark.long] if block.language == "sh" else []
        )
        for block in BLOCKS
    ],
)
def test_a_block_runs_in_spark(
    block: Block,
    spark: SparkSession,
    data: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    text = block.text.replace("/data/", f"{data}/")
    if OPENS_SESSION in text:
        for name in WRITTEN:
            text = text.replace(f'"{name}"', f'"{tmp_path / name}"')
    if NAME_SERVER in text:
        text = text.replace(NAME_SERVER, request.getfixturevalue("local").name_server)
    if block.language == "sh":
        for line in text.splitlines():
            assert shlex.split(line)[:2] == ["wakelog", "spark"]
            assert run(*shlex.split(line)[2:]) == 0, line
        return
    table = spark.createDataFrame([("one", "k"), ("two", "k")], "body string, keys string")
    stream = spark.readStream.format("rocketmq").load(str(data / "store")).select("body", "keys")
    try:
        exec(compile(text, block.place, "exec"), {"spark": spark, "table": table, "stream": stream})
    finally:
        for query in spark.streams.active:
            query.stop()


def test_the_document_has_blocks_of_both_languages() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python"}
    assert sum(OPENS_SESSION in block.text for block in BLOCKS) == 1
