"""Commands that move offsets, against a running cluster."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from tests.compat.frames import RawConnection
from wakelog.actors.errors import NotPossible
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]

UPDATE_CONSUMER_OFFSET = 15


def commit(admin: AdminCommand, group: str, topic: str) -> None:
    """Commit offset 0 in both queues: a group that has committed nothing cannot be reset."""
    with RawConnection(admin.cluster.broker) as connection:
        for queue_id in (0, 1):
            place = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
            assert connection.ask(UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 0}).code == 0


def test_the_clients_of_a_group_are_reset(admin: AdminCommand, online: str) -> None:
    topic = admin.create("online_topic")
    admin(f"sendMessage -t {topic} -b broker-a -i 0 -p body")
    commit(admin, online, topic)
    said = admin(f"resetOffsetByTime -g {online} -t {topic} -s now")
    assert said[0] == (
        f"rollback consumer offset by specified group[{online}], topic[{topic}], force[true], "
        "timestamp(string)[now], timestamp(long)[-1]"
    )
    assert [line.split() for line in said[1:]] == [
        ["#brokerName", "#queueId", "#offset"],
        ["broker-a", "0", "1"],
        ["broker-a", "1", "0"],
    ]
    rows = admin.json(f"skipAccumulatedMessage -g {online} -t {topic}")
    assert [row["offset"] for row in rows] == [1, 0]


def test_a_group_that_was_never_there_is_refused(admin: AdminCommand) -> None:
    topic = admin.create("reset_topic")
    with pytest.raises(ClientError, match="absent"):
        admin(f"resetOffsetByTime -g absent -t {topic} -s 0")


def test_a_time_has_to_be_one(admin: AdminCommand) -> None:
    with pytest.raises(NotPossible, match="no time"):
        admin("resetOffsetByTime -g g -t t -s yesterday")
