"""A drain ends once clients have moved, and at its bound."""

from tests.broker.harness import Harness
from tests.fakes.registrations import decode_register_broker
from wakelog.broker.drain import QUIET_MS, Drain
from wakelog.broker.registration import registration
from wakelog.protocol.sys_flag import PERM_READ

PRODUCERS, PULLS = "producers to move", "held pulls to end"


def test_it_waits_until_no_send_has_come_for_a_while() -> None:
    drain = Drain(1_000, 60_000, sends_count=5, next_hold_id=1)
    assert drain.waits_for(1_000 + QUIET_MS - 1, 5, has_held=False) == PRODUCERS
    assert drain.waits_for(1_000 + QUIET_MS, 6, has_held=False) == PRODUCERS
    assert drain.waits_for(999 + 2 * QUIET_MS, 6, has_held=False) == PRODUCERS
    assert drain.waits_for(1_000 + 2 * QUIET_MS, 6, has_held=False) == ""


def test_it_waits_for_the_pulls_that_were_held() -> None:
    drain = Drain(0, 60_000, sends_count=0, next_hold_id=9)
    assert drain.waits_for(QUIET_MS, 0, has_held=True) == PULLS
    assert drain.waits_for(QUIET_MS + 1, 0, has_held=False) == ""


def test_it_ends_at_its_bound_whatever_comes() -> None:
    drain = Drain(0, 5_000, sends_count=0, next_hold_id=9)
    assert drain.waits_for(4_999, 1, has_held=True) == PRODUCERS
    assert drain.waits_for(5_000, 2, has_held=True) == ""


def test_a_broker_counts_its_sends_and_knows_the_pulls_from_before() -> None:
    harness = Harness()
    broker, held = harness.broker, harness.broker.state.held
    harness.send("T")
    assert broker.sends_count == 1
    harness.hold(queueOffset=1)
    first = held.next_id
    harness.hold(queueOffset=1)
    assert held.next_id == first + 1
    assert held.has_before(first) and not held.has_before(first - 1)


def test_a_broker_that_drains_registers_its_topics_to_be_read() -> None:
    harness = Harness()
    harness.send("T")
    before = harness.broker.state.topics.data_version
    harness.broker.begin_drain(harness.now_ms)
    [request] = registration(harness.broker.state)()
    body = decode_register_broker(request.body, compressed=False)
    wrapper = body.topic_config_serialize_wrapper
    assert {each.perm for each in wrapper.topic_config_table.values()} == {PERM_READ}
    assert wrapper.data_version != before
    assert harness.topic("T").perm == 6 and harness.send("T").code == 0
