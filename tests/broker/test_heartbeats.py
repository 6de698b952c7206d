"""What clients leave while heartbeats are under way."""

import pytest

from wakelog.broker import heartbeats
from wakelog.broker.error_response import LimitReached
from wakelog.broker.heartbeats import ClientRole, HeartbeatsUnderWay

G, H = (ClientRole.CONSUMER, "g"), (ClientRole.PRODUCER, "g")


def test_a_heartbeat_keeps_what_its_connection_leaves() -> None:
    beats = HeartbeatsUnderWay()
    beats.on_left(1, G)
    with beats.begin(1) as first, beats.begin(2) as other:
        beats.on_left(1, G, H)
        with beats.begin(1) as second:
            beats.on_left(1, H)
        assert (list(first.left), list(second.left), list(other.left)) == ([G, H], [H], [])
        assert len(beats) == 2
    assert len(beats) == 0


def test_what_a_later_heartbeat_registers_is_not_left() -> None:
    beats = HeartbeatsUnderWay()
    with beats.begin(1) as first:
        beats.on_left(1, G, H)
        with beats.begin(1) as second:
            beats.on_left(1, H)
            beats.on_registered(second, G)
            beats.on_registered(first, H)
        assert (list(first.left), list(second.left)) == ([H], [H])


def test_so_much_is_kept_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "LEFT_MAX", 1)
    beats = HeartbeatsUnderWay()
    with beats.begin(1) as first:
        beats.on_left(1, G)
        with pytest.raises(LimitReached, match="groups left during a heartbeat"):
            beats.on_left(1, H)
        assert list(first.left) == [G]
    beats.on_left(1, G, H)
