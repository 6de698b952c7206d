"""The limits of a stop add up, from the inside out."""

from wakelog.actors.transport.stop_limits import (
    ADDED_RELEASE_SECONDS_MAX,
    BROKER_STOP_SECONDS_MAX,
    CATCH_UP_SECONDS_MAX,
    NAME_SERVER_STOP_SECONDS_MAX,
    RELEASE_SECONDS_MAX,
    RELEASES_SECONDS_MAX,
    stop_seconds_max,
)
from wakelog.network.server import CLOSE_SECONDS_MAX


def test_each_limit_has_room_for_what_it_holds() -> None:
    assert ADDED_RELEASE_SECONDS_MAX < RELEASE_SECONDS_MAX < RELEASES_SECONDS_MAX
    inner = CLOSE_SECONDS_MAX + CATCH_UP_SECONDS_MAX + RELEASES_SECONDS_MAX
    assert inner < BROKER_STOP_SECONDS_MAX
    assert stop_seconds_max(1) > BROKER_STOP_SECONDS_MAX + NAME_SERVER_STOP_SECONDS_MAX
    assert stop_seconds_max(3) == stop_seconds_max(1) + 2 * BROKER_STOP_SECONDS_MAX
    assert stop_seconds_max(0) == stop_seconds_max(1) == 90.0
