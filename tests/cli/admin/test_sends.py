"""Commands that send messages, against a running cluster."""

import pytest

from tests.cli.admin.conftest import AdminCommand
from wakelog.actors.errors import NotPossible
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_message_is_sent_to_a_queue(admin: AdminCommand) -> None:
    topic = admin.create("sent")
    [row] = admin.json(f"sendMessage -t {topic} -p body -b broker-a -i 1")
    assert (row["brokerName"], row["qid"], row["sendResult"]) == ("broker-a", 1, "SEND_OK")
    with pytest.raises(NotPossible, match="-i names a queue of no broker"):
        admin(f"sendMessage -t {topic} -p body -i 1")


def test_messages_to_a_brokers_topic_say_where_they_are(admin: AdminCommand) -> None:
    found = admin.json("sendMsgStatus -b broker-a -c 2 -s 20")
    offsets = [each["queueOffset"] for each in found]
    assert offsets == [offsets[0], offsets[0] + 1]
    assert all("topic=broker-a" in each["messageQueue"] for each in found)
    [line] = admin("sendMsgStatus -b broker-a -c 1")
    assert line.startswith("rt:")
    assert "ms, SendResult=SendResult [sendStatus=SEND_OK, msgId=" in line


def test_queues_are_sent_to_in_turn(admin: AdminCommand) -> None:
    topic = admin.create("timed")
    heads, *rows, last = admin(f"checkMsgSendRT -t {topic} -a 3 -s 10")
    assert heads.split() == ["#Broker", "Name", "#QID", "#Send", "Result", "#RT"]
    assert [row.split()[:3] for row in rows] == [
        ["broker-a", queue_id, "true"] for queue_id in ("0", "1", "0")
    ]
    assert last.startswith("Avg RT: ")
    assert admin(f"checkMsgSendRT -t {topic} -a 1 -s 10")[-1] == "Avg RT: NaN"
    with pytest.raises(NotPossible, match="--amount needs a number of 1 or more"):
        admin(f"checkMsgSendRT -t {topic} -a 0 -s 10")


def test_every_broker_is_sent_to_again_and_again(admin: AdminCommand) -> None:
    found = admin.first(3, "clusterRT -a 2 -s 10 -i 0")
    assert [line.split()[:2] for line in found[1:]] == [["DefaultCluster", "broker-a"]] * 2
    assert found[1].split()[3:] == ["2", "0"]
    [line] = admin.first(1, "clusterRT -a 1 -s 10 -p true -m here -c DefaultCluster")
    assert line.split("|")[1:] == ["here", "DefaultCluster", "broker-a", "0"]
    with pytest.raises(ClientError, match="no cluster absent"):
        admin("clusterRT -s 10 -c absent")
