"""What changed between readings that are given."""

from typing import Any

import pytest

from wakelog.client.errors import ClientError
from wakelog.console.changes import (
    EACH_MAX,
    EVENTS_MAX,
    HOUR_MS,
    SETTING_CHARACTERS_MAX,
    ClusterChanges,
    Event,
)
from wakelog.console.cluster_reading import BrokerReading, ClusterReading, GroupReading
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    Connection,
    ConsumerConnection,
    SubscriptionGroupConfig,
    TopicConfig,
)

NOW_MS = 2 * HOUR_MS


def cluster(
    now_ms: int = NOW_MS, /, *brokers: BrokerReading, **groups: GroupReading
) -> ClusterReading:
    """Return brokers of the name a, one if none is given."""
    found = list(brokers) or [broker()]
    table = BrokerData("c", "a", {x.broker_id: x.address for x in found})
    return ClusterReading(now_ms, ClusterInfo({"a": table}), brokers=found, groups=dict(groups))


def broker(broker_id: int = 0, address: str = "a:1", **fields: Any) -> BrokerReading:
    return BrokerReading("c", "a", broker_id, address, **fields)


def members(*clients: str) -> GroupReading:
    return GroupReading(clients=ConsumerConnection([Connection(x) for x in clients]))


def topics(**counts: int) -> dict[str, TopicConfig]:
    """Return topics with so many queues, beside the ones that every broker has."""
    return {"TBW102": TopicConfig("TBW102")} | {x: TopicConfig(x, y, y) for x, y in counts.items()}


def between(before: ClusterReading, after: ClusterReading) -> list[str]:
    before.taken_ms -= 5_000
    changes = ClusterChanges()
    changes.add(before)
    changes.add(after)
    assert all(each.at_ms == NOW_MS for each in changes.events)
    return [f"{each.about} {each.found}" for each in changes.events]


def test_what_stays_is_no_change() -> None:
    def same() -> ClusterReading:
        reading = broker(topics=topics(T=4), settings={"a": "1"}, values={"bootTimestamp": "5"})
        return cluster(NOW_MS, reading, g=members("c1"))

    assert between(same(), same()) == []


def test_topics_and_groups_come_go_and_change() -> None:
    system = frozenset({"TBW102", "own"})
    then = broker(
        topics=topics(old=4, T=4),
        system_topics=system,
        groups={"left": SubscriptionGroupConfig("left"), "g": SubscriptionGroupConfig("g")},
    )
    extra = {name: TopicConfig(name) for name in ("%RETRY%g", "%DLQ%g", "rmq_sys_x", "own")}
    now = broker(
        topics=topics(T=8, new=1) | extra,
        system_topics=system,
        groups={
            "g": SubscriptionGroupConfig("g", consume_enable=False),
            "made": SubscriptionGroupConfig("made"),
            "CID_RMQ_SYS_x": SubscriptionGroupConfig("CID_RMQ_SYS_x"),
        },
    )
    assert between(cluster(NOW_MS, then), cluster(NOW_MS, now)) == [
        "group g has its first dead letter",
        "topic new was made",
        "topic old was deleted",
        "topic T readQueueNums is 8 now, and was 4 at a",
        "topic T writeQueueNums is 8 now, and was 4 at a",
        "group left was deleted",
        "group made was made",
        "group g consumeEnable is False now, and was True at a",
    ]


def test_members_come_and_go() -> None:
    before, after = cluster(g=members("c1", "c2"), h=members()), cluster(g=members("c2", "c3"))
    assert between(before, after) == ["group g c1 left", "group g c3 joined"]


def test_brokers_come_go_change_places_and_start_again() -> None:
    then = [broker(0, "a:1", values={"bootTimestamp": "5"}), broker(1, "a:2"), broker(2, "a:3")]
    now = [broker(1, "a:1", values={"bootTimestamp": "9"}), broker(0, "a:2"), broker(3, "a:4")]
    assert between(cluster(NOW_MS, *then), cluster(NOW_MS, *now)) == [
        "broker a at a:1 is replica 1 now, and was master",
        "broker a at a:2 is master now, and was replica 1",
        "broker a at a:3 left the name servers, where it was replica 2",
        "broker a at a:4 registered as replica 3",
        "broker a (1) at a:1 started again",
    ]


def test_settings_change_and_secrets_are_not_shown() -> None:
    then = broker(settings={"fileReservedTime": "72", "accessKey": "rocket", "gone": "x"})
    long = "y" * (SETTING_CHARACTERS_MAX + 1)
    now = broker(settings={"fileReservedTime": "48", "accessKey": "other", "long": long})
    assert between(cluster(NOW_MS, then), cluster(NOW_MS, now)) == [
        "broker a (0) at a:1 accessKey was changed",
        "broker a (0) at a:1 fileReservedTime is 48 now, and was 72",
        "broker a (0) at a:1 gone is not set now, and was x",
        f"broker a (0) at a:1 long is {long[:-1]}… now, and was not set",
    ]


@pytest.mark.parametrize("failure", [ClientError("no answer", "Wait")])
def test_a_broker_that_does_not_answer_has_not_lost_its_topics(failure: ClientError) -> None:
    then = broker(topics=topics(T=4), groups={"g": SubscriptionGroupConfig("g")})
    assert between(cluster(NOW_MS, then), cluster(NOW_MS, broker(failure=failure))) == []
    changes = ClusterChanges()
    changes.add(cluster(NOW_MS - 9_000, then))
    changes.add(ClusterReading(NOW_MS - 5_000, failure=failure))
    changes.add(cluster(NOW_MS, then))
    assert not changes.events and not changes.gone


def test_many_changes_of_a_kind_are_counted() -> None:
    then, now = cluster(g=members()), cluster(g=members(*(f"c{n:03}" for n in range(60))))
    found = between(then, now)
    assert len(found) == EACH_MAX + 1
    assert found[-1] == f" {60 - EACH_MAX} more changes of this kind"


def test_an_hour_is_kept_and_a_bounded_number() -> None:
    changes = ClusterChanges()
    for second in range(0, 3 * 3_600, 5):
        clients = (f"c{second}",) if second % 10 else ()
        changes.add(cluster(NOW_MS + second * 1_000, g=members(*clients)))
        assert len(changes.events) <= EVENTS_MAX
    changes.add(cluster(NOW_MS + 5 * HOUR_MS, g=members("c10795")))
    assert not changes.events


def test_a_clock_that_is_set_back_begins_again() -> None:
    changes = ClusterChanges()
    changes.add(cluster(NOW_MS, g=members()))
    changes.add(cluster(NOW_MS + 5_000, g=members("c")))
    changes.add(cluster(NOW_MS - HOUR_MS, g=members("d")))
    assert not changes.events


def test_a_broker_is_gone_until_it_or_another_one_of_its_name_is_there() -> None:
    changes = ClusterChanges()
    changes.add(cluster(NOW_MS, broker(0, "a:1"), broker(1, "a:2")))
    changes.add(cluster(NOW_MS + 5_000, broker(0, "a:2")))
    assert {x: y.since_ms for x, y in changes.gone.items()} == {"a:1": NOW_MS + 5_000}
    changes.add(cluster(NOW_MS + 10_000, broker(0, "a:2"), broker(1, "a:9")))
    assert not changes.gone
    changes.add(cluster(NOW_MS + 15_000, broker(0, "a:2")))
    assert list(changes.gone) == ["a:9"]
    changes.add(cluster(NOW_MS + 20_000 + HOUR_MS, broker(0, "a:2")))
    assert not changes.gone


def test_starts_are_those_of_the_last_hour() -> None:
    changes = ClusterChanges()
    for minutes in (0, 1, 40, 70):
        boot_ms = NOW_MS + minutes * 60_000
        changes.add(cluster(boot_ms + 9_000, broker(values={"bootTimestamp": str(boot_ms)})))
    assert changes.starts("a:1") == [NOW_MS + 40 * 60_000, NOW_MS + 70 * 60_000]
    assert changes.starts("b:1") == []


def test_an_event_is_of_the_second_reading() -> None:
    changes = ClusterChanges()
    changes.add(cluster(NOW_MS, g=members()))
    changes.add(cluster(NOW_MS + 7, g=members("c")))
    assert list(changes.events) == [Event(NOW_MS + 7, "group g", "c joined")]
