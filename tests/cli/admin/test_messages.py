"""Commands about messages, against a running cluster."""

import json

import pytest

from tests.cli.admin.conftest import HEARTBEAT, AdminCommand
from tests.compat.driver import wait_until
from tests.compat.frames import RawConnection
from wakelog.actors.errors import NotPossible
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def send(admin: AdminCommand, topic: str, *, key: str, tag: str = "red") -> str:
    """Send a message to queue 1, and return its id once it is in the index."""
    words = f"sendMessage -t {topic} -b broker-a -i 1 -p body-of-{key} -k {key} -c {tag}"
    [row] = admin.json(words)
    assert (row["brokerName"], row["qid"], row["sendResult"]) == ("broker-a", 1, "SEND_OK")
    wait_until(lambda: len(admin(f"queryMsgByKey -t {topic} -k {key}")) > 1, what="indexed")
    return str(row["msgId"])


def test_a_message_is_found_by_its_key(admin: AdminCommand) -> None:
    topic = admin.create("keyed")
    unique = send(admin, topic, key="k1")
    heads, row = admin(f"queryMsgByKey -t {topic} -k k1")
    assert heads.split("  ")[0] == "#Message ID"
    assert row.split() == [unique, "1", "0"]
    assert len(admin(f"queryMsgByKey -t {topic} -k other")) == 1


def test_messages_are_printed(admin: AdminCommand) -> None:
    topic = admin.create("printed")
    first = send(admin, topic, key="k1")
    second = send(admin, topic, key="k2", tag="blue")
    said = admin(f"printMsg -t {topic}")
    ends = "MessageQueue [topic=printed, brokerName=broker-a, queueId=1]"
    assert f"minOffset=0, maxOffset=2, {ends}" in said
    found = [line for line in said if line.startswith("MSGID: ")]
    assert [line.split()[1] for line in found] == [first, second]
    assert "KEYS=k1" in found[0]
    assert found[0].endswith("BODY: body-of-k1")
    assert "body=[98, 111, 100, 121" in found[0]
    blue = admin.json(f"printMsg -t {topic} -s blue -d false")
    assert [x["msgId"] for x in blue if "msgId" in x] == [second]
    assert all("body" not in x for x in blue)


def test_one_queue_is_printed_or_counted(admin: AdminCommand) -> None:
    topic = admin.create("counted")
    for key, tag in (("k1", "red"), ("k2", "blue"), ("k3", "red")):
        send(admin, topic, key=key, tag=tag)
    queue = f"printMsgByQueue -t {topic} -a broker-a -i 1"
    counted = [line.split() for line in admin(f"{queue} -f true")]
    assert counted == [["Tag:", "red", "Count:", "2"], ["Tag:", "blue", "Count:", "1"]]
    assert len(admin(f"{queue} -p true")) == 3
    assert len(admin(f"consumeMessage -t {topic} -c 2")) == 2
    assert len(admin(f"consumeMessage -t {topic} -b broker-a -i 1 -o 2")) == 1


def test_what_is_not_there_is_an_error(admin: AdminCommand) -> None:
    topic = admin.create("empty")
    queue = r"MessageQueue \[topic=empty, brokerName=broker-a, queueId=1\]"
    with pytest.raises(ClientError, match=rf"{queue} has no message at offset 7\. It has .* 0 to"):
        admin(f"queryMsgByOffset -t {topic} -b broker-a -i 1 -o 7")
    with pytest.raises(ClientError, match=r"empty has no queue 7 to read at broker .* 0 to 1"):
        admin(f"printMsgByQueue -t {topic} -a broker-a -i 7")
    with pytest.raises(ClientError, match="topic empty has no message with the id 0A"):
        admin(f"queryMsgByUniqueKey -t {topic} -i {'0A' * 16}")
    for words in ("printMsg", "consumeMessage"):
        with pytest.raises(ClientError, match="no name server knows topic absent"):
            admin(f"{words} -t absent")


def test_a_queue_needs_its_broker(admin: AdminCommand) -> None:
    for words in ("sendMessage -t x -p b -i 1", "consumeMessage -t x -o 1"):
        with pytest.raises(NotPossible, match="-i"):
            admin(words)


def test_entries_of_a_queue_are_shown(admin: AdminCommand) -> None:
    topic = admin.create("entries")
    send(admin, topic, key="k1")
    ends, first = admin.json(f"queryCq -t {topic} -q 1 -i 0 -c 1 -b {admin.cluster.broker}")
    assert ends == {"max": 1, "min": 0}
    assert (first["index"], first["physicSize"] > 0) == (0, True)
    said = admin(f"queryCq -t {topic} -q 1 -i 0")
    assert said[:3] == ["Queue data: ", "max: 1, min: 0", "=" * 38]
    assert said[4].startswith("ConsumeQueueData{physicOffset=")
    assert said[4].endswith("extendDataJson='null', bitMap='null', eval=false, msg='null'}")
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    consumer = {"groupName": "of_entries", "subscriptionDataSet": [subscription]}
    body = json.dumps({"clientID": "c3", "consumerDataSet": [consumer]})
    with RawConnection(admin.cluster.broker, language="JAVA", version=399) as connection:
        assert connection.ask(HEARTBEAT, body=body.encode()).code == 0
        of_group = admin(f"queryCq -t {topic} -q 1 -i 0 -g of_entries")
    assert of_group[0] == "Subscription data: "
    assert '\t"subString":"*",' in of_group


def test_a_message_is_shown_also_where_its_groups_are_not_known(admin: AdminCommand) -> None:
    topic = admin.create("shown")
    send(admin, topic, key="k1")
    [shown] = admin.json(f"queryMsgByOffset -t {topic} -b broker-a -i 1 -o 0")
    assert (shown["Queue Offset"], shown["tracks"]) == (0, [])
    assert shown["Properties"]["MAX_OFFSET"] == "1"
    [by_id] = admin.json(f"queryMsgById -i {shown['OffsetID']}")
    assert "MAX_OFFSET" not in by_id["Properties"]
    admin(f"deleteTopic -c DefaultCluster -t {topic}")
    [left] = admin.json(f"queryMsgById -i {shown['OffsetID']}")
    assert left["tracksUnknown"].startswith(f"no name server knows topic {topic}")
    assert f"WARN: {left['tracksUnknown']}" in admin(f"queryMsgById -i {shown['OffsetID']}")
