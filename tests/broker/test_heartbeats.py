"""What clients leave while heartbeats are under way."""

import pytest

from wakelog.broker import heartbeats
from wakelog.broker.error_response import LimitReached
from wakelog.broker.heartbeats import HeartbeatsUnderWay, Member

G, H = (Member.CONSUMER, "g"), (Member.PRODUCER, "g")


def test_a_heartbeat_keeps_what_its_connection_leaves() -> None:
    beats = HeartbeatsUnderWay()
    beats.note_left(1, G)
    with beats.begin(1) as first, beats.begin(2) as other:
        beats.note_left(1, G, H)
        with beats.begin(1) as second:
            beats.note_left(1, H)
        assert (list(first.left), list(second.left), list(other.left)) == ([G, H], [H], [])
        assert len(beats) == 2
    assert len(beats) == 0


def test_what_a_later_heartbeat_registers_is_not_left() -> None:
    beats = HeartbeatsUnderWay()
    with beats.begin(1) as first:
        beats.note_left(1, G, H)
        with beats.begin(1) as second:
            beats.note_left(1, H)
            beats.note_registered(second, G)
            beats.note_registered(first, H)
        assert (list(first.left), list(second.left)) == ([H], [H])


def test_so_much_is_kept_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "LEFT_MAX", 1)
    beats = HeartbeatsUnderWay()
    with beats.begin(1) as first:
        beats.note_left(1, G)
        with pytest.raises(LimitReached, match="groups left during a heartbeat"):
            beats.note_left(1, H)
        assert list(first.left) == [G]
    beats.note_left(1, G, H)
