"""Bells ring without waiting, notes wait for a full receiver, a dead one is found again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wakelog.actors.links import bells
from wakelog.actors.links.bells import Bell, BellFaults, NoteLine, Ringer, Rung


@pytest.fixture
def bell(short_path: Path) -> Iterator[Bell]:
    made = Bell(short_path / "bell")
    yield made
    made.close()


@pytest.fixture
def ringer(short_path: Path) -> Iterator[Ringer]:
    made = Ringer(short_path / "bell")
    yield made
    made.close()


def fill(ringer: Ringer) -> int:
    """Ring until the receiver is full; return how many it took."""
    for count in range(100_000):
        if ringer.ring() is Rung.FULL:
            return count
    raise AssertionError("the socket never fills")


def test_a_drained_bell_has_every_note_in_order(bell: Bell, ringer: Ringer) -> None:
    assert bell.drain() == []
    assert ringer.ring([(1, "a"), (2, "b")]) is Rung.RUNG
    assert ringer.ring() is Rung.RUNG
    assert ringer.ring([(3, None)]) is Rung.RUNG
    assert [tuple(item) for item in bell.drain()] == [(1, "a"), (2, "b"), (3, None)]
    assert bell.rung_count == 3
    assert bell.drain() == []


def test_a_full_receiver_does_not_make_the_ringer_wait(bell: Bell, ringer: Ringer) -> None:
    took = fill(ringer)
    assert took > 0
    bell.drain()
    assert bell.rung_count == took
    assert ringer.ring() is Rung.RUNG
    assert ringer.counts == {Rung.RUNG: took + 1, Rung.FULL: 1, Rung.MISSING: 0, Rung.DROPPED: 0}


def test_a_missing_receiver_is_counted_and_found_when_it_is_back(
    short_path: Path, ringer: Ringer
) -> None:
    assert ringer.ring() is Rung.MISSING
    first = Bell(short_path / "bell")
    assert ringer.ring() is Rung.RUNG
    first._socket.close()  # as its process's death would
    assert ringer.ring() is Rung.MISSING
    second = Bell(short_path / "bell")
    assert ringer.ring([(7,)]) is Rung.RUNG
    assert [tuple(item) for item in second.drain()] == [(7,)]
    second.close()
    assert not (short_path / "bell").exists()


@pytest.mark.parametrize(("every", "arrive"), [(1, 0), (2, 7), (7, 12), (0, 14)])
def test_every_nth_bell_can_be_lost(short_path: Path, bell: Bell, every: int, arrive: int) -> None:
    ringer = Ringer(short_path / "bell", BellFaults(drop_every=every))
    for _ in range(14):
        ringer.ring()
        bell.drain()
    assert bell.rung_count == arrive
    assert ringer.counts[Rung.DROPPED] == 14 - arrive
    ringer.close()


def test_every_note_can_be_lost_while_the_bell_rings(short_path: Path, bell: Bell) -> None:
    ringer = Ringer(short_path / "bell", BellFaults(drop_notes=True))
    assert ringer.ring([(1,)]) is Rung.RUNG
    assert bell.drain() == [] and bell.rung_count == 1
    ringer.close()


def test_the_loop_answers_a_bell(bell: Bell, ringer: Ringer) -> None:
    async def answered() -> list[tuple[Any, ...]]:
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[list[tuple[Any, ...]]] = loop.create_future()
        bell.listen(loop, heard.set_result)
        ringer.ring([(1, 2)])
        notes = await asyncio.wait_for(heard, 5)
        loop.remove_reader(bell)
        return notes

    assert [tuple(item) for item in asyncio.run(answered())] == [(1, 2)]


def test_a_burst_of_notes_waits_until_the_receiver_has_drained(
    short_path: Path, bell: Bell
) -> None:
    async def exchange() -> list[int]:
        loop = asyncio.get_running_loop()
        line = NoteLine(Ringer(short_path / "bell"), loop)
        wanted = 40 * bells.NOTE_ITEMS_MAX
        line.send((number, "t" * 127, [2**62] * 60) for number in range(wanted))
        assert 0 < line.pending_count < wanted
        heard: list[int] = []
        done = loop.create_future()

        def answer(notes: list[tuple[Any, ...]]) -> None:
            heard.extend(note[0] for note in notes)
            if len(heard) == wanted:
                done.set_result(None)

        bell.listen(loop, answer)
        await asyncio.wait_for(done, 10)
        assert line.pending_count == 0 and line.dropped_count == 0
        loop.remove_reader(bell)
        line.close()
        return heard

    assert asyncio.run(exchange()) == list(range(40 * bells.NOTE_ITEMS_MAX))


def test_notes_to_a_receiver_that_is_gone_are_dropped(short_path: Path) -> None:
    async def send() -> tuple[int, int]:
        line = NoteLine(Ringer(short_path / "bell"), asyncio.get_running_loop())
        line.send([(1,), (2,)])
        counts = line.pending_count, line.dropped_count
        line.close()
        return counts

    assert asyncio.run(send()) == (0, 2)


def test_notes_that_wait_are_bounded_and_the_oldest_go_first(
    short_path: Path, bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bells, "PENDING_ITEMS_MAX", 10)

    async def send() -> tuple[int, list[int]]:
        line = NoteLine(Ringer(short_path / "bell"), asyncio.get_running_loop())
        while line.pending_count == 0:
            line.send([(0,)])
        bell.drain()
        line.clear()
        while line.pending_count == 0:
            line.send([(0,)])
        line.send((number,) for number in range(1, 13))
        dropped = line.dropped_count
        bell.drain()
        line._flush()
        line.close()
        return dropped, [item[0] for item in bell.drain()]

    assert asyncio.run(send()) == (3, list(range(3, 13)))
