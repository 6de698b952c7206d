"""Few pulls have a place at once, and those that wait get theirs in order."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from wakelog.actors.broker import filter_places
from wakelog.actors.broker.filter_places import PLACES_COUNT, FilterPlaces
from wakelog.broker.effects import FilterPlace
from wakelog.network.driver import Task
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError


class Pulls:
    """Pulls by number, each with what gives its place back."""

    def __init__(self) -> None:
        self.places = FilterPlaces()
        self.begun: dict[int, Callable[[], None]] = {}

    def ask(self, number: int) -> None:
        class Pull:
            def resume(_, give_back: Any) -> None:
                self.begun[number] = give_back

        self.places.take(FilterPlace(), cast(Task, Pull()))

    def end(self, number: int) -> None:
        self.begun.pop(number)()


def test_places_go_to_those_that_wait_in_order() -> None:
    pulls = Pulls()
    assert PLACES_COUNT == 2
    for number in range(5):
        pulls.ask(number)
    assert sorted(pulls.begun) == [0, 1]
    pulls.end(1)
    assert sorted(pulls.begun) == [0, 2]
    pulls.end(0)
    pulls.end(2)
    assert sorted(pulls.begun) == [3, 4]
    pulls.end(3)
    pulls.end(4)
    for number in (5, 6, 7):
        pulls.ask(number)
    assert sorted(pulls.begun) == [5, 6], "both places were free again, and no more"


def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_places, "WAITING_MAX", 1)
    pulls = Pulls()
    for number in range(3):
        pulls.ask(number)
    with pytest.raises(RemoteProtocolError, match="1 pulls wait for their filter") as refused:
        pulls.ask(3)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    pulls.end(0)
    assert sorted(pulls.begun) == [1, 2]
    pulls.ask(4)
    pulls.end(1)
    assert sorted(pulls.begun) == [2, 4]
