"""What a slave answers: a real one and a wakelog one of the same real master, code by code.

Check 12, and check 9 beside it: the tables that either has copied.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.actors.replicas import (
    SLAVE,
    SMALL,
    TOPIC,
    ask,
    commit,
    committed,
    log_end,
    send,
    topics,
    wait_until,
    wakelog_up,
)
from tests.compat.real_rocketmq import RealBroker, RealNameServer
from tests.compat.test_broker_answers import LETTERS, PULLED, heartbeat, part
from wakelog.protocol import fastjson

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(300),
]

COUNT = 5


class Asked(NamedTuple):
    """A request, and which fields of the answer have to be alike."""

    code: int
    fields: Mapping[str, Any] = MappingProxyType({})
    body: bytes = b""
    compared: tuple[str, ...] = ()
    bodies: bool = False


OF_QUEUE = {"topic": TOPIC, "queueId": 0}
OF_GROUP = {"consumerGroup": "group", **OF_QUEUE}
PULL = {
    **PULLED,
    "topic": TOPIC,
    "consumerGroup": "group",
    "queueId": 0,
    "sysFlag": 4,
    "suspendTimeoutMillis": 0,
    "subscription": "*",
}
ENDED = {
    "producerGroup": "p",
    "tranStateTableOffset": 0,
    "commitLogOffset": 0,
    "commitOrRollback": 8,
    "fromTransactionCheck": "false",
    "msgId": "x",
    "transactionId": "y",
}
PULL_FIELDS = ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")
PLAY = [
    Asked(310, {**LETTERS, "b": TOPIC}, b"body"),
    Asked(10, {"producerGroup": "p", **OF_QUEUE, "defaultTopic": "TBW102"}, b"body"),
    Asked(320, {**LETTERS, "b": TOPIC, "m": "true"}, part(b"body")),
    Asked(37, ENDED),
    Asked(36, {"offset": 0, "group": "group", "originMsgId": "x", "delayLevel": 0}),
    *(
        Asked(11, {**PULL, "queueOffset": offset}, compared=PULL_FIELDS, bodies=True)
        for offset in (0, COUNT - 1, COUNT, COUNT + 1, 1_000_000)
    ),
    Asked(11, {**PULL, "topic": "unknown", "queueOffset": 0}),
    Asked(11, {**PULL, "queueId": 9, "queueOffset": 0}),
    Asked(14, OF_GROUP, compared=("offset",)),
    Asked(14, {**OF_GROUP, "consumerGroup": "unknown"}, compared=("offset",)),
    Asked(30, OF_QUEUE, compared=("offset",)),
    Asked(31, OF_QUEUE, compared=("offset",)),
    Asked(32, OF_QUEUE, compared=("timestamp",)),
    Asked(29, {**OF_QUEUE, "timestamp": 0}, compared=("offset",)),
    Asked(33, {"offset": 0}, bodies=True),
    Asked(33, {"offset": 7}),
    Asked(12, {"topic": TOPIC, "key": "no", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}),
    Asked(34, {}, heartbeat("c", "group", TOPIC).body),
    Asked(41, {}, b'{"consumerGroup":"group","clientId":"c","mqSet":[]}'),
    Asked(21),
    Asked(43, bodies=True),
    Asked(45, bodies=True),
    Asked(201),
    Asked(15, {**OF_GROUP, "commitOffset": 3}),
    Asked(14, OF_GROUP, compared=("offset",)),
]


@pytest.fixture(scope="module")
def slaves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Run a real master with a slave of each kind, both level with it."""
    folder: Path = tmp_path_factory.mktemp("slaves")
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)

        def real(name: str, **settings: str) -> RealBroker:
            broker = RealBroker(
                folder / name,
                folder / f"{name}-store",
                name_server=name_server.address,
                settings={**SMALL, **settings},
            )
            broker.start()
            stack.callback(broker.kill)
            return broker

        master = real("master", brokerRole="ASYNC_MASTER")
        send(master.address, COUNT)
        assert commit(master.address, 2) == 0
        theirs = real("slave", **SLAVE)
        followed = {**SLAVE, "brokerId": "2", "namesrvAddr": name_server.address}
        started = stack.enter_context(wakelog_up(folder / "ours", followed))
        both = (theirs.address, started.cluster.broker)
        for address in both:
            wait_until(lambda a=address: log_end(a) == log_end(master.address), "copied")  # type: ignore[misc]
            wait_until(lambda a=address: committed(a) == "2", "tables copied")  # type: ignore[misc]
            wait_until(lambda a=address: TOPIC in topics(a), "topics copied")  # type: ignore[misc]
        yield both
        started.stop()


def answer(address: str, asked: Asked) -> tuple[Any, ...]:
    fields = {name: str(value) for name, value in asked.fields.items()}
    frame = ask(address, asked.code, fields, asked.body)
    body: Any = None
    if asked.bodies and frame.code == 0:
        is_json = asked.code in (43, 45)
        body = fastjson.loads(frame.body) if is_json else frame.body
    return (frame.code, *(frame.fields.get(name) for name in asked.compared), body)


def test_both_slaves_answer_alike(slaves: tuple[str, str]) -> None:
    theirs, ours = ([answer(address, asked) for asked in PLAY] for address in slaves)
    differences = [
        (asked, said, expected)
        for asked, said, expected in zip(PLAY, ours, theirs, strict=True)
        if said != expected
    ]
    assert differences == []
    assert {code for code, *_ in theirs} >= {0, 1, 11, 14, 17, 19, 20, 22}


def test_both_slaves_have_the_same_topics_and_groups(slaves: tuple[str, str]) -> None:
    for code, table in ((21, "topicConfigTable"), (201, "subscriptionGroupTable")):
        theirs, ours = (fastjson.loads(ask(each, code, {}).body)[table] for each in slaves)
        assert ours.items() >= theirs.items()
