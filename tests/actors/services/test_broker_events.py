"""Holds travel as plain parts and come back as they were, as far as they have to."""

import pytest

from wakelog.actors.services.broker_events import HOLD_CODES_MAX, hold_note, read_hold_note
from wakelog.broker.decision import HoldPull


@pytest.mark.parametrize("codes", [None, frozenset(), frozenset({1, -5, 2**62})])
def test_a_hold_comes_back_as_it_was(codes: frozenset[int] | None) -> None:
    note = HoldPull(3, "topic", 2, 17, 1_000, codes)
    assert read_hold_note(hold_note(note)) == note


def test_a_hold_of_very_many_tags_travels_as_one_of_all() -> None:
    note = HoldPull(3, "topic", 2, 17, 1_000, frozenset(range(HOLD_CODES_MAX + 1)))
    assert read_hold_note(hold_note(note)).codes is None
