"""The table of topics."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from tests.broker.harness import NOW_MS, settings
from tests.golden_stores import extract_golden
from wakelog.broker.decision import Instruction, Persist, RegisterBroker
from wakelog.broker.table_limits import DEFAULT_LIMITS
from wakelog.broker.topics import PLAIN_TOPICS_MAX, PlainQueues, Topics
from wakelog.protocol.bodies import DataVersion, TopicConfig
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.sys_flag import MESSAGE_MULTI_TAGS

CREATED = [Persist("topics"), RegisterBroker(("T",))]


class Table:
    """Topics with the list they append to."""

    def __init__(self, lmq: bool = False, /, **keys: str) -> None:
        self.config = settings(**keys).broker
        self.instructions: list[Instruction] = []
        self.topics = Topics(self.config, self.instructions, NOW_MS, lmq=lmq)


@pytest.fixture
def table() -> Iterator[Table]:
    made = Table()
    yield made
    made.topics.validate()


# TopicConfigManager's constructor: topic, queues, permission.
SYSTEM = [
    ("SELF_TEST_TOPIC", 1, 6),
    ("TBW102", 8, 7),
    ("BenchmarkTest", 1_024, 6),
    ("DefaultCluster", 16, 7),
    ("broker-a", 1, 7),
    ("OFFSET_MOVED_EVENT", 1, 6),
    ("SCHEDULE_TOPIC_XXXX", 18, 6),
    ("DefaultCluster_REPLY_TOPIC", 1, 6),
]


def test_the_systems_topics_are_upstreams(table: Table) -> None:
    assert sorted(table.topics.wrapper().topic_config_table) == sorted(
        name for name, _, _ in SYSTEM
    )
    for name, queue_count, perm in SYSTEM:
        assert table.topics.get(name) == TopicConfig(name, queue_count, queue_count, perm)
        assert table.topics.is_system(name)
    assert table.instructions == []


@pytest.mark.parametrize(
    ("keys", "name", "perm"),
    [
        ({"autoCreateTopicEnable": "false"}, "TBW102", None),
        ({"clusterTopicEnable": "false"}, "DefaultCluster", 1),
        ({"brokerTopicEnable": "false"}, "broker-a", 1),
        ({"traceTopicEnable": "true"}, "RMQ_SYS_TRACE_TOPIC", 6),
    ],
)
def test_switches_decide_about_some(keys: dict[str, str], name: str, perm: int | None) -> None:
    topic = Table(**keys).topics.get(name)
    assert (None if topic is None else topic.perm) == perm


@pytest.mark.parametrize("name", ["TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_anything"])
def test_names_of_the_system_are_reserved_without_a_topic(table: Table, name: str) -> None:
    assert table.topics.is_system(name)
    assert not table.topics.is_system("T")


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (8, 8), (16, 8), (0, 0), (-3, 0)])
def test_a_topic_is_made_with_the_lesser_number_of_queues(
    table: Table, asked: int, made: int
) -> None:
    """Section 4.4: min(client default, default topic's writeQueueNums), inherit taken away."""
    assert table.topics.create_from_default("T", "TBW102", asked, NOW_MS) == TopicConfig(
        "T", made, made, 6
    )
    assert table.instructions == CREATED
    assert table.topics.data_version == DataVersion(NOW_MS, 1)


@pytest.mark.parametrize("default", ["nowhere", "SELF_TEST_TOPIC"])
def test_a_default_topic_has_to_exist_and_to_be_inheritable(table: Table, default: str) -> None:
    assert table.topics.create_from_default("T", default, 4, NOW_MS) is None
    assert table.instructions == []


def test_an_existing_topic_is_returned_as_it_is(table: Table) -> None:
    made = table.topics.create("%RETRY%g", 4, NOW_MS)
    assert table.topics.create("%RETRY%g", 8, NOW_MS) is made
    assert table.topics.data_version.counter == 1


def test_without_auto_creation_the_default_topic_of_a_file_creates_no_topic() -> None:
    table = Table(autoCreateTopicEnable="false")
    table.topics.load('{"topicConfigTable":{"TBW102":{"topicName":"TBW102","perm":7}}}')
    assert table.topics.create_from_default("T", "TBW102", 4, NOW_MS) is None
    # Any other inheritable topic still does.
    assert table.topics.create_from_default("T", "DefaultCluster", 4, NOW_MS) is not None


def test_auto_creation_can_be_switched_on_later() -> None:
    table = Table(autoCreateTopicEnable="false")
    table.config.auto_create_topic_enable = True
    table.topics.ensure_auto_create_topic(NOW_MS)
    assert table.topics.create_from_default("T", "TBW102", 4, NOW_MS) is not None


def test_a_retry_topic_is_readable_and_writeable(table: Table) -> None:
    made = table.topics.create("%RETRY%g", 1, NOW_MS, topic_sys_flag=2)
    assert made == TopicConfig("%RETRY%g", 1, 1, 6, topic_sys_flag=2)
    assert table.instructions == [Persist("topics"), RegisterBroker(("%RETRY%g",))]


def test_topics_that_have_queues_and_no_place_are_made(table: Table) -> None:
    table.topics.update(TopicConfig("known", 2, 2), NOW_MS)
    table.instructions.clear()
    queues = {"known": [0, 5], "new": [3, 1], "%LMQ%l": [0], "SELF_TEST_TOPIC": [0], "bad/": [0]}
    assert table.topics.make_missing(queues, NOW_MS) == ["new"]
    made, known = table.topics.get("new"), table.topics.get("known")
    assert made == TopicConfig("new", 4, 4, 6)
    assert known is not None and known.read_queue_nums == 2
    assert table.instructions == [Persist("topics")]
    assert table.topics.make_missing(queues, NOW_MS) == []


def test_a_full_table_takes_no_topics_of_queues() -> None:
    made: list[Instruction] = []
    limits = structs.replace(DEFAULT_LIMITS, topics=len(SYSTEM) + 1)
    topics = Topics(settings().broker, made, NOW_MS, limits=limits)
    free = limits.topics - len(topics.wrapper().topic_config_table)
    queues = {f"T{number}": [0] for number in range(free + 2)}
    assert len(topics.make_missing(queues, NOW_MS)) == free


def test_a_name_that_is_no_path_never_enters_the_table(table: Table) -> None:
    with pytest.raises(RemoteProtocolError):
        table.topics.create("../x", 1, NOW_MS)
    with pytest.raises(RemoteProtocolError):
        table.topics.update(TopicConfig("a/b"), NOW_MS)
    assert table.topics.data_version.counter == 0


def test_each_new_topic_of_a_turn_waits_for_the_file(table: Table) -> None:
    table.topics.create("a", 1, NOW_MS)
    table.topics.create("b", 1, NOW_MS)
    # A registration each: the answer to whoever made a topic waits for it.
    assert table.instructions == [
        *(Persist("topics"), RegisterBroker(("a",))),
        *(Persist("topics"), RegisterBroker(("b",))),
    ]


def test_exactly_the_name_servers_order_topics_are_ordered(table: Table) -> None:
    table.topics.create("a", 1, NOW_MS)
    table.topics.create("b", 1, NOW_MS)
    table.topics.update_order_topics(["a", "unknown"], NOW_MS)
    assert [table.topics.get(name).order for name in "ab"] == [True, False]  # type: ignore[union-attr]
    before = table.topics.data_version
    table.topics.update_order_topics(["a"], NOW_MS)
    assert table.topics.data_version == before
    table.topics.update_order_topics(["b"], NOW_MS)
    assert [table.topics.get(name).order for name in "ab"] == [False, True]  # type: ignore[union-attr]


def test_plain_queues_follow_each_change_of_the_topics(table: Table) -> None:
    topics = table.topics
    plain = PlainQueues(topics)

    def flags() -> list[int | None]:
        return plain.flags([("T", 0), ("T", 2), ("T", -1)])

    assert flags() == [None] * 3
    topics.update(TopicConfig("T", 4, 4), NOW_MS)
    assert flags() == [0, 0, None]
    topics.update(TopicConfig("T", 1, 2, topic_filter_type="MULTI_TAG"), NOW_MS)
    narrow = [MESSAGE_MULTI_TAGS, None, None]
    assert flags() == narrow
    topics.update_order_topics(["T"], NOW_MS)
    assert flags() == [None] * 3
    topics.update_order_topics([], NOW_MS)
    assert flags() == narrow
    removed = topics.remove("T", NOW_MS)
    assert removed is not None and flags() == [None] * 3
    topics.put_back(removed, NOW_MS)
    assert flags() == narrow
    topics.remove("T", NOW_MS)
    [*_, last] = table.instructions
    assert flags() == [None] * 3
    assert isinstance(last, Persist) and last.undo is not None
    last.undo()
    assert flags() == narrow
    for queues, expected in ((3, [0, 0, None]), (1, [0, None, None])):
        text = f'"T":{{"topicName":"T","readQueueNums":{queues},"writeQueueNums":{queues}}}'
        topics.replace(f'{{"topicConfigTable":{{{text}}}}}')
        assert flags() == expected


def test_plain_queues_keep_few_topics_and_none_that_takes_no_plain_sends() -> None:
    topics = Table(True).topics
    plain = PlainQueues(topics)
    for number in range(2 * PLAIN_TOPICS_MAX):
        assert plain.flags([(f"%LMQ%{number}", 0), (f"made-up-{number}", 0)]) == [0, None]
    assert 0 < len(plain) <= PLAIN_TOPICS_MAX
    assert not any(name.startswith("made-up") for name in plain)
    assert plain.flags([("%RETRY%g", 0), ("SCHEDULE_TOPIC_XXXX", 0)]) == [None, None]


def test_a_new_version_alone_registers_again(table: Table) -> None:
    table.topics.next_version(NOW_MS + 1)
    assert table.topics.data_version == DataVersion(NOW_MS + 1, 1)
    assert table.instructions == [RegisterBroker()]


def test_topics_of_light_queues_are_not_listed() -> None:
    """Section 3: LMQ topics have implicit configs (1 queue, RW) and never enter topics.json."""
    table = Table(True)
    assert table.topics.get("%LMQ%q") == TopicConfig("%LMQ%q", 1, 1, 6)
    assert table.topics.get("%LMQ%../q") is None
    assert "%LMQ%q" not in table.topics.wrapper().topic_config_table
    assert Table().topics.get("%LMQ%q") is None


def test_the_real_brokers_file_is_read_and_written_alike(tmp_path: Path) -> None:
    store = extract_golden("delay_tx_retry", "store", tmp_path, prefix="config/")
    text = (store / "config" / "topics.json").read_text()
    table = Table()
    table.topics.load(text)
    assert table.topics.statistics()["dropped_name_count"] == 0
    written = table.topics.snapshot()()
    # The order of a Java map is not kept; the lines are the same ones.
    assert sorted(line.strip(",") for line in written.split("\n")) == sorted(
        line.strip(",") for line in text.split("\n")
    )
    table.topics.validate()


def test_names_of_a_file_that_are_no_paths_are_dropped(table: Table) -> None:
    table.topics.load(
        '{"topicConfigTable":{"../x":{"topicName":"../x"},"ok":{"topicName":"other"},'
        '"few":{"topicName":"few","readQueueNums":-1}},'
        '"dataVersion":{"timestamp":5,"counter":9}}'
    )
    assert table.topics.get("../x") is None
    assert table.topics.get("few") is None
    assert table.topics.get("ok") == TopicConfig("ok")
    assert table.topics.statistics()["dropped_name_count"] == 2
    assert table.topics.data_version == DataVersion(5, 9)


def test_a_groups_own_topic_may_have_a_dot(table: Table) -> None:
    table.topics.create("%RETRY%com.example.orders", 1, NOW_MS)
    again = Table()
    again.topics.load(table.topics.snapshot()())
    assert again.topics.get("%RETRY%com.example.orders") is not None
    assert again.topics.statistics()["dropped_name_count"] == 0
    again.topics.validate()


def test_a_brokers_own_name_may_have_a_dot() -> None:
    """4.9.3 takes the host's name, and writes a topic of that name to its file."""
    table = Table(brokerName="host.example")
    text = table.topics.snapshot()()
    again = Table(brokerName="host.example")
    again.topics.load(text)
    assert again.topics.statistics()["dropped_name_count"] == 0
    again.topics.validate()
