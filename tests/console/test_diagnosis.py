"""What is said of a group that does not consume, and of one that does."""

from typing import Any

import pytest

from wakelog.console.cluster_reading import GroupReading
from wakelog.console.diagnosis import client_findings, diagnosis, old_findings, stuck_findings
from wakelog.console.findings import BROADCASTING
from wakelog.console.rules import ANSWERS, OK, PROBLEM, RULES, WARNING
from wakelog.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue

NOW_MS = 1_000_000_000
QUEUE = MessageQueue("T", "b", 0)
ONLINE = ConsumerConnection([Connection("c1")])


def subscriber(
    expression: str = "*", *, starts_ms: int = 0, is_ordered: bool = False, **process: bool | int
) -> ConsumerRunningInfo:
    subscriptions = [
        SubscriptionData(topic="T", sub_string=expression),
        SubscriptionData(topic="%RETRY%g", sub_string="*"),
    ]
    push = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}
    if starts_ms:
        push["PROP_CONSUMER_START_TIMESTAMP"] = str(starts_ms)
    if is_ordered:
        push["PROP_CONSUMEORDERLY"] = "true"
    return ConsumerRunningInfo(push, subscriptions, {QUEUE: process})


def said(group: GroupReading, topic: str | None = None) -> list[tuple[str, str]]:
    return [(x.verdict, x.found) for x in diagnosis("g", group, NOW_MS, topic)]


def test_a_group_that_consumes_is_said_to_be_fine() -> None:
    group = GroupReading([SubscriptionGroupConfig("g")], clients=ONLINE)
    group.members["c1"] = subscriber()
    assert said(group) == [(OK, "1 client subscribes"), (OK, "lags by 0")]


def test_each_thing_in_the_way_is_said() -> None:
    group = GroupReading([SubscriptionGroupConfig("g", False)], clients=ConsumerConnection())
    found = said(group)
    assert found[0] == (PROBLEM, "may not consume (consumeEnable=false)")
    assert found[1] == (PROBLEM, "no client is online")
    assert said(GroupReading(clients=ONLINE))[0] == (WARNING, "no broker knows it")


def test_members_that_were_not_asked_are_counted() -> None:
    group = GroupReading([SubscriptionGroupConfig("g")], clients=ONLINE)
    assert said(group) == [(OK, "1 client is online"), (OK, "lags by 0")]


def test_members_that_are_not_known_are_not_called_offline() -> None:
    group = GroupReading([SubscriptionGroupConfig("g")])
    assert said(group) == [(OK, "lags by 0")]


def test_subscriptions_that_differ_are_named() -> None:
    clients = {"c1": subscriber("paid"), "c2": subscriber("*")}
    [found] = client_findings("g", clients, None, NOW_MS)
    assert found.verdict == PROBLEM
    assert found.found == "subscriptions differ: c1 subscribes to T@paid; c2 subscribes to T@*"
    alike = list(client_findings("g", {"c1": subscriber("*")}, "U", NOW_MS))
    assert [x.verdict for x in alike] == [OK, PROBLEM]
    assert alike[1].found == "no client subscribes to U"


def test_a_queue_of_no_client_is_found_once_all_have_answered() -> None:
    stats = ConsumeStats({MessageQueue("T", "b", 1): OffsetWrapper(9, 4, NOW_MS - 3_600_000)})
    group = GroupReading([SubscriptionGroupConfig("g")], stats, ONLINE)
    group.members["c1"] = subscriber()
    found = [text for verdict, text in said(group) if verdict != OK]
    assert found == ["queue 1 of T at b lags by 5 and no client has it"]
    group.clients = ConsumerConnection([Connection("c1"), Connection("c2")])
    [(_, text)] = [each for each in said(group) if each[0] != OK]
    assert text.startswith("queue 1 of T at b lags by 5, at a message of ")


def test_a_group_that_broadcasts_has_no_lag() -> None:
    clients = ConsumerConnection([Connection("c1")], message_model=BROADCASTING)
    stats = ConsumeStats({QUEUE: OffsetWrapper(9, 4, 1)})
    group = GroupReading([SubscriptionGroupConfig("g")], stats, clients)
    assert said(group)[-1] == (OK, "each client consumes all messages, and keeps its own offsets")


@pytest.mark.parametrize(
    ("info", "found"),
    [
        (
            subscriber(cachedMsgCount=3, lastConsumeTimestamp=NOW_MS - 120_000),
            "c1 has consumed nothing of queue 0 of T at b for 120 s, and has 3 of its messages",
        ),
        (
            subscriber(starts_ms=NOW_MS - 90_000, cachedMsgCount=3),
            "c1 has consumed nothing of queue 0 of T at b for 90 s, and has 3 of its messages",
        ),
        (
            subscriber(is_ordered=True, lastLockTimestamp=NOW_MS - 61_000),
            "c1 consumes in order, and has not got the lock of queue 0 of T at b for 61 s",
        ),
    ],
)
def test_a_queue_that_is_stuck_is_found(info: ConsumerRunningInfo, found: str) -> None:
    [finding] = stuck_findings("group g", "c1", info, NOW_MS)
    assert (finding.verdict, finding.found) == (PROBLEM, found)


@pytest.mark.parametrize(
    "info",
    [
        subscriber(cachedMsgCount=0, lastConsumeTimestamp=1),
        subscriber(cachedMsgCount=3, lastConsumeTimestamp=NOW_MS - 50_000),
        subscriber(cachedMsgCount=3),  # since when is not known
        subscriber(is_ordered=True, locked=True, lastLockTimestamp=1),
        subscriber(is_ordered=True, lastLockTimestamp=NOW_MS - 50_000),
        ConsumerRunningInfo({}, [], {QUEUE: {"cachedMsgCount": 3, "lastConsumeTimestamp": 1}}),
    ],
)
def test_a_queue_that_goes_on_is_not_called_stuck(info: ConsumerRunningInfo) -> None:
    assert list(stuck_findings("group g", "c1", info, NOW_MS)) == []


def test_a_lock_that_is_held_without_consuming_is_found() -> None:
    def complaints(**more: bool | int) -> list[str]:
        process: dict[str, Any] = {
            "cachedMsgCount": 3,
            "lastConsumeTimestamp": NOW_MS - 120_000,
            "locked": True,
        }
        info = subscriber(is_ordered=True, **{**process, **more})
        found = client_findings("g", {"c1": info}, None, NOW_MS)
        return [each.found for each in found if each.verdict == PROBLEM]

    [found] = complaints()
    assert found == (
        "c1 holds the lock of queue 0 of T at b, and has consumed nothing of its 3 "
        "messages for 120 s"
    )
    assert complaints(lastConsumeTimestamp=NOW_MS - 50_000) == []
    assert complaints(cachedMsgCount=0) == []


def test_an_old_message_alone_is_no_lag() -> None:
    old = ConsumeStats({QUEUE: OffsetWrapper(9, 9, 1)})
    assert list(old_findings("group g", old, NOW_MS)) == []


def test_every_answer_has_a_remedy() -> None:
    for rule in ANSWERS.values():
        assert rule.verdict in (PROBLEM, WARNING)
        assert rule.remedy and not rule.remedy.endswith(".")
    assert not ANSWERS.keys() & RULES.keys()
