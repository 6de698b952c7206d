"""What RocketMQ's Go client (2.1.2) does differently from the Java one, in frames made by hand.

Section 12 of the specification lists it; each test holds for the real broker.
"""

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import wait_until
from tests.compat.frames import ONEWAY, Frame, RawConnection

pytestmark = [pytest.mark.java, pytest.mark.daily("notifications")]

PULL = 11
SEND = 10
SEND_BATCH = 320
QUERY_OFFSET = 14
UPDATE_OFFSET = 15
MAX_OFFSET = 30
HEARTBEAT = 34
CONSUMER_LIST = 38
CONSUMERS_CHANGED = 40
ROUTE = 105
CONSUMER_CONNECTIONS = 203

OFFSET_FLAG = 1  # "commitOffset is meant"; the Go client never says that a subscription is there
SUSPEND_FLAG = 2


@pytest.fixture
def go(cluster: Cluster) -> Iterator[RawConnection]:
    """Yield a connection of a Go client."""
    with RawConnection(cluster.broker) as connection:
        yield connection


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Name the test's topic and group; the first send creates the topic."""
    return f"go_{request.node.originalname.removeprefix('test_')}"[:100]


def send(go: RawConnection, topic: str, body: bytes, properties: str = "") -> Frame:
    """Send as it does: code 10, long names, a separator after the last property."""
    fields = {
        "producerGroup": "go_producers",
        "topic": topic,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 1_700_000_000_000,
        "flag": 0,
        "reconsumeTimes": 0,
        "unitMode": "false",
        "maxReconsumeTimes": 0,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "batch": "false",
        "properties": properties,
    }
    return go.ask(SEND, fields, body)


def heartbeat(
    go: RawConnection, client: str, group: str, topic: str, expression: str = "*", **changes: Any
) -> None:
    """Say who is there: code sets as strings, versions in nanoseconds."""
    codes = {"*": [], "A": [str(ord("A"))]}
    subscription = {
        "classFilterMode": False,
        "topic": topic,
        "subString": expression,
        "tagsSet": [] if expression == "*" else [expression],
        "codeSet": codes.get(expression, []),
        "subVersion": 1_700_000_000_123_456_789,
        "expressionType": "TAG",
        **changes,
    }
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "Clustering",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    body = {"clientID": client, "producerDataSet": [], "consumerDataSet": [consumer]}
    assert go.ask(HEARTBEAT, None, json.dumps(body).encode()).code == 0


def pull(go: RawConnection, group: str, topic: str, offset: int, **changes: Any) -> Frame:
    """Pull and return the answer."""
    return go.answer(send_pull(go, group, topic, offset, **changes))


def send_pull(go: RawConnection, group: str, topic: str, offset: int, **changes: Any) -> int:
    """Pull as a push consumer does: no subscription, type TAG whatever it is."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 0,
        "commitOffset": 0,
        "suspendTimeoutMillis": 20_000,
        "subscription": "",
        "subVersion": 0,
        "expressionType": "TAG",
        **changes,
    }
    return go.send(PULL, fields)


def wait_dispatched(go: RawConnection, topic: str, end: int) -> None:
    queue = {"topic": topic, "queueId": 0}
    wait_until(lambda: go.ask(MAX_OFFSET, queue).fields["offset"] == str(end), what="dispatched")


def stored(body: bytes) -> list[tuple[bytes, str]]:
    """Take the body and the text of the properties out of each record of a pull's answer."""
    found = []
    position = 0
    while position < len(body):
        [size] = struct.unpack_from(">I", body, position)
        place = position + 84  # what is ahead of the body's length, with IPv4 hosts
        [length] = struct.unpack_from(">I", body, place)
        message = body[place + 4 : place + 4 + length]
        place += 4 + length
        place += 1 + body[place]  # the topic
        [length] = struct.unpack_from(">H", body, place)
        found.append((message, body[place + 2 : place + 2 + length].decode()))
        position += size
    return found


def test_what_is_meant_as_one_way_is_answered_since_the_flag_is_not_set(
    go: RawConnection, name: str
) -> None:
    assert send(go, name, b"counts as one way for the client").code == 0
    offset = {"consumerGroup": name, "topic": name, "queueId": 0, "commitOffset": 1}
    assert go.ask(UPDATE_OFFSET, offset).code == 0
    quiet = go.send(UPDATE_OFFSET, {**offset, "commitOffset": 2}, flag=ONEWAY)
    wait_until(lambda: go.ask(QUERY_OFFSET, offset).fields["offset"] == "2", what="committed")
    assert quiet not in go.unasked()


def test_a_send_with_long_names_and_a_separator_at_the_end_of_the_properties(
    go: RawConnection, name: str
) -> None:
    answer = send(go, name, b"body", "UNIQ_KEY\x010A01\x02TAGS\x01A\x02p\x01q\x02")
    assert answer.code == 0
    assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("0", "0")
    assert len(bytes.fromhex(answer.fields["msgId"])) == 16
    names = {"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}
    assert answer.fields.keys() == names
    wait_dispatched(go, name, 1)
    heartbeat(go, "reader", name, name)
    [(body, text)] = stored(pull(go, name, name, 0).body)
    assert body == b"body"
    properties = ["CLUSTER\x01DefaultCluster", "TAGS\x01A", "UNIQ_KEY\x010A01", "p\x01q"]
    assert sorted(text.split("\x02")) == properties


def test_a_batch_without_outer_properties_is_answered_with_every_id(
    go: RawConnection, name: str
) -> None:
    parts = b""
    for text in (b"one", b"three"):
        properties = b"TAGS\x01A\x02"
        part = struct.pack(">IIII", 0, 0, 7, len(text)) + text
        part += struct.pack(">H", len(properties)) + properties
        parts += struct.pack(">I", 4 + len(part)) + part
    values = ["pg", name, "TBW102", 4, 0, 0, 1_700_000_000_000, 0, "", 0, "false", 0, "true"]
    answer = go.ask(SEND_BATCH, dict(zip("abcdefghijklm", values, strict=True)), parts)
    assert answer.code == 0
    assert len(set(answer.fields["msgId"].split(","))) == 2
    wait_dispatched(go, name, 2)
    heartbeat(go, "reader", name, name)
    found = stored(pull(go, name, name, 0).body)
    assert found == [
        (b"one", "TAGS\x01A\x02CLUSTER\x01DefaultCluster"),
        (b"three", "TAGS\x01A\x02CLUSTER\x01DefaultCluster"),
    ]


def test_the_heartbeats_subscription_counts_where_a_pull_has_none(
    go: RawConnection, name: str
) -> None:
    for tag in "AB":
        assert send(go, name, tag.encode(), f"TAGS\x01{tag}\x02").code == 0
    wait_dispatched(go, name, 2)
    heartbeat(go, "reader", name, name, "A")
    answer = pull(go, name, name, 0)
    assert [body for body, _ in stored(answer.body)] == [b"A"]
    assert answer.fields["nextBeginOffset"] == "2"
    [connection] = json.loads(go.ask(CONSUMER_CONNECTIONS, {"consumerGroup": name}).body)[
        "connectionSet"
    ]
    assert (connection["clientId"], connection["language"]) == ("reader", "GO")


def test_a_tag_that_is_no_ascii_hashes_differently_and_never_matches(
    go: RawConnection, name: str
) -> None:
    assert send(go, name, b"x", "TAGS\x01ö\x02").code == 0
    wait_dispatched(go, name, 1)
    code = 0
    for byte in "ö".encode():  # the Java client takes UTF-16 units
        code = 31 * code + byte
    heartbeat(go, "reader", name, name, "ö", codeSet=[str(code)])
    assert pull(go, name, name, 0).code == 20  # PULL_RETRY_IMMEDIATELY: looked at, not matched


def test_nothing_new_is_answered_with_the_next_offset(go: RawConnection, name: str) -> None:
    send(go, name, b"x")
    wait_dispatched(go, name, 1)
    heartbeat(go, "reader", name, name)
    answer = pull(go, name, name, 1)
    assert answer.code == 19  # PULL_NOT_FOUND
    ends = {key: answer.fields[key] for key in ("nextBeginOffset", "minOffset", "maxOffset")}
    assert ends == {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}


def test_a_held_pull_is_answered_when_something_comes(
    cluster: Cluster, go: RawConnection, name: str
) -> None:
    send(go, name, b"first")
    wait_dispatched(go, name, 1)
    heartbeat(go, "reader", name, name)
    held = send_pull(go, name, name, 1, sysFlag=SUSPEND_FLAG | OFFSET_FLAG, commitOffset=1)
    with RawConnection(cluster.broker) as other:
        # The pull came first: its commit can be seen.
        place = {"consumerGroup": name, "topic": name, "queueId": 0}
        wait_until(lambda: other.ask(QUERY_OFFSET, place).fields.get("offset") == "1", what="held")
        send(other, name, b"second")
    answer = go.answer(held)
    assert [body for body, _ in stored(answer.body)] == [b"second"]


def test_each_of_many_pulls_at_once_is_answered_from_its_own_offset(
    cluster: Cluster, go: RawConnection, name: str
) -> None:
    """Whoever seeks has two pulls under way: neither may get what the other asked for."""
    for number in range(6):
        send(go, name, b"%d" % number)
    wait_dispatched(go, name, 6)
    heartbeat(go, "reader", name, name)
    held = send_pull(go, name, name, 6, sysFlag=SUSPEND_FLAG | OFFSET_FLAG, commitOffset=6)
    asked = [(send_pull(go, name, name, x % 6, sysFlag=SUSPEND_FLAG), x % 6) for x in range(300)]
    for opaque, offset in asked:
        bodies = [body for body, _ in stored(go.answer(opaque).body)]
        assert bodies == [b"%d" % x for x in range(offset, 6)]
    with RawConnection(cluster.broker) as other:
        send(other, name, b"6")
    again = send_pull(go, name, name, 2, sysFlag=SUSPEND_FLAG)
    assert [body for body, _ in stored(go.answer(held).body)] == [b"6"]
    assert stored(go.answer(again).body)[0][0] == b"2"


def test_a_poll_that_asks_for_no_messages_gets_one(go: RawConnection, name: str) -> None:
    for body in (b"1", b"2"):
        send(go, name, body)
    wait_dispatched(go, name, 2)
    heartbeat(go, "reader", name, name)
    answer = pull(go, name, name, 0, maxMsgNums=0)
    assert [body for body, _ in stored(answer.body)] == [b"1"]


def test_a_group_without_an_offset_may_commit_minus_one(go: RawConnection, name: str) -> None:
    send(go, name, b"x")
    wait_dispatched(go, name, 1)
    place = {"consumerGroup": name, "topic": name, "queueId": 0}
    # With no offset known, and all of the queue at hand, a group begins at 0; -1 is none.
    assert go.ask(QUERY_OFFSET, place).fields == {"offset": "0"}
    assert go.ask(UPDATE_OFFSET, {**place, "commitOffset": -1}).code == 0
    assert go.ask(QUERY_OFFSET, place).fields == {"offset": "0"}


def test_others_of_the_group_are_notified_of_a_closed_connection(
    cluster: Cluster, go: RawConnection, name: str
) -> None:
    send(go, name, b"x")
    heartbeat(go, "stays", name, name)
    with RawConnection(cluster.broker) as other:
        heartbeat(other, "leaves", name, name)
        assert go.wait_pushed(CONSUMERS_CHANGED).fields == {"consumerGroup": name}
        assert sorted(consumers(go, name)) == ["leaves", "stays"]
        go.pushed.clear()
    # No UNREGISTER_CLIENT: the end of the connection is all there is.
    notification = go.wait_pushed(CONSUMERS_CHANGED)
    assert notification.fields == {"consumerGroup": name}
    assert notification.header["flag"] & ONEWAY
    assert consumers(go, name) == ["stays"]


def consumers(go: RawConnection, group: str) -> list[str]:
    answer = go.ask(CONSUMER_LIST, {"consumerGroup": group})
    return list(json.loads(answer.body)["consumerIdList"])


def test_the_retry_topic_is_routed_once_the_heartbeat_is_answered(
    cluster: Cluster, go: RawConnection, name: str
) -> None:
    send(go, name, b"x")
    heartbeat(go, "reader", name, name)
    with RawConnection(cluster.name_server) as name_server:
        # 4.9.3 sends the registration ahead of the answer, and does not wait for it.
        place = {"topic": f"%RETRY%{name}"}
        wait_until(lambda: name_server.ask(ROUTE, place).code == 0, what="routed")
        body = name_server.ask(ROUTE, place).body.decode()
    assert '"readQueueNums":1' in body
