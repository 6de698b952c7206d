"""Who belongs to which group."""

from collections.abc import Iterator

import pytest

from tests.broker.harness import FakeChannel, subscription
from tests.calls import calls_of_steps
from wakelog.broker.error_response import LimitReached
from wakelog.broker.membership import (
    CLIENT_EXPIRED_MS,
    GROUPS_PER_STEP,
    SUBSCRIPTIONS_PER_STEP,
    Client,
    Consumers,
    GroupChange,
    GroupClients,
)
from wakelog.broker.table_limits import TableLimits
from wakelog.protocol.bodies import MODEL_BROADCASTING, ConsumerData, SubscriptionData
from wakelog.protocol.steps import finish


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    table = Consumers()
    yield table
    table.validate()


@pytest.fixture
def producers() -> Iterator[GroupClients]:
    table = GroupClients()
    yield table
    table.validate()


def client(channel_id: int = 1, now_ms: int = 0) -> Client:
    return Client(FakeChannel(channel_id), f"c{channel_id}", 0, 399, now_ms)


def data(group: str = "g", *subscriptions: SubscriptionData) -> ConsumerData:
    return ConsumerData(group, subscription_data_set=list(subscriptions or (subscription(),)))


def test_a_new_connection_notifies_all(consumers: Consumers) -> None:
    assert consumers.register(client(1), data()) == GroupChange("g", 1)
    assert consumers.register(client(2), data()) == GroupChange("g", 2)
    assert [client.client_id for client in consumers.clients("g")] == ["c1", "c2"]


def test_the_same_heartbeat_again_changes_nothing(consumers: Consumers) -> None:
    consumers.register(client(1), data())
    assert consumers.register(client(1, now_ms=30_000), data()) is None


# What the second heartbeat subscribes to, after the first subscribed to T: notified or not.
RESUBSCRIPTIONS = [
    ("a topic joined", [subscription("T"), subscription("U")], True),
    ("a topic left for another", [subscription("U")], True),
    ("the expression changed", [subscription("T", "a||b", version=2)], False),
    ("an older subscription came late", [subscription("T", "a", version=0)], False),
]


@pytest.mark.parametrize(
    ("wanted", "notified"), [r[1:] for r in RESUBSCRIPTIONS], ids=[r[0] for r in RESUBSCRIPTIONS]
)
def test_a_change_of_topics_notifies_and_one_of_the_expression_does_not(
    consumers: Consumers, wanted: list[SubscriptionData], notified: bool
) -> None:
    consumers.register(client(1), data("g", subscription("T")))
    assert (consumers.register(client(1), data("g", *wanted)) is not None) is notified
    group = consumers.get("g")
    assert group is not None
    assert set(group.subscriptions) == {s.topic for s in wanted}


def test_a_newer_expression_replaces_an_older_one_and_not_the_other_way(
    consumers: Consumers,
) -> None:
    consumers.register(client(1), data("g", subscription("T", "a", version=5)))
    consumers.register(client(1), data("g", subscription("T", "b", version=4)))
    assert consumers.subscription("g", "T") == subscription("T", "a", version=5)
    consumers.register(client(1), data("g", subscription("T", "b", version=6)))
    assert consumers.subscription("g", "T") == subscription("T", "b", version=6)


def test_the_last_heartbeat_says_how_a_group_consumes(consumers: Consumers) -> None:
    consumers.register(client(1), data())
    consumers.register(client(1), ConsumerData("g", message_model=MODEL_BROADCASTING))
    group = consumers.get("g")
    assert group is not None
    assert group.message_model == MODEL_BROADCASTING
    assert consumers.subscription("g", "T") is None


def test_a_client_that_unregisters_leaves_and_the_others_are_notified(consumers: Consumers) -> None:
    consumers.register(client(1), data())
    consumers.register(client(2), data())
    assert consumers.unregister("g", 1) == GroupChange("g", 1)
    assert consumers.unregister("g", 2) == GroupChange("g", 0)
    assert consumers.get("g") is None
    assert consumers.unregister("g", 2) is None


def test_an_unknown_client_that_unregisters_changes_no_group(consumers: Consumers) -> None:
    consumers.register(client(1), data())
    assert consumers.unregister("g", 9) == GroupChange("g", 1)
    assert consumers.get("g") is not None


def test_a_closed_connection_leaves_all_its_groups(consumers: Consumers) -> None:
    consumers.register(client(1), data("g"))
    consumers.register(client(1), data("h"))
    consumers.register(client(2), data("g"))
    assert consumers.channel_closed(1) == [GroupChange("g", 1), GroupChange("h", 0)]
    assert consumers.channel_closed(1) == []
    assert consumers.statistics() == {"group_count": 1, "channel_count": 1}


def test_a_client_without_heartbeat_for_120_s_is_to_be_closed(consumers: Consumers) -> None:
    consumers.register(client(1, now_ms=0), data("g"))
    consumers.register(client(2, now_ms=1), data("g"))
    assert consumers.expired(CLIENT_EXPIRED_MS) == []
    assert consumers.expired(CLIENT_EXPIRED_MS + 1) == [1]
    assert consumers.statistics() == {"group_count": 1, "channel_count": 2}


def test_groups_of_a_connection_above_the_limit_are_refused() -> None:
    limits = TableLimits(memberships_per_connection=1)
    consumers, producers = Consumers(limits), GroupClients(limits)
    assert consumers.register(client(1), data("g")) is not None
    with pytest.raises(LimitReached):
        consumers.register(client(1), data("h"))
    producers.add(client(1), "pg")
    with pytest.raises(LimitReached):
        producers.add(client(1), "ph")
    assert (consumers.get("h"), producers.clients("ph")) == (None, [])


def test_subscriptions_take_room_until_their_group_is_gone() -> None:
    consumers = Consumers(TableLimits(subscription_bytes=2_000))
    topics = [subscription(topic) for topic in "TUVWX"]
    assert consumers.register(client(1), data("g", *topics[:3])) is not None
    with pytest.raises(LimitReached, match="at most 2000 bytes of subscriptions"):
        consumers.register(client(1), data("g", *topics))
    with pytest.raises(LimitReached):
        consumers.register(client(2), data("h", subscription("T", "a" * 500)))
    consumers.validate()
    assert consumers.groups_of(2) == []
    assert consumers.register(client(1), data("g", *topics[:1])) is not None
    assert consumers.register(client(2), data("h", subscription("T", "a" * 200))) is not None
    consumers.validate()
    consumers.channel_closed(1)
    consumers.channel_closed(2)
    consumers.validate()


def test_producers_come_and_go_by_group(producers: GroupClients) -> None:
    producers.add(client(1), "pg")
    producers.add(client(2), "pg")
    producers.add(client(2), "ph")
    assert [c.client_id for c in producers.clients("pg")] == ["c1", "c2"]
    producers.remove("pg", 1)
    producers.remove("pg", 9)
    producers.remove("nobody", 1)
    assert [c.client_id for c in producers.clients("pg")] == ["c2"]
    producers.remove_channel(2)
    producers.remove_channel(9)
    assert producers.statistics() == {"group_count": 0, "channel_count": 0}


def test_many_subscriptions_are_registered_in_steps(consumers: Consumers) -> None:
    many = [subscription(f"T{number}") for number in range(5 * SUBSCRIPTIONS_PER_STEP)]
    calls, change = calls_of_steps(consumers.register_in_steps(client(1), data("g", *many)))
    assert change == GroupChange("g", 1)
    assert len(calls) == 11
    assert max(calls) < 16 * SUBSCRIPTIONS_PER_STEP
    assert finish(consumers.groups_subscribed("T9")) == ["g"]


def test_the_groups_of_a_topic_are_found_in_steps(consumers: Consumers) -> None:
    for number in range(3 * GROUPS_PER_STEP):
        consumers.register(client(number), data(f"g{number}", subscription(f"T{number % 3}")))
    assert sum(1 for _ in consumers.groups_subscribed("T0")) == 3
    assert len(finish(consumers.groups_subscribed("T0"))) == GROUPS_PER_STEP
