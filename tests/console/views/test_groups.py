"""How a group stands, and when it will have caught up."""

import pytest

from wakelog.console.cluster_reading import BrokerReading, ClusterReading, GroupReading
from wakelog.console.history import History
from wakelog.console.lag import LATE_MS_MIN, MESSAGES_MIN, GroupLag
from wakelog.console.rules import OK, PROBLEM, WARNING, Finding, say
from wakelog.console.views import groups
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

QUEUE = MessageQueue("T", "a", 0)
ONLINE = ConsumerConnection([Connection("c1", "10.0.0.7:5000", "PYTHON", 399)])
NO_CLIENT = ConsumerConnection()
NOW_MS = 1_000_000
NOTHING, ONE = GroupLag(0, left_ms=0.0), GroupLag(1, "T", 9)
LATE = GroupLag(MESSAGES_MIN, "T", LATE_MS_MIN + 1)
GROWS = LATE._replace(is_growing=True, since_ms=5)


@pytest.mark.parametrize(
    ("group", "lag", "state"),
    [
        (GroupReading([SubscriptionGroupConfig("g", False)]), NOTHING, "may not consume"),
        (GroupReading(), NOTHING, "not known"),
        (GroupReading(clients=NO_CLIENT), NOTHING, "nobody"),
        (GroupReading(clients=NO_CLIENT), ONE, "nobody, messages wait"),
        (
            GroupReading(
                clients=ConsumerConnection([Connection("c")], message_model="BROADCASTING")
            ),
            GROWS,
            "broadcasting",
        ),
        (GroupReading(clients=ONLINE), GROWS._replace(behind_ms=9), "consuming"),
        (GroupReading(clients=ONLINE), GROWS, "falling behind"),
        (GroupReading(clients=ONLINE), LATE, "behind"),
    ],
)
def test_a_group_stands_in_a_word(group: GroupReading, lag: GroupLag, state: str) -> None:
    assert groups.state_of(group, lag, NOW_MS) == state


def test_a_row_says_since_when_a_group_falls_behind() -> None:
    history = History()
    for now_ms, stored in ((NOW_MS - 90_000, 104), (NOW_MS, 204)):
        place = OffsetWrapper(stored, 4, NOW_MS - 200_000)
        group = GroupReading(progress=ConsumeStats({QUEUE: place}), clients=ONLINE)
        broker = BrokerReading("c", "a", 0, "a:1")
        history.add(ClusterReading(now_ms, brokers=[broker], groups={"g": group}))
    [row] = groups.rows(history, history.latest)
    assert (row.state, row.lag.messages, row.lag.behind_ms) == ("falling behind", 200, 200_000)
    assert (row.falls_since_ms, row.is_late, row.lag.left_ms) == (NOW_MS - 90_000, True, None)


def reading() -> GroupReading:
    queues = [MessageQueue("orders", "a", number) for number in range(2)]
    places = {queues[0]: OffsetWrapper(9, 9, 50), queues[1]: OffsetWrapper(9, 4, 40)}
    info = ConsumerRunningInfo(mq_table={queues[1]: {}})
    clients = ConsumerConnection(
        ONLINE.connection_set,
        {name: SubscriptionData(topic=name, sub_string="*") for name in ("orders", "%RETRY%g")},
    )
    return GroupReading(progress=ConsumeStats(places), clients=clients, members={"c1": info})


def test_queues_come_with_their_members_the_most_lag_first() -> None:
    first, second = groups.place_rows(reading())
    assert (first.queue_id, first.lag, first.member) == (1, 5, "c1")
    assert (second.queue_id, second.lag, second.member) == (0, 0, "")


def test_members_say_how_many_queues_they_have() -> None:
    [row] = groups.member_rows(reading())
    assert row == groups.MemberRow("c1", "10.0.0.7:5000", "PYTHON", "4.9.3", 1)
    [silent] = groups.member_rows(GroupReading(clients=ONLINE))
    assert silent.queues is None


def test_topics_of_a_group_are_those_without_its_retries() -> None:
    assert groups.topics_of(reading()) == ["orders"]
    assert [topic for topic, *_ in groups.subscriptions(reading())] == ["%RETRY%g", "orders"]


def test_only_what_is_wrong_with_this_group_is_said() -> None:
    found = [
        Finding(PROBLEM, "group g", "x"),
        Finding(PROBLEM, "group gg", "x"),
        Finding(OK, "group g", "x"),
    ]
    assert groups.findings_about("g", found) == found[:1]


def test_the_answer_is_the_doctor_s_and_what_the_last_hour_shows_the_worst_first() -> None:
    group = reading()
    group.configs = [SubscriptionGroupConfig("g", False)]
    behind = Finding(WARNING, "group g", "is behind", rule="behind")
    paused = say("may not consume", "group g")
    found = groups.answer("g", group, [behind, paused], 100)
    assert [each.verdict for each in found] == [PROBLEM, WARNING, OK]
    assert found[0] == paused and found[1] == behind
    assert [each.found for each in found[2:]] == ["1 client subscribes"]
    assert groups.answer("g", reading(), [], 100)[-1].found == "lags by 5"


def test_the_answer_does_not_lead_to_itself() -> None:
    behind = say("behind", "group g", lag=5, behind="", topic="t", group="g")
    found = groups.answer("g", reading(), [behind], 100)
    assert found[0].remedy == "Add consumers, or skip (wakelog reset)"


def test_that_no_client_is_online_is_said_once() -> None:
    alone = say("left alone", "group g", lag=5)
    group = GroupReading([SubscriptionGroupConfig("g")], clients=NO_CLIENT)
    assert [x.rule for x in groups.answer("g", group, [alone], 100)] == ["left alone"]
    assert [x.rule for x in groups.answer("g", group, [], 100)] == ["no client", ""]


def test_where_brokers_disagree_about_a_group_is_said() -> None:
    brokers = [
        BrokerReading("c", name, 0, f"{name}:1", groups={"g": SubscriptionGroupConfig("g", **more)})
        for name, more in (("a", {"retry_max_times": 3}), ("b", {"consume_enable": False}))
    ]
    rows = groups.config_rows(
        "g", ClusterReading(1, brokers=[*brokers, BrokerReading("c", "d", 0, "d")])
    )
    assert [row.broker for row in rows] == ["a", "b"]
    assert groups.differences(rows) == [
        "may consume: no at b; yes at a",
        "retries at most: 16 at b; 3 at a",
    ]
