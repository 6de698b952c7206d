"""Jobs against live brokers, wakelog's and the real one: what they find there and send there."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, bodies
from tests.spark.jobs.test_resend import dead_letters
from tests.spark.remote.conftest import numbered, send
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.compare import compare
from wakelog.spark.jobs.resend import ORIGIN, RETRY, ResendReport, resend

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.daily("in turn"),
]

TOPIC = "given_up"
GROUPS = (f"G_{TOPIC}", f"H_{TOPIC}")
"""Of the dead letters: two of the first, one of the second."""
SECONDS_MAX = 60


def test_a_copy_is_compared_with_the_brokers_that_went_on(
    spark: SparkSession, wire: Cluster, tmp_path: Path
) -> None:
    send(wire, numbered("compared", range(50)))
    copy = tmp_path / "copy"
    shutil.copytree(wire.store / "commitlog", copy)
    topic = {"topic": "compared"}
    assert compare(spark, str(copy), name_server=wire.name_server, options=topic).count() == 0
    send(wire, numbered("compared", range(50, 57)))
    found = compare(spark, str(copy), name_server=wire.name_server, options=topic).collect()
    assert {row.difference for row in found} == {"only in the second"}
    assert sum(row.messages for row in found) == 7
    with pytest.raises(JobFailed, match="a path or a name server"):
        compare(spark, str(copy))


def received(driver: JavaDriver, group: str, count: int) -> list[tuple[str, bytes]]:
    """Return topic and body of the messages that a group's consumer has received."""
    got = driver("consumed", name=group, count=count, timeoutMs=1000 * SECONDS_MAX)
    return sorted(zip((each["topic"] for each in got), bodies(got), strict=True))


@pytest.mark.long
def test_dead_letters_reach_their_group_alone_or_every_group(
    spark: SparkSession, wire: Cluster, tmp_path: Path
) -> None:
    store = dead_letters(tmp_path / "dead", TOPIC)
    with JavaDriver(wire.name_server) as driver:
        driver("createTopic", address=wire.broker, topic=TOPIC, queues=2)
        for group in GROUPS:
            driver("consume", name=group, group=group, topics=[TOPIC])
        report = resend(spark, store, wire.name_server, group=GROUPS[0], to=RETRY)
        assert report == ResendReport(2, 1)
        # Consumers see them under the topic that they come from.
        assert received(driver, GROUPS[0], 2) == [(TOPIC, b"0"), (TOPIC, b"1")]
        assert resend(spark, store, wire.name_server, group=GROUPS[1], to=ORIGIN) == ResendReport(
            1, 0
        )
        assert received(driver, GROUPS[0], 3)[2:] == [(TOPIC, b"2")]
        assert received(driver, GROUPS[1], 1) == [(TOPIC, b"2")]
        for group in GROUPS:
            driver("stopConsuming", name=group)
