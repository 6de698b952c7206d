"""Epochs: what two logs have in common, and a file that keeps promise and lines."""

from collections.abc import Callable

import pytest

from tests.simulation.disk import SimulatedDisk
from wakelog.broker.replication.epochs import (
    LINES_MAX,
    SLOTS,
    EpochLine,
    Epochs,
    EpochSlot,
    common_point,
    line_at,
)
from wakelog.storage.durability.slot_file import SlotFile

LOG_ID = bytes(range(16))


def lines(*pairs: tuple[int, int]) -> tuple[EpochLine, ...]:
    """Write lines shortly."""
    return tuple(EpochLine(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("own", "own_end", "other", "other_end", "common"),
    [
        (lines((1, 0)), 9, lines((1, 0)), 5, 5),
        (lines((1, 0)), 9, lines((1, 0), (2, 7)), 20, 7),
        (lines((1, 0), (2, 7)), 9, lines((1, 0), (3, 5)), 20, 5),
        (lines((1, 0), (2, 7)), 9, lines((1, 0), (3, 8)), 20, 7),
        (lines((1, 0), (2, 7)), 9, lines((1, 0), (2, 7), (3, 8)), 20, 8),
        (lines((1, 0), (2, 6)), 9, lines((1, 0), (2, 7)), 20, 6),  # no epoch begins twice
        (lines((2, 4)), 9, lines((1, 0), (2, 4)), 8, 8),
        (lines((1, 0)), 9, lines((2, 0)), 9, None),
        ((), 0, lines((1, 0)), 9, None),
    ],
)
def test_logs_are_equal_up_to_the_common_point(
    own: tuple[EpochLine, ...],
    own_end: int,
    other: tuple[EpochLine, ...],
    other_end: int,
    common: int | None,
) -> None:
    assert common_point(own, own_end, other, other_end) == common
    assert common_point(other, other_end, own, own_end) == common


def test_a_byte_belongs_to_the_last_line_before_it() -> None:
    known = lines((1, 0), (2, 5), (3, 5), (4, 9))
    assert [line_at(known, offset) for offset in (0, 4, 5, 8, 9, 99)] == [0, 0, 2, 2, 3, 3]
    assert line_at(lines((1, 4)), 3) == -1


class EpochFile:
    """An epoch file on a simulated disk, opened again each time."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()

    def open(self, log_end: int = 100) -> Epochs:
        """Open it as a new process does."""
        return Epochs(SlotFile(self.disk.process(), "/epochs", SLOTS), log_end)


def test_what_was_noted_is_there_after_a_restart() -> None:
    file = EpochFile()
    epochs = file.open()
    assert (epochs.promise, epochs.lines, epochs.log_id) == (0, (), bytes(16))
    epochs.join(LOG_ID, is_seeding=True)
    epochs.make_promise(3)
    epochs.begin(EpochLine(2, 0))
    epochs.begin(EpochLine(3, 7))
    again = file.open()
    assert (again.promise, again.lines, again.log_id) == (3, lines((2, 0), (3, 7)), LOG_ID)
    assert again.is_seeding
    again.end_seeding()
    again.cut(lines((2, 0)))
    last = file.open()
    assert (last.promise, last.lines, last.is_seeding) == (3, lines((2, 0)), False)


def test_lines_beyond_the_log_are_forgotten() -> None:
    file = EpochFile()
    epochs = file.open()
    epochs.make_promise(2)
    epochs.begin(EpochLine(1, 0))
    epochs.begin(EpochLine(2, 50))
    assert file.open(50).lines == lines((1, 0), (2, 50))
    assert file.open(49).lines == lines((1, 0))


def test_a_promise_never_falls() -> None:
    epochs = EpochFile().open()
    epochs.make_promise(4)
    epochs.make_promise(4)
    with pytest.raises(AssertionError):
        epochs.make_promise(3)


@pytest.mark.parametrize("line", [EpochLine(2, 9), EpochLine(3, 4), EpochLine(5, 9)])
def test_lines_ascend_and_were_promised(line: EpochLine) -> None:
    epochs = EpochFile().open()
    epochs.make_promise(4)
    epochs.begin(EpochLine(2, 5))
    with pytest.raises(AssertionError):
        epochs.begin(line)


def test_the_newest_lines_are_kept() -> None:
    file = EpochFile()
    epochs = file.open()
    epochs.make_promise(1000)
    for epoch in range(1, LINES_MAX + 4):
        epochs.begin(EpochLine(epoch, epoch))
    kept = file.open(10_000).lines
    assert kept == epochs.lines and len(kept) == LINES_MAX and kept[0] == (4, 4)


def test_a_torn_slot_leaves_the_one_before() -> None:
    slots = [EpochSlot(n, n, LOG_ID, 0, 1, bytes(7) + b"\1" + bytes(8)) for n in (4, 5)]
    data = bytearray(8192)
    for slot in slots:
        encoded = SLOTS.encode(slot)
        assert len(encoded) <= 4096
        data[SLOTS.position(slot) : SLOTS.position(slot) + len(encoded)] = encoded
    assert SLOTS.newest(bytes(data)).promise == 5
    for position in range(SLOTS.position(slots[1]), SLOTS.position(slots[1]) + 60):
        torn = bytearray(data)
        torn[position] ^= 0x10
        assert SLOTS.newest(bytes(torn)).promise == 4


@pytest.mark.parametrize(
    ("promise", "line_count", "is_possible"),
    [
        (0, 0, True),
        (-1, 0, False),
        (1, -1, False),
        (1, LINES_MAX, True),
        (1, LINES_MAX + 1, False),
    ],
)
def test_what_a_writer_can_have_written(
    promise: int, line_count: int, *, is_possible: bool
) -> None:
    slot = EpochSlot(1, promise, LOG_ID, 0, line_count)
    assert slot.is_possible is is_possible


def test_a_line_may_begin_where_the_last_one_did() -> None:
    epochs = EpochFile().open()
    epochs.make_promise(3)
    epochs.begin(EpochLine(1, 0))
    epochs.begin(EpochLine(3, 0))
    assert epochs.lines == lines((1, 0), (3, 0))


def test_only_a_change_is_written() -> None:
    epochs = EpochFile().open()

    def writes(change: Callable[[], None]) -> int:
        before = epochs._file.mark.sequence
        change()
        return epochs._file.mark.sequence - before

    assert writes(lambda: epochs.join(LOG_ID, lines((0, 0)), is_seeding=True)) == 1
    assert [writes(lambda: epochs.make_promise(2)) for _ in range(2)] == [1, 0]
    assert [writes(epochs.end_seeding) for _ in range(2)] == [1, 0]
    assert writes(lambda: epochs.cut(lines((0, 0)))) == 0
    assert writes(lambda: epochs.cut(())) == 1
    assert (epochs.promise, epochs.log_id, epochs.lines) == (2, LOG_ID, ())
