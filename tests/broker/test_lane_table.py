"""The lanes of 4.9.3: names, capacities and limits on waiting, in code and in the document."""

import re
from pathlib import Path

import msgspec
import pytest

from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Lane
from wakelog.broker.lane_table import broker_lanes
from wakelog.broker.processors.table import PROCESSORS
from wakelog.network.lanes import LaneSpec

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
def test_a_lane_stops_reading_before_it_refuses(lane: LaneSpec) -> None:
    assert lane.crowded_count <= lane.capacity_count


def documented_lanes() -> dict[str, tuple[str, ...]]:
    """The rows of the table of lanes in docs/overload.md: codes, capacity, key, weight, wait."""
    document = Path(__file__).parents[2] / "docs" / "overload.md"
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", document.read_text(), re.MULTILINE)
    return {name: tuple(rest.split(" | ")) for name, rest in rows}


@pytest.mark.parametrize("lane", broker_lanes(BrokerConfig()), ids=lambda lane: lane.name)
def test_the_document_agrees_with_the_table(lane: LaneSpec) -> None:
    codes, capacity, key, weight, wait = documented_lanes()[lane.name]
    assert capacity == f"{lane.capacity_count:,}"
    assert weight == str(lane.weight)
    seconds = lane.wait_seconds_max
    shown = {None: "none", 0.2: "200 ms"}.get(seconds) or f"{seconds:.0f} s"
    assert wait == shown
    if lane.name != Lane.ADMIN:
        assert key.strip("`") in {
            field.encode_name for field in msgspec.structs.fields(BrokerConfig)
        }
        served = {int(code) for code, row in PROCESSORS.items() if row.lane == lane.name}
        assert {int(code) for code in re.findall(r"\d+", codes)} == served
