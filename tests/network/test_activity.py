"""Which connections have to be closed, as a table of times."""

import pytest

from wakelog.network.activity import Activity, CloseReason, verdict
from wakelog.network.limits import ServerLimits

LIMITS = ServerLimits(write_stall_seconds_max=30, frame_seconds_max=20, idle_seconds_max=120)


def activity(
    *,
    read: float = 0.0,
    written: float = 0.0,
    drained: float = 0.0,
    frame_begun: float | None = None,
) -> Activity:
    return Activity(read, written, drained, frame_begun)


@pytest.mark.parametrize(
    ("state", "now", "expected"),
    [
        (activity(drained=100), 119.9, None),
        (activity(drained=100), 120, CloseReason.IDLE),
        (activity(read=60, drained=150), 150, None),
        (activity(written=60, drained=150), 150, None),
        (activity(read=60, written=40, drained=180), 180, CloseReason.IDLE),
        (activity(read=30, frame_begun=10, drained=20), 29.9, None),
        (activity(read=30, frame_begun=10, drained=20), 30, CloseReason.SLOW_FRAME),
        (activity(read=40, written=40, drained=10), 39.9, None),
        (activity(read=40, written=40, drained=10), 40, CloseReason.WRITE_STALL),
    ],
)
def test_verdict(state: Activity, now: float, expected: CloseReason | None) -> None:
    assert verdict(state, now, LIMITS) is expected


def test_a_new_connection_that_sends_nothing_is_idle() -> None:
    state = Activity.begin(5.0)
    state.on_drained(0, left_bytes=0, now_seconds=124.9)
    assert verdict(state, 124.9, LIMITS) is None
    assert verdict(state, 125.0, LIMITS) is CloseReason.IDLE


@pytest.mark.parametrize(
    ("drained_bytes", "left_bytes", "expected_drained_seconds"),
    [
        (100, 50, 0.0),  # nothing more was read
        (101, 49, 9.0),  # slow, but it reads
        (100, 0, 9.0),  # nothing waits
    ],
)
def test_progress_is_what_the_peer_has_read(
    drained_bytes: int, left_bytes: int, expected_drained_seconds: float
) -> None:
    state = activity()
    state.on_drained(100, left_bytes=50, now_seconds=0.0)
    state.on_drained(drained_bytes, left_bytes=left_bytes, now_seconds=9.0)
    assert state.drained_seconds == expected_drained_seconds
