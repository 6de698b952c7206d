"""What a reset comes to."""

from typing import Any

from wakelog.console.actions.table import ACTIONS


def test_a_reset_counts_what_comes_again_and_what_never_comes() -> None:
    shown = ACTIONS["reset-offsets"].shown
    assert shown is not None
    rows: list[dict[str, Any]] = [
        {"consumedTo": 10, "offset": 4},
        {"consumedTo": 1_204, "offset": 6},
        {"consumedTo": 5, "offset": 8},
        {"group": "g", "changed": False},
    ]
    assert shown.sums(rows) == ["gives 1,204 messages again, skips 3"]


def test_a_reset_is_shown_by_its_own_command_without_yes() -> None:
    action = ACTIONS["reset-offsets"]
    values = {"group": "g", "topic": "t", "to": "2h"}
    assert action.shown is not None
    assert [*action.shown.words(values), "--yes"] == list(action.words(values))
