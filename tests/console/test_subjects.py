"""How things are named."""

from wakelog.console.snapshot import BrokerReading
from wakelog.console.subjects import broker_text, queue_text, role_text
from wakelog.protocol.body_codec import MessageQueue


def test_a_thing_is_named_with_where_it_is() -> None:
    assert broker_text(BrokerReading("c", "a", 0, "a:1")) == "broker a (0) at a:1"
    assert queue_text(MessageQueue("T", "a", 3)) == "queue 3 of T at a"
    assert (role_text(0), role_text(2)) == ("master", "replica 2")
