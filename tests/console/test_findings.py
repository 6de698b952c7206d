"""The rules: for each a cluster about which it speaks, and one about which it is silent."""

import ast
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from wakelog.broker.replication.takeover import REFUSES_SENDS_VALUE
from wakelog.broker.trouble import NOTICE_PREFIX, Trouble, runtime_values
from wakelog.client.errors import ClientError
from wakelog.console import findings
from wakelog.console.findings import JUDGES, OF_ONE_RULE_MAX, find
from wakelog.console.history import History
from wakelog.console.rules import OK, PROBLEM, RULES, WARNING
from wakelog.console.snapshot import BrokerReading, GroupReading, Snapshot
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from wakelog.protocol.body_codec import MessageQueue

MINUTE_MS = 60_000
NOW_MS = 1_000 * MINUTE_MS
MIB = 1 << 20
QUEUE = MessageQueue("T", "a", 0)
Snapshots = tuple[Snapshot, ...]


def cluster(
    now_ms: int = NOW_MS,
    values: dict[str, str] | None = None,
    *,
    waiting: dict[str, str] | None = None,
    address: str = "10.0.0.5:10911",
    broker_id: int = 0,
    failure: ClientError | None = None,
    slave: dict[str, str] | None = None,
    letters: int = 0,
    **groups: GroupReading,
) -> Snapshot:
    """Return one broker, with a slave if it has values, and groups."""
    brokers = [
        BrokerReading(
            "c", "a", broker_id, address, values or {}, waiting=waiting or {}, failure=failure
        )
    ]
    if slave is not None:
        brokers.append(BrokerReading("c", "a", 1, "10.0.0.6:10911", slave))
    info = ClusterInfo({"a": BrokerData("c", "a", {x.broker_id: x.address for x in brokers})})
    return Snapshot(now_ms, info, "10.0.0.4:9876", brokers, groups, {"g": letters})


def group(
    lag: int = 0,
    *,
    clients: int = 1,
    consumed: int = 5,
    last_ms: int = NOW_MS,
    enabled: bool = True,
    model: str = "CLUSTERING",
    members: dict[str, ConsumerRunningInfo] | None = None,
) -> GroupReading:
    """Return a group that has consumed some of one queue."""
    place = OffsetWrapper(consumed + lag, consumed, last_ms)
    return GroupReading(
        [SubscriptionGroupConfig("g", consume_enable=enabled)],
        ConsumeStats({QUEUE: place}),
        ConsumerConnection([Connection(f"c{n}") for n in range(clients)], message_model=model),
        members or {},
    )


def member(expression: str = "*", *, has_queue: bool = True, **process: Any) -> ConsumerRunningInfo:
    subscriptions = [
        SubscriptionData(topic="T", sub_string=expression),
        SubscriptionData(topic="%RETRY%g", sub_string="*"),
    ]
    return ConsumerRunningInfo({}, subscriptions, {QUEUE: process} if has_queue else {})


def unlike(*expressions: str) -> GroupReading:
    members = {f"c{n}": member(each) for n, each in enumerate(expressions)}
    return group(clients=2, members=members)


def held(taken_ms: int) -> GroupReading:
    info = member(locked=True, cachedMsgCount=3, lastConsumeTimestamp=taken_ms)
    return group(members={"c0": info})


def log_end(mebibytes: int) -> dict[str, str]:
    return {"commitLogMaxOffset": str(mebibytes * MIB)}


def disk_course(before: float, after: float, minutes: int) -> Snapshots:
    values = [{"commitLogDiskRatio": str(x)} for x in (before, after)]
    return (
        cluster(NOW_MS - minutes * MINUTE_MS, values[0]),
        cluster(NOW_MS, values[1]),
    )


def course(before: GroupReading, after: GroupReading, seconds: int = 60) -> Snapshots:
    return cluster(NOW_MS - seconds * 1_000, g=before), cluster(g=after)


NO_ANSWER = ClientError("a does not answer", "Start it")
REFUSED = ClientError("a refuses", "Check the access key", code=1)
TROUBLE = runtime_values({"reput": Trouble("the disk is full", "Free some space.")})
NOTICE = runtime_values({"topics.json": Trouble("read from .bak", "See T.")}, NOTICE_PREFIX)


class Case(NamedTuple):
    """Snapshots about which a rule speaks, with a part of what it says, and others."""

    fires: Snapshots
    says: str
    silent: Snapshots


def values_case(name: str, high: object, says: str, low: object) -> Case:
    return Case((cluster(NOW_MS, {name: str(high)}),), says, (cluster(NOW_MS, {name: str(low)}),))


HOURS_OLD_MS = NOW_MS - 60 * MINUTE_MS
CASES: dict[str, Case] = {
    "no name server": Case(
        (Snapshot(NOW_MS, name_server="n:1", failure=NO_ANSWER),), "a does not", (cluster(),)
    ),
    "no broker": Case((Snapshot(NOW_MS),), "none has registered", (cluster(),)),
    "no answer": Case(
        (cluster(failure=NO_ANSWER),), "a does not answer", (cluster(failure=REFUSED),)
    ),
    "refused": Case((cluster(failure=REFUSED),), "a refuses", (cluster(failure=NO_ANSWER),)),
    "no address": Case((cluster(address="0.0.0.0:1"),), "advertises 0.0.0.0:1", (cluster(),)),
    "loopback address": Case(
        (cluster(address="127.0.0.1:1"),), "advertises 127.0.0.1:1", (cluster(),)
    ),
    "no master": Case((cluster(broker_id=1),), "has no master", (cluster(),)),
    "refused service": Case((cluster(NOW_MS, TROUBLE),), "reput does not work", (cluster(),)),
    "table from .bak": Case((cluster(NOW_MS, NOTICE),), "read from .bak", (cluster(),)),
    "refused sends": Case(
        (cluster(NOW_MS, {REFUSES_SENDS_VALUE: "no quorum"}),),
        "refuses sends: no quorum",
        (cluster(slave={REFUSES_SENDS_VALUE: "no quorum"}),),
    ),
    "waits for restart": Case(
        (cluster(waiting={"listenPort": "1", "b": ""}),),
        "b=not set, listenPort=1 in use until",
        (cluster(),),
    ),
    "disk full": values_case("commitLogDiskRatio", 0.9, "90% full: from 90%", 0.89),
    "disk filling": values_case("commitLogDiskRatio", 0.75, "75% full: from 75%", 0.74),
    "disk grows": Case(
        disk_course(0.50, 0.60, 50),
        "50.0% to 60.0% in 50 min: at this rate it takes no sends in 2 h 30 min",
        disk_course(0.50, 0.60, 5),
    ),
    "retention behind": Case(
        disk_course(0.76, 0.80, 20), "no sends in 50 min", disk_course(0.80, 0.80, 20)
    ),
    "sends wait": values_case("sendThreadPoolQueueHeadWaitTimeMills", 201, "sends wait 201", 200),
    "dispatch behind": values_case("dispatchBehindBytes", 65 * MIB, "65 MiB", 64 * MIB),
    "flush behind": values_case("remainHowManyDataToFlush", "1.5 GiB", "1,536 MiB", "200.0 MiB"),
    "replica behind": Case(
        (
            cluster(
                NOW_MS, {"commitLogMaxOffset": f"{300 * MIB}"}, slave={"commitLogMaxOffset": "0"}
            ),
        ),
        "lacks 300 MiB",
        (
            cluster(
                NOW_MS, {"commitLogMaxOffset": f"{200 * MIB}"}, slave={"commitLogMaxOffset": "0"}
            ),
        ),
    ),
    "no client": Case(
        course(group(3, clients=0), group(5, clients=0)),
        "no client is online, and 5 messages wait: 2 more in 1 min",
        course(group(0, clients=0), group(0, clients=0)),
    ),
    "left alone": Case(
        course(group(5, clients=0), group(5, clients=0)),
        "no client is online, and 5 messages wait",
        course(
            group(5, clients=0, model="BROADCASTING"), group(5, clients=0, model="BROADCASTING")
        ),
    ),
    "falls behind": Case(
        course(group(300), group(400, last_ms=NOW_MS - 2 * MINUTE_MS)),
        "is 400 messages (2 min) behind on T, and falling further: 100 more in 1 min",
        course(group(400), group(300, last_ms=NOW_MS - 2 * MINUTE_MS)),
    ),
    "behind": Case(
        course(group(9), group(9, last_ms=HOURS_OLD_MS)),
        "is 9 messages (1 h) behind on T",
        course(group(9), group(9, last_ms=NOW_MS - 5 * MINUTE_MS)),
    ),
    "may not consume": Case(
        (cluster(g=group(enabled=False)),),
        "consumeEnable=false",
        (cluster(g=group(clients=0, enabled=False)),),
    ),
    "subscriptions differ": Case(
        (cluster(g=unlike("paid", "*")),),
        "c0 subscribes to T@paid; c1 subscribes to T@*",
        (cluster(g=unlike("*", "*")),),
    ),
    "queue without client": Case(
        (cluster(g=group(7, members={"c0": member(has_queue=False)})),),
        "queue 0 of T at a lags by 7 and no client has it",
        (cluster(g=group(7, clients=2, members={"c0": member(has_queue=False)})),),
    ),
    "lock held": Case(
        (cluster(g=held(NOW_MS - 90_000)),),
        "c0 holds the lock of queue 0 of T at a, and has consumed nothing of its 3 messages for 90",
        (cluster(g=held(NOW_MS - 50_000)),),
    ),
    "no commit": Case(
        course(group(3), group(9, members={"c0": member()})),
        "queue 0 of T at a got 6 messages in 60 s, and c0, which has it, stayed at offset 5",
        course(group(3), group(9, consumed=6, members={"c0": member()})),
    ),
    "dead letters": Case(
        (cluster(NOW_MS - MINUTE_MS, letters=2), cluster(letters=5)),
        "gave up 3 messages in 1 min; it has had 5",
        (cluster(NOW_MS - MINUTE_MS, letters=5), cluster(letters=5)),
    ),
}


def history_of(snapshots: Snapshots) -> History:
    history = History()
    for each in snapshots:
        history.add(each)
    return history


def test_every_rule_has_cases_and_is_said_somewhere() -> None:
    tree = ast.parse(inspect.getsource(findings))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert CASES.keys() == RULES.keys()
    assert RULES.keys() <= texts


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_speaks_of_one_cluster_and_not_of_another(rule: str) -> None:
    case = CASES[rule]
    [found] = [each for each in find(history_of(case.fires)) if each.rule == rule]
    assert case.says in found.found
    assert found.verdict == RULES[rule].verdict
    assert found.remedy and "{" not in found.remedy + found.found + found.about
    assert rule not in [each.rule for each in find(history_of(case.silent))]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_remedy_and_a_verdict(rule: str) -> None:
    assert RULES[rule].verdict in (PROBLEM, WARNING)
    assert RULES[rule].remedy and not RULES[rule].remedy.endswith(".")


def test_that_nothing_is_wrong_is_said() -> None:
    [found] = find(history_of((cluster(NOW_MS, {"commitLogDiskRatio": "0.5"}, g=group(3)),)))
    assert found.verdict == OK
    assert found.found == (
        "nothing is wrong: 1 broker answers, the fullest disk is 50% full, and 3 messages wait for "
        "their groups"
    )


def test_problems_come_first() -> None:
    values = {**NOTICE, "sendThreadPoolQueueHeadWaitTimeMills": "900"}
    found = find(history_of((cluster(NOW_MS, values),)))
    assert [each.verdict for each in found] == [PROBLEM, WARNING]


def test_a_finding_says_since_when_it_is_so() -> None:
    first, second = cluster(NOW_MS - MINUTE_MS, TROUBLE), cluster(NOW_MS, TROUBLE)
    before = find(history_of((first,)), [])
    [found] = find(history_of((first, second)), before)
    assert (before[0].since_ms, found.since_ms) == (NOW_MS - MINUTE_MS, NOW_MS - MINUTE_MS)
    [alone] = find(history_of((second,)))
    assert alone.since_ms == 0  # one reading cannot know it
    [lock] = find(history_of((cluster(g=held(NOW_MS - 90_000)),)), [])
    assert lock.since_ms == NOW_MS - 90_000


def test_a_message_that_came_a_moment_ago_is_not_late() -> None:
    quiet, burst = group(0, last_ms=HOURS_OLD_MS), group(500, last_ms=HOURS_OLD_MS)
    members = {"c0": member()}
    burst.members = members
    [found] = find(history_of(course(quiet, burst)))
    assert found.verdict == OK
    late = find(history_of((*course(quiet, burst), cluster(NOW_MS + MINUTE_MS, g=burst))))
    assert [each.rule for each in late] == ["falls behind"]
    caught_up = group(400, last_ms=HOURS_OLD_MS)
    less = find(history_of((*course(quiet, burst), cluster(NOW_MS + MINUTE_MS, g=caught_up))))
    assert [each.rule for each in less] == ["behind"]


def test_many_findings_of_one_rule_are_counted() -> None:
    groups = {f"g{n:03}": group(5, clients=0) for n in range(OF_ONE_RULE_MAX + 7)}
    snapshot = cluster()
    snapshot.groups = groups
    found = find(history_of((snapshot,)))
    assert len(found) == OF_ONE_RULE_MAX + 1
    assert (found[-1].about, found[-1].found) == ("left alone", "7 more of this kind")
    assert found[-1].remedy


@pytest.mark.parametrize("judge", JUDGES)
def test_a_history_without_an_answer_is_no_error(judge: Callable[[History], Any]) -> None:
    nothing = GroupReading()
    bad = {"commitLogDiskRatio": "x", "remainHowManyDataToFlush": "many"}
    history = history_of((cluster(NOW_MS, bad, g=nothing),))
    assert list(judge(history)) == []
