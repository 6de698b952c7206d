"""The same requests to 4.9.3's broker and to ours, one after the other, and the same answers.

Compared are response codes, remarks, header fields, JSON bodies and stored records, byte for byte
but for ports, times and rates. Not compared are remarks that carry an exception of Java, or what
ours adds to one. Where ours is stricter on purpose, the request is not in the play.
"""

import json
import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import DriverError, JavaDriver, message, wait_until
from tests.compat.frames import Frame, RawConnection
from wakelog.protocol import fastjson

pytestmark = [pytest.mark.java, pytest.mark.slow]

SEND, SEND_V2, SEND_BATCH, SEND_BACK = 10, 310, 320, 36
PULL, QUERY, VIEW = 11, 12, 33
RECORDS = {PULL, QUERY, VIEW}
# In a record with IPv4 hosts.
BORN_TIME, BORN_PORT, STORE_TIME, STORE_PORT = 40, 52, 56, 68

LONG_NAMES = {
    "producerGroup": "pg",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": 4,
    "queueId": 0,
    "sysFlag": 0,
    "bornTimestamp": 1_600_000_000_000,
    "flag": 3,
    "properties": "A\x01b\x02",
    "reconsumeTimes": 0,
    "unitMode": "false",
    "maxReconsumeTimes": 0,
    "batch": "false",
}
LETTERS = {
    **dict(zip("abcdefgh", ["pg", "T", "TBW102", 4, 0, 0, 1_600_000_000_000, 3], strict=True)),
    **{"i": "A\x01b", "j": 0, "k": "false", "m": "false"},
}
PULLED = {
    "consumerGroup": "cg",
    "topic": "T",
    "queueId": 0,
    "queueOffset": 0,
    "maxMsgNums": 32,
    "sysFlag": 4,
    "commitOffset": 0,
    "suspendTimeoutMillis": 1000,
    "subscription": "*",
    "subVersion": 1,
    "expressionType": "TAG",
}
CREATED = {
    "topic": "created",
    "defaultTopic": "TBW102",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": "false",
}
DOTTED = "com.example:orders"  # no name for a topic, but one for a group
DOTTED_PLACE = {"consumerGroup": DOTTED, "topic": f"%RETRY%{DOTTED}", "queueId": 0}
SENT_BACK = {"offset": 0, "group": "cg", "originMsgId": "x", "originTopic": "T"}
WINDOW = {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 42}


class Request(NamedTuple):
    """One request of the play."""

    code: int
    fields: dict[str, Any] | None = None
    body: bytes = b""


def send(body: bytes = b"body", **letters: Any) -> Request:
    return Request(SEND_BATCH if letters.get("m") == "true" else SEND_V2, LETTERS | letters, body)


def part(body: bytes, properties: bytes = b"") -> bytes:
    """Encode one message of a batch."""
    rest = struct.pack(">IIII", 0, 0, 0, len(body)) + body
    rest += struct.pack(">H", len(properties)) + properties
    return struct.pack(">I", 4 + len(rest)) + rest


def pull(**changes: Any) -> Request:
    return Request(PULL, PULLED | changes)


def without(request: Request, *names: str) -> Request:
    """Leave out fields that 4.9.3 marks as required and does not need for this request."""
    left = {name: value for name, value in (request.fields or {}).items() if name not in names}
    return request._replace(fields=left)


def json_request(code: int, body: Any) -> Request:
    return Request(code, None, json.dumps(body).encode())


def heartbeat(client: str, group: str, topic: str, expression: str = "*") -> Request:
    subscription = {"topic": topic, "subString": expression, "subVersion": 1, "codeSet": []}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "BroadCasting" if client == "go" else "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription | {"tagsSet": [], "expressionType": "TAG"}],
    }
    return json_request(34, {"clientID": client, "consumerDataSet": [consumer]})


def cpp_heartbeat(client: str, group: str, topic: str) -> Request:
    """Write what a C++ consumer does: constants by their place, numbers as strings."""
    subscription = {"topic": topic, "subString": "A", "subVersion": "1", "codeSet": ["65"]}
    consumer = {
        "groupName": group,
        "consumeType": 1,
        "messageModel": 0,
        "consumeFromWhere": 4,
        "subscriptionDataSet": [subscription | {"tagsSet": ["A"]}],
    }
    return json_request(34, {"clientID": client, "consumerDataSet": [consumer]})


def locking(client: str, *queue_ids: int) -> dict[str, Any]:
    queues = [{"topic": "T", "brokerName": "broker-a", "queueId": x} for x in queue_ids]
    return {"consumerGroup": "cg", "clientId": client, "mqSet": queues}


SENDS = [
    Request(SEND, LONG_NAMES, b"long"),
    send(),
    send(e=99),
    send(b="a b"),
    send(b="x" * 127),
    send(b="x" * 128),
    send(b=""),
    send(b="TBW102"),
    send(b="SCHEDULE_TOPIC_XXXX"),
    send(b="SELF_TEST_TOPIC"),
    send(b="no_default", c="nope"),
    send(b="from_cluster", c="DefaultCluster"),
    send(i=""),
    send(i="k\x01" + "x" * 32_760),
    send(b""),
    send(b"x" * (4 << 20)),
    send(part(b"one") + part(b"two", b"TAGS\x01x"), m="true", i=""),
    send(part(b"1", b"KEYS\x01k\x02") * 3, m="true", b="batched"),
    send(part(b"x"), m="true", i="DELAY\x011"),
    send(b="%RETRY%gg", j=16),
    send(b="%RETRY%gg", j=1, l=1),
    send(g=-5, h=7),
    without(send(), "c"),
    without(Request(SEND, LONG_NAMES), "producerGroup", "defaultTopic", "defaultTopicQueueNums"),
]
OFFSETS = [
    *(Request(x, {"topic": "T", "queueId": 0}) for x in (30, 31)),
    *(Request(x, {"topic": "unknown", "queueId": 7}) for x in (30, 31, 32)),
    *(Request(29, {"topic": "T", "queueId": 0, "timestamp": x}) for x in (0, -1, 1 << 42)),
    Request(29, {"topic": "unknown", "queueId": 0, "timestamp": 5}),
    Request(14, {"consumerGroup": "cg", "topic": "T", "queueId": 0}),
    Request(15, {"consumerGroup": "cg", "topic": "T", "queueId": 0, "commitOffset": 2}),
    Request(14, {"consumerGroup": "cg", "topic": "T", "queueId": 0}),
    Request(15, {"consumerGroup": "cg", "topic": "T", "queueId": 0, "commitOffset": -1}),
    Request(14, {"consumerGroup": "cg", "topic": "T", "queueId": 0}),
    Request(14, {"consumerGroup": "cg", "topic": "unknown", "queueId": 0}),
]
PULLS = [
    pull(),
    pull(queueOffset=1),
    pull(queueOffset=1000),
    pull(queueOffset=-1),
    pull(maxMsgNums=0),
    pull(maxMsgNums=1),
    pull(topic="unknown"),
    pull(queueId=9),
    pull(queueId=2, queueOffset=5),
    pull(queueId=1, sysFlag=6, suspendTimeoutMillis=300),
    pull(subscription="x || B"),
    pull(subscription="||"),
    pull(subscription="a > 1", expressionType="SQL92"),
    pull(topic="batched"),
    pull(topic="%DLQ%gg"),
    pull(sysFlag=0),  # without its heartbeat
    without(pull(), "commitOffset", "suspendTimeoutMillis", "subVersion"),
]
MEMBERS = [
    heartbeat("c1", "cg", "T"),
    heartbeat("go", "go_group", "T", "x"),
    pull(sysFlag=0, subscription=""),
    pull(sysFlag=0, subscription="", subVersion=9),
    pull(sysFlag=0, topic="batched"),
    cpp_heartbeat("cpp", "cpp_group", "T"),
    Request(203, {"consumerGroup": "cpp_group"}),
    Request(35, {"consumerGroup": "cpp_group"}),  # which client it is says the connection
    Request(38, {"consumerGroup": "cpp_group"}),
    heartbeat("c1", DOTTED, "T"),
    Request(38, {"consumerGroup": DOTTED}),
    pull(topic=f"%RETRY%{DOTTED}", consumerGroup=DOTTED),
    Request(15, DOTTED_PLACE | {"commitOffset": 0}),
    Request(14, DOTTED_PLACE),
    Request(30, DOTTED_PLACE),
    Request(34, None, b"{"),
    Request(34, None, b"{}"),
    Request(38, {"consumerGroup": "cg"}),
    Request(38, {"consumerGroup": "absent"}),
    Request(203, {"consumerGroup": "cg"}),
    Request(203, {"consumerGroup": "go_group"}),
    Request(203, {"consumerGroup": "absent"}),
    json_request(41, locking("c1", 0, 1)),
    json_request(41, locking("c2", 1, 2)),
    json_request(42, locking("c1", 1)),
    json_request(41, locking("c2", 1)),
    Request(35, {"clientID": "c1", "consumerGroup": "cg"}),
    Request(38, {"consumerGroup": "cg"}),
]
ADMINISTRATION = [
    Request(17, CREATED),
    Request(17, CREATED | {"topic": "a b"}),
    Request(17, CREATED | {"topic": "TBW102"}),
    Request(17, CREATED | {"topicFilterType": "XX"}),
    Request(17, CREATED | {"topic": "narrow", "readQueueNums": 2}),
    send(b="narrow", e=3),
    pull(topic="narrow", queueId=3),
    Request(17, CREATED | {"topic": "silent", "perm": 2}),
    pull(topic="silent"),
    Request(21),
    json_request(200, {"groupName": "few", "retryMaxTimes": 3}),
    json_request(200, {"groupName": "off", "consumeEnable": False}),
    pull(consumerGroup="off"),
    Request(200, None, b"{"),
    Request(202, {"topic": "batched"}),
    Request(202, {"topic": "unknown"}),
    Request(25, None, b"brokerPermission=4"),
    send(),
    Request(17, CREATED),
    Request(25, None, b"brokerPermission=6"),
    *(
        Request(321, {"topic": "batched", "queueId": 0, "index": x, "count": 2})
        for x in (0, 2, 1000)
    ),
    Request(321, {"topic": "batched", "queueId": 0, "count": 2, "consumerGroup": "cg"}),
    Request(9999),
    Request(302),
]
QUERIES = [
    Request(QUERY, {"topic": "batched", "key": "k", **WINDOW}),
    Request(QUERY, {"topic": "batched", "key": "k", **WINDOW, "maxNum": 1}),
    Request(QUERY, {"topic": "batched", "key": "absent", **WINDOW}),
    Request(VIEW, {"offset": 0}),
    Request(VIEW, {"offset": 1 << 40}),
    Request(SEND_BACK, SENT_BACK | {"delayLevel": -1}),
    Request(SEND_BACK, SENT_BACK | {"delayLevel": 0, "maxReconsumeTimes": 0}),
    Request(SEND_BACK, SENT_BACK | {"delayLevel": 0, "offset": 1 << 40}),
    Request(SEND_BACK, SENT_BACK | {"delayLevel": 1, "group": "never_seen"}),
    Request(SEND_BACK, SENT_BACK | {"delayLevel": -1, "group": DOTTED}),
]
AFTER = [pull(topic="%DLQ%cg"), pull(topic=f"%DLQ%{DOTTED}"), pull(topic="OFFSET_MOVED_EVENT")]
COMMITTED = {"consumerGroup": "cg", "topic": "batched", "queueId": 0}
CLONED = {"srcGroup": "cg", "destGroup": "clone", "topic": "batched", "offline": "true"}
DELETIONS = [
    Request(15, COMMITTED | {"commitOffset": 3}),
    Request(314, CLONED),
    Request(314, CLONED | {"topic": "unknown"}),
    Request(14, COMMITTED | {"consumerGroup": "clone"}),
    Request(43),
    Request(207, {"groupName": "clone", "removeOffset": "true"}),
    Request(207, {"groupName": "never"}),
    Request(207),
    Request(43),
    *(Request(215, {"topic": x}) for x in ("", "a b", "x" * 128, "TBW102", "broker-a", "never")),
    Request(215),
    Request(306),
    Request(215, {"topic": "batched"}),
    Request(21),
    Request(30, {"topic": "batched", "queueId": 0}),
    Request(202, {"topic": "batched"}),
    pull(topic="batched"),
    Request(14, COMMITTED),
    send(b="batched"),
    send(b="batched"),
    Request(316),
    Request(301, {"filterServerAddr": "127.0.0.1:9"}),
]
DELETED = [pull(topic="batched"), Request(30, {"topic": "batched", "queueId": 0})]
CLUSTER, READ = "DefaultCluster", {"topic": "T", "group": "cg"}
COUNTED = {
    "TOPIC_PUT_NUMS": ("T", "batched", "silent", "SCHEDULE_TOPIC_XXXX", "%RETRY%cg", "unknown"),
    "TOPIC_PUT_SIZE": ("T", "batched", "unknown"),
    "GROUP_GET_NUMS": ("T@cg", "batched@cg", f"%RETRY%{DOTTED}@{DOTTED}", "T@unknown", "T"),
    "GROUP_GET_SIZE": ("T@cg",),
    "GROUP_GET_LATENCY": ("0@T@cg", "T@cg"),
    "QUEUE_GET_NUMS": ("T@0@cg",),
    "QUEUE_PUT_NUMS": ("T@0", "SCHEDULE_TOPIC_XXXX@0"),
    "SNDBCK_PUT_NUMS": ("T@cg", "%RETRY%cg@cg", "T@never_seen"),
    "BROKER_PUT_NUMS": (CLUSTER, "broker-a"),
    "BROKER_GET_NUMS": (CLUSTER,),
    "BROKER_GET_FROM_DISK_NUMS": (CLUSTER,),
    "GROUP_GET_FALL_SIZE": ("0@T@cg",),
    "GROUP_GET_FALL_TIME": ("0@T@cg",),
    "COMMERCIAL_SEND_TIMES": ("T@cg",),
    "unknown": ("T",),
}
# Queue 3 has a message, and the topic fewer read queues: ours shows it, as differences.md says.
HIDDEN_SHOWN = Request(208, {"consumerGroup": "cg", "topic": "narrow"})
STATISTICS = [
    Request(28),
    Request(28, {"unused": 1}),
    *(
        Request(208, {"consumerGroup": group, **topic})
        for group in ("cg", DOTTED, "go_group", "cpp_group", "unknown")
        for topic in ({}, {"topic": ""}, {"topic": "T"}, {"topic": "batched"}, {"topic": "unknown"})
    ),
    Request(208, {}),
    HIDDEN_SHOWN,
    *(Request(300, {"topic": x}) for x in ("T", "batched", "unknown", "", f"%RETRY%{DOTTED}")),
    Request(300),
    Request(303, READ),
    *(Request(303, READ | {"topic": x}) for x in ("batched", "narrow", "created", "unknown", "")),
    *(Request(303, READ | {"group": x}) for x in ("unknown", "cpp_group", "")),
    Request(15, {"consumerGroup": "third", "topic": "T", "queueId": 0, "commitOffset": 5}),
    Request(303, READ | {"group": "third"}),
    Request(303, {"topic": "T"}),
    Request(305),
    Request(15, {"consumerGroup": "second", "topic": "T", "queueId": 0, "commitOffset": 1}),
    *(Request(308, {"compareGroup": x, "topic": "T"}) for x in ("cg", "second", "third", "none")),
    Request(308, {"compareGroup": "cg", "topic": "unknown"}),
    Request(308, {"compareGroup": "cg"}),
    Request(308, {"topic": "T"}),
    Request(308, {"compareGroup": "none", "topic": "T", "filterGroups": "second, none,"}),
    Request(208, {"consumerGroup": "second"}),
    *(
        Request(315, {"statsName": name, "statsKey": key})
        for name, keys in COUNTED.items()
        for key in keys
    ),
    Request(315, {"statsName": "TOPIC_PUT_NUMS"}),
    *(Request(317, {"isOrder": x}) for x in ("false", "true")),
    Request(317, {}),
]
ABSENT = {"topic": "T", "group": "absent", "consumerGroup": "absent", "clientId": "x"}
REPLY = {"b": "DefaultCluster_REPLY_TOPIC", "i": "REPLY_TO_CLIENT\x01absent\x02CORRELATION_ID\x01c"}


def checking(expression: str, kind: str) -> Request:
    """Ask whether a subscription could be registered."""
    subscription: dict[str, Any] = {"topic": "T", "subString": expression, "expressionType": kind}
    subscription |= {"tagsSet": [], "codeSet": [], "subVersion": 1}
    return json_request(46, {"clientId": "c", "group": "g", "subscriptionData": subscription})


REST = [
    Request(45),
    checking("*", "TAG"),
    checking("a > 1", "SQL92"),
    checking("a >", "SQL92"),
    Request(46),
    Request(201),
    Request(204, {"producerGroup": "absent"}),
    Request(222, ABSENT | {"timestamp": 0, "isForce": "true"}),
    Request(222, ABSENT | {"timestamp": 0, "isForce": "true", "topic": "unknown"}),
    Request(223, ABSENT),
    Request(307, ABSENT | {"jstackEnable": "false"}),
    Request(307, {"consumerGroup": "absent"}),
    Request(309, ABSENT | {"msgId": "7F00000100002A9F0000000000000000"}),
    Request(324, LONG_NAMES | {"topic": REPLY["b"], "properties": REPLY["i"]}, b"reply"),
    Request(325, LETTERS | REPLY, b"reply"),
    Request(325, LETTERS | REPLY | {"i": ""}, b"reply"),
    *(Request(x) for x in (13, 22, 23, 27, 209, 210, 211, 212, 213, 214)),
]
ACTS = [
    *(SENDS, OFFSETS, PULLS, MEMBERS, ADMINISTRATION, QUERIES, AFTER, STATISTICS),
    *(DELETIONS, DELETED, REST),
]

# Of mqadmin. The group live is online, and idle has an offset.
COMMANDS = (
    "brokerStatus -b {broker}",
    "brokerConsumeStats -b {broker}",
    "consumerProgress",
    "consumerProgress -g idle",
    "consumerProgress -g live",
    "consumerStatus -g live -i {client}",
    "statsAll",
    "statsAll -a -t live",
    "topicStatus -t shown",
    "queryMsgById -i {message_id}",
)

# Of bodies and header fields: times, and what a client's own port is in.
MASKED = {
    *("timestamp", "lastUpdateTimestamp", "indexLastUpdateTimestamp"),
    *("clientAddr", "counter", "version"),
}
# Times and rates of which the type and the sign are compared.
MEASURED = {
    *("lastTimestamp", "minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime"),
    *("sum", "tps", "avgpt", "consumeTps"),
}
# Of code 28, where docs/differences.md has the reasons.
OURS_ALONE = ("getTransferredTps", "wakelogVersion", "wakelog.")
OTHERWISE = {"putMessageDistributeTime", "earliestMessageTimeStamp"}
RATE = r"(\d+\.\d+)?"
# The names of what differs between two runs, and the form of the value.
FORMS = {
    "bootTimestamp|.*TimeMax": r"\d+",
    "runtime": r"\[ \d+ days, \d+ hours, \d+ minutes, \d+ seconds \]",
    ".*Tps": f"{RATE} {RATE} {RATE}",
    "remainHowManyDataToFlush": r"\d+ B|\d+\.\d [KM]iB",
    ".*DiskRatio.*": r"0\.\d+|1\.0",
    "commitLogDirCapacity": r"Total : \d+\.\d [GT]iB, Free : \d+\.\d [MGT]iB\.",
}
RUNTIME_INFO, NOT_SUPPORTED = 28, 3
MESSAGE_BODIES = "/tmp/rocketmq/msgbodys/"  # where queryMsgById writes
NO_REMARK = "not set any response code"  # of successes of codes 17 and 321


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    """Start a broker of each kind."""
    starters: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
    with ExitStack() as stack:
        starts = {kind: start(tmp_path_factory.mktemp(kind)) for kind, start in starters.items()}
        yield {kind: stack.enter_context(cluster) for kind, cluster in starts.items()}


def test_both_brokers_give_the_same_answers(both: dict[str, Cluster]) -> None:
    theirs, ours = (play(both[kind].broker) for kind in ("real", "wakelog"))
    for request, said, expected in zip((x for act in ACTS for x in act), ours, theirs, strict=True):
        if "Exception" in said.remark + expected.remark:
            said, expected = (answer._replace(remark="") for answer in (said, expected))
        if request == HIDDEN_SHOWN:
            theirs_of, ours_of = expected.body["offsetTable"], said.body["offsetTable"]
            hidden = ours_of.keys() - theirs_of.keys()
            assert [dict(queue)["queueId"] for queue in hidden] == [3]
            said.body["offsetTable"] = {queue: ours_of[queue] for queue in theirs_of}
        assert said == expected, request


@pytest.mark.long
def test_mqadmin_prints_the_same_of_both_brokers(both: dict[str, Cluster]) -> None:
    theirs, ours = (print_all(both[kind]) for kind in ("real", "wakelog"))
    different = {x: (ours[x], theirs[x]) for x in COMMANDS if ours[x] != theirs[x]}
    assert not different, json.dumps(different, indent=1)


def test_codes_of_later_versions_are_unknown_to_4_9_3(both: dict[str, Cluster]) -> None:
    asked = {328: None, 351: {"topic": "TBW102"}, 352: {"group": "TOOLS_CONSUMER"}}
    said = {}
    for kind, cluster in both.items():
        with RawConnection(cluster.broker) as connection:
            said[kind] = {code: connection.ask(code, fields) for code, fields in asked.items()}
    for code in asked:
        theirs, ours = said["real"][code], said["wakelog"][code]
        assert theirs.code == NOT_SUPPORTED
        assert theirs.header["remark"] == f" request type {code} not supported"
        assert ours.code == 0 and ours.body


def print_all(cluster: Cluster) -> dict[str, list[str] | str]:
    """Run every command; return its lines without numbers, or its error."""
    place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 0}
    progress = [("idle", "shown", 1), ("live", "live", 1), ("live", "%RETRY%live", 0)]
    with JavaDriver(cluster.name_server) as driver, RawConnection(cluster.broker) as connection:
        for topic in ("shown", "live"):
            driver("createTopic", address=cluster.broker, topic=topic, queues=1)
        sent = driver("send", group="g", messages=[message("shown", **place)] * 3)
        driver("consume", name="live", group="live", topics=["live"])
        driver("send", group="g", messages=[message("live", **place)])
        driver("consumed", name="live", count=1, timeoutMs=20_000)
        for group, topic, offset in progress:  # a client commits only every 5 s
            fields = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
            assert connection.ask(15, fields).code == 0
        [client] = driver("consumers", group="live")["connectionSet"]
        names = {
            "broker": cluster.broker,
            "client": client["clientId"],
            "message_id": sent[0]["offsetMsgId"],
        }
        return {line: printed(driver, line.format_map(names), cluster) for line in COMMANDS}


def printed(driver: JavaDriver, line: str, cluster: Cluster) -> list[str] | str:
    command, *words = line.split()
    try:
        text = str(driver("mqadmin", command=command, words=words))
    except DriverError as error:
        return str(error)
    for path in re.findall(rf"{MESSAGE_BODIES}\w+", text):
        Path(path).unlink(missing_ok=True)
    text = re.sub(r"\b[0-9A-F]{16,}\b", "ID", text.replace(str(cluster.store), "STORE"))
    text = re.sub(r"\$\$Lambda\S+|@[0-9a-f]+\b", "OBJECT", text)
    text = re.sub(r", none of the brokers.*", "", text)  # what our name server adds
    text = re.sub(r"\d+(\.\d+)?( ?([KMGT]i)?B\b)?", "0", text)
    apart: tuple[str, ...] = (*OURS_ALONE, *OTHERWISE)
    # A client knows of its retry queue once it has asked for that route again, after 30 s at most.
    apart += ("%RETRY%live broker-a",) if command == "consumerStatus" else ()
    lines = (" ".join(each.split()) for each in text.splitlines())
    return sorted(x for x in lines if x and not x.startswith(apart) and "Tps" not in x)


class Answer(NamedTuple):
    """What is compared."""

    code: int
    remark: str
    fields: Any
    body: Any


def play(address: str) -> list[Answer]:
    """Send every request; before each act, what the last one sent can be read."""
    found = []
    with RawConnection(address, language="JAVA", version=399) as connection:
        for number, act in enumerate(ACTS):
            settle(connection, f"act{number}")
            if act is AFTER:  # QUERIES send one back with level 1, which is due after a second
                wait_until(lambda: b"1:" in connection.ask(45).body, what="delivered")
            for request in act:
                frame = connection.ask(*request)
                found.append(answered(request, frame, int(address.rpartition(":")[2])))
    return found


def settle(connection: RawConnection, key: str) -> None:
    """Send a message with a key and wait for it: it is the last to be in queue and index."""
    assert connection.ask(*send(b="marker", i=f"KEYS\x01{key}")).code == 0
    kept = Request(QUERY, {"topic": "marker", "key": key, **WINDOW})
    wait_until(lambda: connection.ask(*kept).code == 0, what="indexed")


def answered(request: Request, frame: Frame, port: int) -> Answer:
    """Take out of an answer what differs between two runs."""
    remark = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", frame.header.get("remark") or "")
    if frame.code == NOT_SUPPORTED:
        remark = remark.partition(":")[0]  # ours goes on
    fields = json.loads(without_port(json.dumps(frame.fields).encode(), port))
    body: Any = None
    if request.code in RECORDS:
        body = [without_port(record, port) for record in records(frame.body)]
    elif frame.body:
        body = mask(fastjson.loads(without_port(frame.body, port)))
    if request.code == RUNTIME_INFO:
        pairs = (x for x in body["table"].items() if not x[0].startswith(OURS_ALONE))
        body = dict(formed(*pair) for pair in pairs)
    return Answer(frame.code, "" if remark == NO_REMARK else remark, mask(fields), body)


def formed(name: str, value: str) -> tuple[str, str]:
    """Return a name and a value of the runtime information, without what differs."""
    form = next((form for names, form in FORMS.items() if re.fullmatch(names, name)), None)
    if form is not None:
        assert re.fullmatch(form, value), (name, value)
    is_masked = form is not None or name in OTHERWISE
    return re.sub("_/.*", "_PATH", name), "masked" if is_masked else value


def without_port(data: bytes, port: int) -> bytes:
    """Replace the broker's port, as text and as in message ids."""
    return data.replace(b"%08X" % port, b"PORT").replace(b"%d" % port, b"PORT")


def records(body: bytes) -> Iterator[bytes]:
    """Part a body into records, without what differs between two brokers and two runs."""
    position = 0
    while position < len(body):
        [size] = struct.unpack_from(">I", body, position)
        record = bytearray(body[position : position + size])
        for place, length in ((BORN_TIME, 8), (BORN_PORT, 4), (STORE_TIME, 8), (STORE_PORT, 4)):
            record[place : place + length] = bytes(length)
        yield bytes(record)
        position += size


def masked(key: Any, value: Any) -> Any:
    """Return what is compared of a member of an object."""
    if key in MEASURED:
        return type(value).__name__, value < 0
    if str(key).endswith("Str"):
        return value if value.startswith("19") else "after 2000"
    return "masked" if key in MASKED else value


def mask(value: Any) -> Any:
    """Take out what differs between two runs, and the order of what is a set there."""
    if isinstance(value, dict):
        return {key: masked(key, mask(x)) for key, x in value.items()}
    return sorted(map(mask, value), key=repr) if isinstance(value, list) else value
