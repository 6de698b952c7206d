"""What a change of a topic's queues and permission comes to."""

from tests.console.actions.test_topics import preview
from wakelog.client.sync import Producer
from wakelog.console.actions.table import ACTIONS
from wakelog.console.actions.topic_settings import QueueSettings, changes_of, unread
from wakelog.protocol.bodies import QueueData, TopicOffset
from wakelog.protocol.body_codec import MessageQueue
from wakelog.testing.embedded_broker import EmbeddedBroker

RW, READ = 6, 4


def test_changes_are_said_with_both_values_and_how_many_brokers() -> None:
    found = [QueueData("a", 4, 4, RW), QueueData("b", 8, 4, RW)]
    assert changes_of(found, QueueSettings(8, 8, READ)) == [
        "queues to read are 4, and will be 8 at 1 broker",
        "queues to write are 4, and will be 8 at 2 brokers",
        "clients may read and write now, and will read alone at 2 brokers",
    ]
    assert changes_of(found[:1], QueueSettings(4, 4, RW)) == [
        "its queues and permission stay at 1 broker"
    ]
    [closed] = changes_of([QueueData("a", 4, 4, 0)], QueueSettings(4, 4, READ))
    assert closed == "clients may do nothing now, and will read alone at 1 broker"


def test_messages_of_queues_that_go_are_counted() -> None:
    table = {MessageQueue("T", "a", n): TopicOffset(n, 10) for n in range(4)}
    table[MessageQueue("T", "b", 9)] = TopicOffset(0, 100)
    assert unread(table, {"a"}, 2) == ["15 messages of queues from 2 on can be read no more"]
    assert unread(table, {"a"}, 4) == []


def test_a_change_says_first_what_is_lost(console_broker: EmbeddedBroker) -> None:
    console_broker.create_topic("narrowed", queues=4)
    with Producer(console_broker.name_server, group="p") as producer:
        for number in range(4):
            producer.send("narrowed", b"%d" % number, queue=("broker-a", number))
    console_broker.wait_for_messages("narrowed", count=4)
    wanted = {"topic": "narrowed", "read": "1", "write": "2", "perm": "2"}
    said = preview("change-topic", console_broker, wanted)
    assert said[0] == "queues to read are 4, and will be 1 at 1 broker"
    assert "3 messages of queues from 1 on can be read no more" in said
    assert "what is sent to queues from 1 on is not consumed" in said
    assert said[-1] == "groups that can consume it no more: none"


def test_a_permission_without_writes_refuses_sends(console_broker: EmbeddedBroker) -> None:
    console_broker.create_topic("closing", queues=2)
    said = preview("change-permission", console_broker, {"topic": "closing", "perm": "4"})
    assert said == [
        "clients may read and write now, and will read alone at 1 broker",
        "sends to it are refused",
    ]


def test_a_broker_that_is_named_is_changed_alone() -> None:
    for name in ("change-topic", "change-permission"):
        given = {"topic": "t", "cluster": "c", "broker": "b:1"}
        values, wrong = ACTIONS[name].checked(given)
        assert not wrong and list(ACTIONS[name].words(values))[2:4] == ["-b", "b:1"]
