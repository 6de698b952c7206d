"""The lanes of 4.9.3: names, capacities and limits on waiting."""

import pytest

from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Lane
from wakelog.server.lane_table import NAME_SERVER_LANE, broker_lanes, name_server_lanes

# BrokerConfig of 4.9.3; None means that BrokerFastFailure does not look at the queue.
EXPECTED = {
    "send": (10_000, 0.2),
    "pull": (100_000, 5.0),
    "reply": (10_000, None),
    "query": (20_000, None),
    "clientManage": (1_000_000, None),
    "consumerManage": (1_000_000, None),
    "heartbeat": (50_000, 31.0),
    "endTransaction": (100_000, 3.0),
    "admin": (10_000, None),
}


def test_a_broker_has_the_lanes_of_4_9_3() -> None:
    lanes = {lane.name: lane for lane in broker_lanes(BrokerConfig())}
    assert set(lanes) == {lane.value for lane in Lane}
    found = {name: (lane.capacity_count, lane.wait_seconds_max) for name, lane in lanes.items()}
    assert found == EXPECTED


def test_no_lane_refuses_for_time_without_fast_failure() -> None:
    lanes = broker_lanes(BrokerConfig(broker_fast_failure_enable=False))
    assert {lane.wait_seconds_max for lane in lanes} == {None}


def test_capacities_and_waits_come_from_the_configuration() -> None:
    config = BrokerConfig(send_thread_pool_queue_capacity=1, wait_time_mills_in_send_queue=50)
    (send,) = [lane for lane in broker_lanes(config) if lane.name == Lane.SEND]
    assert (send.capacity_count, send.wait_seconds_max) == (1, 0.05)


@pytest.mark.parametrize("lane", broker_lanes(BrokerConfig()), ids=lambda lane: lane.name)
def test_a_lane_stops_reading_before_it_refuses(lane: object) -> None:
    assert lane.crowded_count <= lane.capacity_count  # type: ignore[attr-defined]


def test_a_name_server_has_one_lane() -> None:
    assert [lane.name for lane in name_server_lanes()] == [NAME_SERVER_LANE]
