"""Texts of positions, their precedence, and the queues that they name."""

from typing import Any

import pytest

from wakelog.spark.bounds import Topics
from wakelog.spark.errors import OptionError
from wakelog.spark.positions import (
    LATEST,
    Position,
    each_queue,
    read_assignment,
    read_begin,
    read_end,
    read_offsets,
    take_begin,
    take_end,
)


def test_assignments_and_offsets_are_by_broker_or_for_all_brokers() -> None:
    assert read_assignment('{"A":{"b":[0,1]},"B":[2]}') == {"A": {"b": {0, 1}}, "B": {"": {2}}}
    text = '{"A":{"b":{"0":5,"1":-1}},"B":{"3":-2}}'
    assert read_offsets(text) == {"A": {"b": {0: 5, 1: -1}}, "B": {"": {3: -2}}}
    with pytest.raises(ValueError, match="'x' is no queue id"):
        read_offsets('{"A":{"x":1}}')
    with pytest.raises(ValueError, match="JSON by topic and queue"):
        read_offsets('{"A":5}')


def test_a_position_is_a_word_or_offsets() -> None:
    assert read_begin(" Earliest") == Position(word="earliest")
    assert read_end("LATEST") == Position(word=LATEST)
    assert read_begin('{"A":{"0":-2}}').offsets == {"A": {"": {0: -2}}}
    with pytest.raises(ValueError, match="0, -1 for latest, -2 for earliest; -3 of A is none"):
        read_begin('{"A":{"0":-3}}')
    with pytest.raises(ValueError, match="from 0, -1 for latest; -2 of A is none"):
        read_end('{"A":{"0":-2}}')
    with pytest.raises(ValueError, match="cannot be earliest"):
        read_end("earliest")


OFFSETS: dict[str, Any] = {"starting_offsets": Position(word=LATEST)}
TIMES = {"A": {"": {0: 7}}}


def test_a_time_wins_over_times_of_queues_and_these_over_offsets() -> None:
    assert take_begin({}) == Position()
    assert take_begin({**OFFSETS}) == Position(word=LATEST)
    assert take_begin({**OFFSETS, "starting_times_ms": TIMES}) == Position(times_ms=TIMES)
    values = {**OFFSETS, "starting_times_ms": TIMES, "starting_time_ms": 0, "ending_time_ms": 5}
    assert take_begin(values) == Position(time_ms=0)
    assert take_end(values) == Position(time_ms=5)
    assert not values


def test_a_group_and_offsets_exclude_each_other() -> None:
    assert take_begin({"starting_group": "g", "starting_time_ms": 1}) == Position(group="g")
    with pytest.raises(OptionError, match="exclude one another"):
        take_begin({**OFFSETS, "starting_group": "g"})


def test_a_queue_without_a_broker_is_meant_at_every_broker() -> None:
    offsets = {"A": {"": {0: 5}, "b": {1: 6}}}
    found = dict(each_queue(offsets, Topics(), ["a", "b"], "store"))
    assert found == {("a", "A", 0): 5, ("b", "A", 0): 5, ("b", "A", 1): 6}
    with pytest.raises(OptionError, match=r"no store is called 'b', did you mean 'bb'\?; .* bb"):
        dict(each_queue(offsets, Topics(), ["bb"], "store"))
    with pytest.raises(OptionError, match="queue 0 of 'A', which is not subscribed"):
        dict(each_queue(offsets, Topics(names=frozenset("B")), ["a", "b"], "store"))
