"""Dead letters sent again to a broker, and what consumers find there."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.compat.clusters import Cluster
from tests.fakes.logs import small_config
from tests.fakes.records import LogBytes, properties
from tests.spark.logs import write_segments
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.resend import RETRY, ResendReport, resend
from wakelog.spark.jobs.tables import source_path


def dead_letters(folder: Path, topic: str) -> str:
    """Write a store with dead letters of a topic, of two groups named after it; return its path."""
    log = LogBytes()
    for i, group in enumerate("GGH"):
        pairs = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": f"M{i}", "UNIQ_KEY": f"U{i}"}
        log.add(
            properties(**pairs, TAGS="t", DELAY="18"),
            topic=f"%DLQ%{group}_{topic}",
            queue_offset=i,
            body=b"%d" % i,
            reconsume_times=16,
        )
    log.add(properties(TAGS="t"), topic=f"%DLQ%G_{topic}", queue_offset=3)
    log.add(properties(UNIQ_KEY="alive"), topic=topic)
    write_segments(folder / "commitlog", log)
    return str(folder)


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.slow
def test_dead_letters_go_to_their_topic_or_to_their_group_alone(
    spark: SparkSession, local: Cluster, tmp_path: Path
) -> None:
    store = dead_letters(tmp_path / "dead", "resent")

    def found(topic: str) -> list[Row]:
        # Of the log alone: of a store the source reads what is durable, which comes later.
        reader = spark.read.format("rocketmq").option("topic", topic)
        return reader.load(str(local.store / "commitlog")).orderBy("msgId").collect()

    assert resend(spark, store, local.name_server) == ResendReport(3, 1)
    rows = found("resent")
    assert [(row.msgId, row.body, row.tags) for row in rows] == [
        (f"U{i}", b"%d" % i, "t") for i in range(3)
    ]
    assert all(not row.properties.keys() & {"DELAY", "RETRY_TOPIC"} for row in rows)

    report = resend(spark, store, local.name_server, group="H_resent", to=RETRY)
    assert report == ResendReport(1, 0)
    [row] = found("%RETRY%H_resent")
    expected = {"RETRY_TOPIC": "resent", "ORIGIN_MESSAGE_ID": "M2", "UNIQ_KEY": "U2"}
    assert row.body == b"2"
    assert expected.items() <= row.properties.items()
    assert len(found("resent")) == 3


def test_where_to_is_one_of_two() -> None:
    with pytest.raises(JobFailed, match="cannot be sent to 'elsewhere'; give origin or retry"):
        resend(None, "/nowhere", "a:1", to="elsewhere")  # type: ignore[arg-type]


def test_a_store_is_named_by_its_root_and_a_log_alone_by_its_folder() -> None:
    assert source_path(small_config()) == "/store"
    assert source_path(small_config(store_path_commit_log="/copied")) == "/copied"
    with pytest.raises(JobFailed, match="spread over 2 folders; copy its files into one"):
        source_path(small_config(store_path_commit_log="/a,/b"))
