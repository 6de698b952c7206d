"""The rules: each speaks of one cluster and not of another, and of no ordinary state."""

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.cases import (
    ADDRESSES,
    CASES,
    HOURS_OLD_MS,
    MINUTE_MS,
    NOTICE,
    NOW_MS,
    TROUBLE,
    Snapshots,
    cluster,
    course,
    disk_course,
    elected,
    group,
    held,
    history_of,
    member,
    retries,
    servers,
    serving,
    started,
    stored,
    unlike,
    with_broker,
)
from wakelog.console import findings, health_findings, server_findings, waiting_findings
from wakelog.console.cluster_reading import ClusterReading, GroupReading
from wakelog.console.findings import OF_ONE_RULE_MAX, RULE_CHECKS, find
from wakelog.console.health_findings import service_findings, store_findings
from wakelog.console.history import History
from wakelog.console.rules import OK, PROBLEM, RULES, WARNING
from wakelog.protocol.bodies import Connection, ConsumerConnection, SubscriptionGroupConfig


def test_every_rule_has_cases_and_is_said_somewhere() -> None:
    modules = findings, health_findings, server_findings, waiting_findings
    sources = [inspect.getsource(each) for each in modules]
    trees = [ast.parse(each) for each in sources]
    texts = {x.value for tree in trees for x in ast.walk(tree) if isinstance(x, ast.Constant)}
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


def consumed(minutes: int, **values: str) -> Snapshots:
    """Return a cluster whose log grows by 1 GiB in so many minutes."""
    found = []
    for elapsed_ms, gibibytes in ((minutes * MINUTE_MS, 1), (0, 2)):
        log = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(gibibytes << 30)}
        found.append(cluster(NOW_MS - elapsed_ms, {"commitLogDiskRatio": "0.5"} | values | log))
    return tuple(found)


CAPACITY = "Total : 100.0 GiB, Free : 50.0 GiB."


@pytest.mark.parametrize(
    ("snapshots", "text"),
    [
        ((cluster(g=group(3)),), "3 messages wait for their groups, which keep up; the fullest"),
        ((cluster(g=group(0)),), "everything is consumed; the fullest disk is 0% full; 1 broker"),
        ((cluster(),), "no group consumes yet; "),
        (consumed(60, commitLogDirCapacity=CAPACITY), "the disk lasts 40 h; 1 broker answers"),
        (consumed(5, commitLogDirCapacity=CAPACITY), "the fullest disk is 50% full"),
        (consumed(60), "the fullest disk is 50% full"),
    ],
)
def test_that_nothing_is_wrong_is_said(snapshots: Snapshots, text: str) -> None:
    [found] = find(history_of(snapshots))
    assert (found.verdict, found.rule) == (OK, "")
    assert found.found.startswith("nothing is wrong: ") and text in found.found


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
    late = find(history_of((*course(quiet, burst), cluster(NOW_MS + 2 * MINUTE_MS, g=burst))))
    assert [each.rule for each in late] == ["falls behind"]
    less = group(400, last_ms=HOURS_OLD_MS)
    [found] = find(history_of((*course(quiet, burst), cluster(NOW_MS + 2 * MINUTE_MS, g=less))))
    assert found.verdict == OK


def test_a_group_that_falls_further_says_since_when() -> None:
    lags = [900, 100, 300, 700]
    times_ms = [NOW_MS - n * 10 * MINUTE_MS for n in (3, 2, 1, 0)]
    snapshots = tuple(
        cluster(x, g=group(y, last_ms=NOW_MS - 40 * MINUTE_MS))
        for x, y in zip(times_ms, lags, strict=True)
    )
    [found] = find(history_of(snapshots), [])
    assert (found.rule, found.since_ms) == ("falls behind", times_ms[1])
    assert found.found.endswith("falling further: 600 more in 20 min")


def test_the_first_dead_letters_of_a_group_count() -> None:
    before, after = cluster(NOW_MS - MINUTE_MS), cluster(letters=2)
    before.dead_letters.clear()
    [found] = find(history_of((before, after)))
    assert found.found.startswith("gave up 2 messages")


def test_one_step_of_a_disk_is_no_rate() -> None:
    """A disk is given in whole percent: it may have grown by much less."""
    [found] = find(history_of(disk_course(0.50, 0.51, 12)))
    assert found.verdict == OK


def test_many_findings_of_one_rule_are_counted() -> None:
    groups = {f"g{n:03}": group(5, clients=0) for n in range(OF_ONE_RULE_MAX + 7)}
    snapshot = cluster()
    snapshot.groups = groups
    found = find(history_of((snapshot,)))
    assert len(found) == OF_ONE_RULE_MAX + 1
    assert (found[-1].about, found[-1].found) == ("left alone", "7 more of this kind")
    assert found[-1].remedy


def replaced() -> GroupReading:
    """Return a group of which one member is new, and subscribes otherwise."""
    found = unlike("paid", "*")
    found.members["c0"].properties["PROP_CONSUMER_START_TIMESTAMP"] = str(NOW_MS - 30_000)
    return found


def slow(seconds: int) -> Snapshots:
    """Return a group whose member has one message in hand for so long, while others come."""
    quiet = cluster(NOW_MS - 10 * MINUTE_MS, g=group(consumed=4))
    begin, now = group(3), group(9, members={"c0": member()})
    return quiet, cluster(NOW_MS - seconds * 1_000, g=begin), cluster(g=now)


def switched(snapshot: ClusterReading) -> ClusterReading:
    """Return it with the ids of its two brokers exchanged."""
    for broker in snapshot.brokers:
        broker.broker_id = 1 - broker.broker_id
    by_id = {x.broker_id: x.address for x in snapshot.brokers}
    snapshot.info.broker_addr_table["a"].broker_addrs = by_id
    return snapshot


JUST_STARTED = {"bootTimestamp": str(NOW_MS - 1_000), "commitLogDiskRatio": "0.5"}
ORDINARY: dict[str, Snapshots] = {
    "a broker that has just started": (cluster(NOW_MS, JUST_STARTED),),
    "a broker that was started again": started(30, 5),
    "a master and a replica that changed places": (
        cluster(NOW_MS - 60_000, slave={}),
        switched(cluster(NOW_MS - 40_000, slave={})),
        switched(cluster(slave={})),
    ),
    "a replica that has just started": (elected(epochs="54", ends=(9, 2), minutes=1),),
    "replicas in step": (elected(),),
    "a replica without a message of the new epoch": (elected(epochs="54"),),
    "name servers that agree": (servers(NOW_MS, ADDRESSES, ADDRESSES),),
    "a group that was just made": (cluster(g=GroupReading([SubscriptionGroupConfig("g")])),),
    "a group without an offset yet": (
        cluster(g=GroupReading(clients=ConsumerConnection([Connection("c")]))),
    ),
    "a group that reads a backlog from its beginning": course(
        group(5_000, consumed=0, last_ms=0), group(4_000, consumed=1_000, last_ms=NOW_MS - 9_000)
    ),
    "a group without a lag": course(group(0), group(0)),
    "a group with what came a moment ago": course(group(0), group(900), seconds=10),
    "a group with no member and nothing to do": course(group(0, clients=0), group(0, clients=0)),
    "a group that keeps up with much": course(
        group(9_000, last_ms=NOW_MS - 4_000), group(12_000, last_ms=NOW_MS - 4_000)
    ),
    "a queue that is seldom used": course(
        group(0, last_ms=HOURS_OLD_MS), group(1, last_ms=HOURS_OLD_MS), seconds=5
    ),
    "a broadcasting group": course(
        group(5, model="BROADCASTING"), group(900, model="BROADCASTING", last_ms=HOURS_OLD_MS)
    ),
    "a group of RocketMQ itself": (
        cluster(CID_RMQ_SYS_TRANS=group(9, clients=0)),
        cluster(NOW_MS + MINUTE_MS, CID_RMQ_SYS_TRANS=group(99, clients=0)),
    ),
    "members that are being replaced": (cluster(g=replaced()),),
    "a message that takes long": slow(20),
    "some retries": retries(40, 4),
    "old dead letters": course(group(0), group(0)),
    "TLS with a certificate that Netty made": (
        with_broker(cluster(), certificate_end_ms=4_102_358_400_000),
    ),
    "services that work": (serving(60, 1), serving(70, 2)),
    "a store after a power loss": (stored(clean_exit=0, cut_bytes=90, quarantined_bytes=90),),
    "a disk that grows slowly": disk_course(0.50, 0.51, 60),
}


@pytest.mark.parametrize("state", ORDINARY)
def test_an_ordinary_state_is_no_finding(state: str) -> None:
    [found] = find(history_of(ORDINARY[state]))
    assert found.verdict == OK, found


def test_a_message_that_takes_too_long_is_said() -> None:
    [found] = find(history_of(slow(40)))
    assert (found.rule, found.since_ms) == ("no commit", NOW_MS - 40_000)


@pytest.mark.parametrize("check", RULE_CHECKS)
def test_a_history_without_an_answer_is_no_error(check: Callable[[History], Any]) -> None:
    nothing = GroupReading()
    bad = {"commitLogDiskRatio": "x", "remainHowManyDataToFlush": "many"}
    history = history_of((cluster(NOW_MS, bad, g=nothing),))
    assert list(check(history)) == []


def test_a_remedy_names_the_folder_of_the_store() -> None:
    [found] = store_findings(history_of((stored(changed_blocks=1),)))
    assert "wakelog log verify --store /srv/store at its host" in found.remedy


def test_a_broker_that_reports_nothing_has_nothing_wrong() -> None:
    history = history_of((cluster(),))
    assert not list(store_findings(history)) and not list(service_findings(history))


def test_services_that_a_broker_waits_for_after_its_start_are_not_away() -> None:
    assert not list(service_findings(history_of((serving(0, 0, is_attached=False),))))
    [found] = service_findings(history_of((serving(2, 0, is_attached=False),)))
    assert found.rule == "service away"
