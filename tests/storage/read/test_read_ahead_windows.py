"""ReadAheadWindows: a sequential consumer has the next window read ahead, no other has."""

import pytest

from wakelog.storage.read.read_ahead_windows import WINDOW_BYTES, WINDOWS_MAX, ReadAheadWindows

FAR = 100 * WINDOW_BYTES


def wanted(windows: ReadAheadWindows, *entered: int) -> list[int | None]:
    """Return which windows are wanted when the given ones are entered, one after the other."""
    found = (windows.next_wanted(number * WINDOW_BYTES + 5, FAR) for number in entered)
    return [None if place is None else place // WINDOW_BYTES for place in found]


@pytest.mark.parametrize(
    ("entered", "expected"),
    [
        ((7,), [None]),
        ((7, 7, 7), [None, None, None]),
        ((7, 8, 8, 9, 10), [None, 9, None, 10, 11]),
        ((7, 8, 10, 11), [None, 9, 11, 12]),  # who steps over what was read ahead
        ((7, 90, 30, 60), [None, None, None, None]),  # who jumps about
        ((8, 7), [None, None]),
        ((7, 8, 7, 8, 9), [None, 9, None, None, 10]),  # queues that lie side by side
        ((7, 50, 8, 51), [None, None, 9, 52]),  # two that read along, at different places
        ((7, 8, 9, 7, 8, 9), [None, 9, 10, None, None, None]),  # what was read lately
    ],
)
def test_a_consumer_in_the_next_window_wants_the_one_after(
    entered: tuple[int, ...], expected: list[int | None]
) -> None:
    assert wanted(ReadAheadWindows(), *entered) == expected


def test_nothing_is_wanted_near_the_end_of_the_log() -> None:
    windows = ReadAheadWindows()
    assert windows.next_wanted(0, FAR) is None
    assert windows.next_wanted(WINDOW_BYTES, 2 * WINDOW_BYTES - 1) is None
    assert windows.next_wanted(WINDOW_BYTES, 2 * WINDOW_BYTES) == 2 * WINDOW_BYTES


def test_a_bounded_number_of_windows_is_remembered() -> None:
    windows = ReadAheadWindows()
    assert wanted(windows, 0, 1) == [None, 2]
    wanted(windows, *range(1_000, 1_000 + 2 * WINDOWS_MAX, 2))
    assert wanted(windows, 0, 1) == [None, 2]


def test_a_window_that_is_entered_again_is_remembered_longer_than_those_before_it() -> None:
    others = [1_000 + 2 * number for number in range(WINDOWS_MAX)]
    windows = ReadAheadWindows()
    wanted(windows, 7, *others[:-1], 7, others[-1])
    assert wanted(windows, others[0] + 1, 8) == [None, 9]
