"""Which half messages are copies, and which offsets they name."""

from collections.abc import Sequence
from random import Random

import pytest

from wakelog.broker import half_copies
from wakelog.broker.half_copies import EarlierCopies, RenewedCopies
from wakelog.broker.half_queue import HalfMessage, Page
from wakelog.protocol.java import LONG_MAX

BORN_MS = 940_000
PAGE = 32


class Queue:
    """A half queue from offset 0 on; by offset what a copy names, and all that was read."""

    def __init__(self, end: int, names: dict[int, int] | None = None) -> None:
        self.end = end
        self.names = names or {}
        self.read_offsets: list[int] = []

    def read(self, offset: int) -> Page[HalfMessage]:
        offsets = range(offset, min(offset + PAGE, self.end))
        self.read_offsets += offsets
        return Page([self.half(one) for one in offsets], offsets.stop if offsets else offset)

    def half(self, offset: int) -> HalfMessage:
        first = self.names.get(offset)
        text = None if first is None else str(first)
        half = HalfMessage(offset, offset * 100, 100, BORN_MS, BORN_MS, prepared_queue_offset=text)
        return half


class KeyedQueue:
    """A half queue of keys from offset 0 on; what comes again is a copy. Counts what is read."""

    def __init__(self, keys: Sequence[str], end: int) -> None:
        self.read_count = 0
        self.halves = [
            HalfMessage(
                n, n, 100, BORN_MS, BORN_MS, "1" if key in keys[:n] else None, unique_key=key
            )
            for n, key in enumerate(keys)
        ]
        self.copied = {n for n, key in enumerate(keys[:end]) if key in keys[n + 1 : end]}

    def read(self, offset: int) -> Page[HalfMessage]:
        found = self.halves[offset : offset + PAGE]
        self.read_count += len(found)
        return Page(found, offset + len(found))


@pytest.mark.parametrize("window", [1, 7, 50, 200, 1_000])
@pytest.mark.parametrize("read_max", [1, 33, 1_000])
def test_each_copy_from_before_the_start_is_known(
    monkeypatch: pytest.MonkeyPatch, window: int, read_max: int
) -> None:
    """Below `known_end`, whatever the window is; and what comes later is none."""
    monkeypatch.setattr(half_copies, "COPIES_WINDOW", window)
    monkeypatch.setattr(half_copies, "COPIES_READ_MAX", read_max)
    end, chance = 180, Random(window)
    queue = KeyedQueue([str(chance.randrange(120)) for _ in range(200)], end)
    copies, passed = EarlierCopies(), set[int]()
    for offset in range(3, 200):
        while copies.known_end <= offset:
            before = queue.read_count
            copies.begin_call(offset, end, queue.read)
            assert queue.read_count - before < read_max + PAGE
        if copies.has_copy(queue.halves[offset]):
            passed.add(offset)
    assert passed == {n for n in queue.copied if n >= 3}
    copies.begin_call(200, end, queue.read)
    assert copies.known_end == LONG_MAX


def test_a_queue_that_fits_the_window_is_read_once() -> None:
    queue = KeyedQueue([str(n) for n in range(100)], 100)
    copies = EarlierCopies()
    for offset in range(120):
        copies.begin_call(offset, 100, queue.read)
    assert queue.read_count == 100


def test_what_an_unpassed_copy_names_is_named() -> None:
    queue, renewed = Queue(100, {40: 7, 80: 7, 90: 8}), RenewedCopies()
    renewed.begin_call(10, 1, queue.read)
    assert [n for n in range(100) if renewed.is_named(n)] == [7, 8]
    renewed.begin_call(90, 2, queue.read)
    assert [n for n in range(100) if renewed.is_named(n)] == [8]
    renewed.begin_call(91, 3, queue.read)
    assert not any(map(renewed.is_named, range(100)))


def test_what_is_put_back_in_a_round_is_named_and_then_found_in_the_queue() -> None:
    queue, renewed = Queue(2, {1: 0}), RenewedCopies()
    renewed.begin_call(0, 1, queue.read)
    renewed.begin_call(2, 2, queue.read)
    renewed.add_put_back(queue.half(1))
    queue.names[2] = 2
    renewed.add_put_back(queue.half(0))
    assert [n for n in range(9) if renewed.is_named(n)] == [0]
    queue.end, queue.names = 12, {11: 0}
    renewed.begin_call(2, 3, queue.read)
    assert [n for n in range(9) if renewed.is_named(n)] == [0]


def test_a_queue_without_copies_is_read_once() -> None:
    queue, renewed = Queue(100), RenewedCopies()
    renewed.begin_call(0, 1, queue.read)
    renewed.begin_call(0, 1, queue.read)
    queue.end = 200
    renewed.begin_call(90, 2, queue.read)
    assert queue.read_offsets == list(range(100))


def test_while_there_are_copies_only_what_is_new_is_read() -> None:
    queue, renewed = Queue(100, {50: 7}), RenewedCopies()
    renewed.begin_call(0, 1, queue.read)
    queue.end = 200
    renewed.begin_call(20, 2, queue.read)
    assert queue.read_offsets == list(range(200))


def test_a_round_that_begins_before_the_last_one_reads_again() -> None:
    queue, renewed = Queue(100, {50: 7}), RenewedCopies()
    renewed.begin_call(60, 1, queue.read)
    assert not renewed.is_named(7)
    renewed.begin_call(40, 2, queue.read)
    assert renewed.is_named(7)


def test_until_the_queue_is_read_to_its_end_everything_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half_copies, "RENEWED_READ_MAX", PAGE * 2)
    queue, renewed = Queue(100), RenewedCopies()
    assert renewed.is_named(3)
    renewed.begin_call(0, 1, queue.read)
    assert renewed.is_named(3) and len(queue.read_offsets) == PAGE * 2
    renewed.begin_call(0, 1, queue.read)
    assert not renewed.is_named(3) and len(queue.read_offsets) == 100


def test_so_many_named_offsets_are_kept_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_copies, "RENEWED_MAX", 10)
    queue, renewed = Queue(1_000, {n: n - 10 for n in range(10, 1_000)}), RenewedCopies()
    renewed.begin_call(0, 1, queue.read)
    assert renewed.is_named(5_000) and len(queue.read_offsets) == PAGE
    renewed.begin_call(1_000, 2, queue.read)
    assert not renewed.is_named(5_000)
