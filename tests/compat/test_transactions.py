"""Transactions, at 4.9.3's broker and at ours: the same answers, the same records in the log."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import wait_until
from tests.compat.frames import RawConnection
from tests.compat.test_broker_answers import LETTERS, SEND_V2, VIEW, records, without_port
from tests.compat.together import all_entered, at_once

pytestmark = [pytest.mark.java, pytest.mark.slow]

END_TRANSACTION, RESUME = 37, 323
NOT, COMMIT, ROLLBACK = 0, 8, 12
MAX_OFFSET = 30
GROUP = "tx_group"
PROPERTIES = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02TAGS\x01t\x02UNIQ_KEY\x01K\x02WAIT\x01true"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    """Start a broker of each kind."""
    folder = tmp_path_factory.mktemp("transactions")
    starters: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
    with all_entered({kind: start(folder / kind) for kind, start in starters.items()}) as started:
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
        sent = self.ask(SEND_V2, LETTERS | {"i": PROPERTIES, "f": 4, "e": 2} | letters, body)
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
