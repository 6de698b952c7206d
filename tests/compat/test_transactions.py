"""Transactions, at 4.9.3's broker and at ours: the same answers, the same records in the log."""

import json
import struct
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.compat.frames import RawConnection
from tests.compat.test_broker_answers import (
    LETTERS,
    LONG_NAMES,
    PULLED,
    SEND,
    SEND_V2,
    VIEW,
    Request,
    part,
    records,
    send,
    without_port,
)
from tests.compat.together import all_entered, at_once

pytestmark = [pytest.mark.java, pytest.mark.slow]

END_TRANSACTION, CHECK, RESUME = 37, 39, 323
HEARTBEAT, UPDATE_CONFIG, PULL, CONSUMER_OFFSET = 34, 25, 11, 14
NOT, COMMIT, ROLLBACK = 0, 8, 12
MAX_OFFSET = 30
GROUP = "tx_group"
PROPERTIES = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02TAGS\x01t\x02UNIQ_KEY\x01K\x02WAIT\x01true"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    """Start a broker of each kind."""
    folder = tmp_path_factory.mktemp("transactions")
    starters: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
    settings = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000000"}
    with all_entered(
        {kind: start(folder / kind, settings=settings) for kind, start in starters.items()}
    ) as started:
        yield started


class Producer:
    """A producer by hand; it notes every answer, and the places of the records it knows of."""

    def __init__(self, connection: RawConnection, port: int) -> None:
        self._connection = connection
        self._port = port
        self.answers: list[tuple[int, str | None, dict[str, str]]] = []

    def ask(self, code: int, fields: dict[str, Any], body: bytes = b"") -> dict[str, str]:
        frame = self._connection.ask(code, fields, body)
        said = {
            name: without_port(value.encode(), self._port).decode()
            for name, value in frame.fields.items()
        }
        self.answers.append((frame.code, frame.header.get("remark"), said))
        return frame.fields

    def send_half(self, body: bytes, **letters: Any) -> dict[str, Any]:
        """Send a half message; return the header that commits it."""
        changes = {"i": PROPERTIES, "f": 4, "e": 2, "g": time.time_ns() // 1_000_000} | letters
        sent = self.ask(SEND_V2, LETTERS | changes, body)
        return {
            "producerGroup": GROUP,
            "tranStateTableOffset": sent["queueOffset"],
            "commitLogOffset": int(sent["msgId"][16:], 16),
            "commitOrRollback": COMMIT,
            "fromTransactionCheck": "false",
            "msgId": "K",
        }

    def end(self, fields: dict[str, Any], **changes: Any) -> None:
        self.ask(END_TRANSACTION, fields | changes)

    def read_log(self) -> list[bytes]:
        """Return the records of the log, from the first one on."""
        found: list[bytes] = []
        position = 0
        while (frame := self._connection.ask(VIEW, {"offset": position})).code == 0:
            found += [without_port(record, self._port) for record in records(frame.body)]
            position += len(frame.body)
        return found


def play(cluster: Cluster) -> tuple[list[Any], list[bytes]]:
    """Begin and end transactions; return every answer, and every record."""
    port = int(cluster.broker.rpartition(":")[2])
    with RawConnection(cluster.broker, language="JAVA", version=399) as connection:
        producer = Producer(connection, port)
        committed = producer.send_half(b"committed")
        producer.end(committed, producerGroup="another")
        producer.end(committed, tranStateTableOffset=7)
        producer.end(committed, commitLogOffset=1 << 40)
        producer.end(committed, commitOrRollback=4)
        producer.end(committed)
        rolled_back = producer.send_half(b"rolled back", i=PROPERTIES + "\x02A\x01b", h=9, j=3)
        producer.end(rolled_back, commitOrRollback=ROLLBACK)
        compressed = producer.send_half(b"compressed", f=5)
        producer.end(compressed, fromTransactionCheck="true")
        again = producer.send_half(b"checked again")
        message_id = f"7F000001{port:08X}{again['commitLogOffset']:016X}"
        producer.ask(RESUME, {"msgId": message_id})
        producer.ask(RESUME, {"msgId": "no id"})
        producer.ask(RESUME, {})
        ends = [
            {"topic": topic, "queueId": queue_id}
            for topic, queue_id in (
                ("RMQ_SYS_TRANS_HALF_TOPIC", 0),
                ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0),
                ("T", 2),
            )
        ]
        wait_until(
            lambda: connection.ask(MAX_OFFSET, ends[0]).fields["offset"] == "5", what="dispatched"
        )
        for place in ends:
            producer.ask(MAX_OFFSET, place)
        return producer.answers, producer.read_log()


def test_both_brokers_end_transactions_alike(both: Mapping[str, Cluster]) -> None:
    theirs, ours = at_once(*(partial(play, both[kind]) for kind in ("real", "wakelog")))
    without_remarks = {4, 13, 14}  # of Java's exceptions
    for number, (said, expected) in enumerate(zip(ours[0], theirs[0], strict=True)):
        hidden = number in without_remarks
        assert (said[0], hidden or said[1], said[2]) == (
            expected[0],
            hidden or expected[1],
            expected[2],
        ), number
    assert ours[1] == theirs[1]
    assert len(ours[1]) == 4 + 1 + 2 + 3


# In a record with IPv4 hosts: what depends on which round of the check it was.
QUEUE_OFFSET, PHYSICAL_OFFSET, PREPARED_OFFSET = 20, 28, 76


def without_offsets(record: bytes) -> bytes:
    masked = bytearray(record)
    for place in (QUEUE_OFFSET, PHYSICAL_OFFSET, PREPARED_OFFSET):
        masked[place : place + 8] = bytes(8)
    return bytes(masked)


def play_check(cluster: Cluster) -> dict[str, Any]:
    """Leave a transaction open, be asked about it, and commit it; let others be given up."""
    port = int(cluster.broker.rpartition(":")[2])
    with RawConnection(cluster.broker, language="JAVA", version=399) as connection:
        beat = {"clientID": "p", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        assert connection.ask(HEARTBEAT, {}, json.dumps(beat).encode()).code == 0
        producer = Producer(connection, port)
        producer.send_half(b"asked", b="T2")
        assert connection.ask(UPDATE_CONFIG, {}, b"transactionTimeOut=500").code == 0
        while b"asked" not in (question := connection.wait_pushed(CHECK)).body:
            pass
        fields = question.fields
        answer = {
            "producerGroup": GROUP,
            "tranStateTableOffset": fields["tranStateTableOffset"],
            "commitLogOffset": fields["commitLogOffset"],
            "commitOrRollback": COMMIT,
            "fromTransactionCheck": "true",
            "msgId": fields["msgId"],
            "transactionId": fields["transactionId"],
        }
        producer.end(answer)
        place = {"topic": "T2", "queueId": 2}
        wait_until(
            lambda: connection.ask(MAX_OFFSET, place).fields["offset"] == "1", what="committed"
        )
        pulled = connection.ask(PULL, PULLED | place)
        given_up = {"topic": "TRANS_CHECK_MAX_TIME_TOPIC", "queueId": 0}
        assert connection.ask(UPDATE_CONFIG, {}, b"transactionCheckMax=2").code == 0
        wait_until(
            lambda: connection.ask(MAX_OFFSET, given_up).fields["offset"] == "2", what="given up"
        )
        half = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0}
        group = {"consumerGroup": "CID_RMQ_SYS_TRANS"}
        wait_until(
            lambda: (
                connection.ask(CONSUMER_OFFSET, half | group).fields.get("offset")
                == connection.ask(MAX_OFFSET, half).fields["offset"]
            ),
            what="passed",
        )
        return {
            "question": (question.header["flag"], sorted(fields), fields["msgId"]),
            "asked": [without_offsets(without_port(one, port)) for one in records(question.body)],
            "answered": producer.answers[-1],
            "committed": [without_offsets(without_port(r, port)) for r in records(pulled.body)],
            "given up": [
                without_offsets(without_port(one, port))
                for one in records(connection.ask(PULL, PULLED | given_up).body)
            ],
        }


def test_both_brokers_ask_about_open_transactions_alike(both: Mapping[str, Cluster]) -> None:
    """It is the transactions that the test before has left open that are given up."""
    theirs, ours = at_once(*(partial(play_check, both[kind]) for kind in ("real", "wakelog")))
    assert ours == theirs
    assert len(ours["asked"]) == len(ours["committed"]) == 1
    assert len(ours["given up"]) == 2


def play_java(cluster: Cluster) -> list[tuple[str, bytes, int]]:
    """Have the Java client end three transactions; return what consumers get."""
    ends = [("COMMIT_MESSAGE", ""), ("ROLLBACK_MESSAGE", ""), ("UNKNOW", "COMMIT_MESSAGE")]
    ends += [("UNKNOW", "ROLLBACK_MESSAGE")]
    with JavaDriver(cluster.name_server) as driver:
        driver("createTopic", address=cluster.broker, topic="J", queues=1)
        messages = [
            message(
                "J", f"{local} {checked}".encode(), properties={"local": local, "checked": checked}
            )
            for local, checked in ends
        ]
        sent = driver("sendInTransaction", group="java_group", messages=messages)
        place: dict[str, Any] = {"broker": cluster.broker_name, "queueId": 0, "topic": "J"}
        wait_until(lambda: driver("maxOffset", **place) == 2, what="committed")
        pulled = driver("pull", offset=0, countMax=32, **place)["messages"]
        ids = [result["msgId"] for result in sent]
        return [
            (sent[ids.index(one["msgId"])]["status"], body, one["sysFlag"])
            for one, body in zip(pulled, bodies(pulled), strict=True)
        ]


def test_the_java_client_ends_transactions_at_both(both: Mapping[str, Cluster]) -> None:
    theirs, ours = at_once(*(partial(play_java, both[kind]) for kind in ("real", "wakelog")))
    assert ours == theirs
    assert [body for _, body, _ in ours] == [b"COMMIT_MESSAGE ", b"UNKNOW COMMIT_MESSAGE"]


BODY_LENGTH = 84
IMMUNITY_SECONDS = 6


def properties_of(record: bytes) -> dict[str, str]:
    """Return the properties of a record with IPv4 hosts."""
    [body_length] = struct.unpack_from(">I", record, BODY_LENGTH)
    place = BODY_LENGTH + 4 + body_length
    text = record[place + 1 + record[place] + 2 :].decode()
    return dict(pair.split("\x01") for pair in text.split("\x02") if pair)


def play_immunity(cluster: Cluster) -> dict[str, Any]:
    """Send two half messages with a time of their own, and commit one; see who is asked about."""
    half_place = {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": 0}
    group = half_place | {"consumerGroup": "CID_RMQ_SYS_TRANS"}
    text = f"{PROPERTIES}\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01{IMMUNITY_SECONDS}"
    with RawConnection(cluster.broker, language="JAVA", version=399) as connection:
        beat = {"clientID": "i", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        assert connection.ask(HEARTBEAT, {}, json.dumps(beat).encode()).code == 0
        config = b"transactionTimeOut=1000000\ntransactionCheckMax=15"
        assert connection.ask(UPDATE_CONFIG, {}, config).code == 0
        producer = Producer(connection, 0)
        committed = producer.send_half(b"ended", i=text, b="T3")
        left_open = producer.send_half(b"open", i=text, b="T3")
        passed = int(left_open["tranStateTableOffset"]) + 1
        wait_until(
            lambda: int(connection.ask(CONSUMER_OFFSET, group).fields["offset"]) >= passed,
            what="renewed",
        )
        producer.end(committed)
        question = connection.wait_pushed(CHECK)
        asked = {}
        while b"open" not in question.body:
            asked["ended"] = question
            question = connection.wait_pushed(CHECK)
        [record] = records(question.body)
        properties = properties_of(record)
        assert int(properties.pop("TRANSACTION_CHECK_TIMES")) > 0
        first = properties.pop("TRAN_PREPARED_QUEUE_OFFSET")
        assert first == left_open["tranStateTableOffset"]
        producer.end(left_open | {"commitOrRollback": ROLLBACK})
        return {"open": properties, "others": list(asked)}


@pytest.mark.long
def test_both_brokers_renew_half_messages_that_have_a_time_of_their_own(
    both: Mapping[str, Cluster],
) -> None:
    """4.9.3 forgets that a renewed one was ended; it asks unless it reads the end in that round."""
    theirs, ours = at_once(*(partial(play_immunity, both[kind]) for kind in ("real", "wakelog")))
    assert ours["open"] == theirs["open"]
    assert theirs["others"] in (["ended"], [])
    assert ours["others"] == []


CLOSED_TOPICS = (
    *("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
    "SCHEDULE_TOPIC_XXXX",
)


def test_sends_that_4_9_3_takes_into_the_topics_of_transactions(
    both: Mapping[str, Cluster],
) -> None:
    """It leaves 4.9.3's broker with messages that ours has not: it is the last test."""
    found = {kind: [send_to(both[kind].broker, x) for x in CLOSED_TOPICS] for kind in both}
    assert found["wakelog"] == [{16}] * len(CLOSED_TOPICS)
    assert found["real"] == [{0}] * 3 + [{16}]


def send_to(address: str, topic: str) -> set[int]:
    """Return the codes that each way to send is answered."""
    sends = [
        Request(SEND, LONG_NAMES | {"topic": topic}, b"body"),
        send(b=topic),
        send(part(b"one"), b=topic, m="true", i=""),
        send(b=topic, i="DELAY\x011"),
        send(b=topic, f=4, i=PROPERTIES),
    ]
    with RawConnection(address, language="JAVA", version=399) as connection:
        return {connection.ask(*each).code for each in sends}
