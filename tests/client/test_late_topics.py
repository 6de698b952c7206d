"""A consumer that starts before its topics are there."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.client.clusters import messages
from tests.client.group_cluster import two_queues
from tests.client.test_consumer import get, run
from tests.fakes.records import record
from wakelog.client.clocks import wall_ms
from wakelog.client.consumer import Consumer
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand


def test_a_topic_that_comes_later_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster = two_queues()

    async def read_later(consumer: Consumer) -> None:
        assert await consumer.fetch(1, 0.0) == []
        cluster.add(("a", "U", 0), messages(2, topic="U"))
        [first, second] = await get(consumer, 2)
        assert (first.topic, first.queue_offset, second.queue_offset) == ("U", 0, 1)
        await consumer.ack(first, second)

    run(cluster, read_later, topics="U", start="first")
    said = [line for line in caplog.messages if "topic U" in line]
    assert said == ["no name server knows topic U yet: it is read from when it is there"]


def test_a_late_topic_is_read_from_what_came_since_the_start(tmp_path: Path) -> None:
    """Offsets in a file: no broker says where this group begins."""
    cluster = two_queues()
    old, *new = (
        record(n, topic="U", queue_offset=n, body=b"%d" % n, store_timestamp_ms=wall_ms() + ms)
        for n, ms in enumerate((-60_000, 60_000, 60_000))
    )

    async def read_later(consumer: Consumer) -> None:
        cluster.add(("a", "U", 0), [old, *new])
        assert [message.body for message in await get(consumer, 2)] == [b"1", b"2"]

    run(cluster, read_later, topics="U", start="last", broadcast=True, offset_folder=tmp_path)


def test_a_start_waits_for_its_topics_as_long_as_it_may() -> None:
    cluster = two_queues()
    asked: list[str] = []

    def come(address: str, command: RemotingCommand) -> None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            asked.append(command.ext_fields["topic"])
            if asked.count("U") == 2:
                cluster.queues["a", "U", 0] = messages(1, topic="U")

    async def read(consumer: Consumer) -> None:
        assert [queue.topic for queue in consumer.assignment] == ["U"]

    cluster.fail = come
    run(cluster, read, topics="U", start_timeout=timedelta(seconds=10))
