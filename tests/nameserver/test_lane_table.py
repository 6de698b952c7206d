"""The lanes of a name server."""

from wakelog.nameserver.lane_table import (
    BROKERS_CODES,
    BROKERS_LANE,
    DEFAULT_LANE,
    name_server_lanes,
)
from wakelog.network.lanes import InLane, Lanes
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand


def test_a_question_for_a_route_waits_for_few_of_many_registrations() -> None:
    """5,000 brokers that registered at once held up a client for 0.3 s."""
    route, registration = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.REGISTER_BROKER
    lanes: Lanes[str] = Lanes(
        name_server_lanes(),
        lane_of_code=dict.fromkeys(BROKERS_CODES, BROKERS_LANE),
        default_lane=DEFAULT_LANE,
        bytes_max=1_000_000,
    )
    for number in range(1_000):
        lanes.offer(InLane(f"broker {number}", RemotingCommand(registration), 0.0, 100))
    assert lanes.take() is not None
    lanes.offer(InLane("client", RemotingCommand(route), 0.0, 100))
    taken = [lanes.take() for _ in range(8)]
    assert [one.owner for one in taken if one is not None][-1] == "client"
