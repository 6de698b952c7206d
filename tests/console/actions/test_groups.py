"""What a reset comes to."""

from typing import Any

from wakelog.console.actions.groups import moves_of
from wakelog.console.actions.table import ACTIONS
from wakelog.protocol.bodies import ConsumeStats, OffsetWrapper
from wakelog.protocol.body_codec import MessageQueue


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


QUEUES = [MessageQueue("t", "a", number) for number in range(3)]


def stats(offsets: dict[int, int]) -> ConsumeStats:
    return ConsumeStats({QUEUES[x]: OffsetWrapper(100, y) for x, y in offsets.items()})


def test_a_clone_counts_what_comes_again_what_never_comes_and_what_is_new() -> None:
    source, target = stats({0: 4, 1: 9, 2: 5}), stats({0: 10, 1: 6})
    source.offset_table[MessageQueue("%RETRY%s", "a", 0)] = OffsetWrapper(1, 1)
    source.offset_table[MessageQueue("t", "elsewhere", 0)] = OffsetWrapper(9, 9)
    source.offset_table[MessageQueue("t", "a", 9)] = OffsetWrapper(9, -1)
    assert moves_of(source, target, {"a"}) == [
        "it gets the offsets of 4 queues, of topics t",
        "gives 6 messages again, skips 3",
        "2 of these have no offset of it yet",
    ]


def test_deleting_a_group_says_what_becomes_of_its_offsets() -> None:
    action = ACTIONS["delete-group"]
    values, _ = action.checked({"group": "g", "cluster": "c", "offsets": "true"})
    assert list(action.words(values))[-2:] == ["-r", "true"]
    values, _ = action.checked({"group": "g", "cluster": "c"})
    assert "-r" not in action.words(values)
