"""The list of topics: what is shown of each, and which are RocketMQ's own."""

from wakelog.console.cluster_reading import BrokerReading, ClusterReading, GroupReading
from wakelog.console.ends import Ends
from wakelog.console.views import topics
from wakelog.console.views.disagreements import disagreements
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    ConsumerConnection,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionData,
    TopicConfig,
    TopicOffset,
    TopicStatsTable,
)
from wakelog.protocol.body_codec import MessageQueue

NAMES = ("orders", "%RETRY%g", "%DLQ%g", "TBW102", "rmq_sys_X", "broker-a", "c")


def cluster() -> ClusterReading:
    info = ClusterInfo({"broker-a": BrokerData("c", "broker-a", {0: "a:1"})}, {"c": {"broker-a"}})
    broker = BrokerReading("c", "broker-a", 0, "a:1", system_topics=frozenset({"TBW102"}))
    broker.topics = {name: TopicConfig(name, 4, 4) for name in NAMES}
    other = BrokerReading("c", "broker-b", 0, "b:1", topics={"orders": TopicConfig("orders", 2, 2)})
    queue = MessageQueue("orders", "broker-a", 0)
    reads = GroupReading(progress=ConsumeStats({queue: OffsetWrapper(9, 4)}))
    subscribes = GroupReading(clients=ConsumerConnection([], {"orders": SubscriptionData()}))
    return ClusterReading(
        1, info, "n:1", [broker, other], {"reads": reads, "subscribes": subscribes}
    )


def test_only_topics_of_users_are_shown_unless_all_are_asked_for() -> None:
    assert [row.name for row in topics.rows(cluster(), {}, shows_all=False)] == ["orders"]
    kinds = {row.name: row.kind for row in topics.rows(cluster(), {}, shows_all=True)}
    own = "RocketMQ's"
    assert kinds == {
        "orders": "",
        "%RETRY%g": "retries",
        "%DLQ%g": "dead letters",
        **dict.fromkeys(("TBW102", "rmq_sys_X", "broker-a", "c"), own),
    }


def test_a_topic_has_the_queues_of_all_brokers_and_its_groups() -> None:
    [row] = topics.rows(cluster(), {}, shows_all=False)
    assert (row.queues, row.may, row.ends) == (6, "read and write", None)
    assert row.groups == ("reads", "subscribes")


def test_what_is_not_read_yet_comes_last() -> None:
    table = TopicStatsTable({MessageQueue("b", "x", 0): TopicOffset(0, 7, 0)})
    found = [
        topics.TopicRow(name, "", 1, "read", (), ends)
        for name, ends in (("a", None), ("b", Ends(1, table, 7)))
    ]
    shown = topics.TOPICS.page(found, {"sort": "-held"})
    assert [row.name for row in shown.rows] == ["b", "a"]


def test_what_clients_may_do_is_said_in_words() -> None:
    assert [topics.may_text(perm) for perm in (6, 4, 2, 0, 7)] == [
        "read and write", "read", "write", "nothing", "read and write",
    ]  # fmt: skip


def test_where_brokers_disagree_is_said_with_their_names() -> None:
    first, second = topics.config_rows("orders", cluster())
    assert topics.differences([first]) == []
    assert topics.differences([first, second]) == [
        "read queues: 2 at broker-b; 4 at broker-a",
        "write queues: 2 at broker-b; 4 at broker-a",
    ]
    limited = second._replace(config=TopicConfig("orders", 4, 4, 4, "MULTI_TAG", order=True))
    assert topics.differences([first, first._replace(broker="c"), limited]) == [
        "clients may: read at broker-b; read and write at broker-a, c",
        "ordered: no at broker-a, c; yes at broker-b",
        "filter: MULTI_TAG at broker-b; SINGLE_TAG at broker-a, c",
    ]


def test_only_what_differs_is_said_with_the_brokers_of_each_value() -> None:
    settings = [("a", {"queues": "4", "order": "no"}), ("b", {"queues": "8", "order": "no"})]
    assert disagreements(settings) == ["queues: 4 at a; 8 at b"]
    assert disagreements([*settings, ("c", {"queues": "8", "order": "no"})]) == [
        "queues: 4 at a; 8 at b, c"
    ]
    assert disagreements(settings[:1]) == []
