"""A broker for the tests of applications: in the test's process, without Ray, ready in 0.2 s.

    def test_an_order_is_announced(wakelog_broker):
        place_order(name_server=wakelog_broker.name_server)
        [message] = wakelog_broker.wait_for_messages("orders", count=1)
        assert message.tags == "paid"

pytest finds the fixtures by itself once wakelog is installed. `EmbeddedBroker` is the same broker
for other test runners. `faulty_disk` makes its disk slow or full.
"""

from wakelog.testing.embedded_broker import AsyncEmbeddedBroker, EmbeddedBroker, MessagesMissing

__all__ = ["AsyncEmbeddedBroker", "EmbeddedBroker", "MessagesMissing"]
