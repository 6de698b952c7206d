"""Notifications ring without waiting, notes wait for a full receiver, a dead one is found again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wakelog.actors.transport import notifications
from wakelog.actors.transport.notifications import (
    NotificationFaults,
    NotificationSocket,
    Notifier,
    NotifyOutcome,
)


@pytest.fixture
def receiver(short_path: Path) -> Iterator[NotificationSocket]:
    made = NotificationSocket(short_path / "notification")
    yield made
    made.close()


@pytest.fixture
def notifier(short_path: Path) -> Iterator[Notifier]:
    made = Notifier(short_path / "notification")
    yield made
    made.close()


def fill(notifier: Notifier) -> int:
    """Ring until the receiver is full; return how many it took."""
    for count in range(100_000):
        if notifier.notify() is NotifyOutcome.FULL:
            return count
    raise AssertionError("the socket never fills")


def test_a_drained_socket_has_every_note_in_order(
    receiver: NotificationSocket, notifier: Notifier
) -> None:
    assert receiver.drain() == []
    assert notifier.notify([(1, "a"), (2, "b")]) is NotifyOutcome.SENT
    assert notifier.notify() is NotifyOutcome.SENT
    assert notifier.notify([(3, None)]) is NotifyOutcome.SENT
    assert [tuple(item) for item in receiver.drain()] == [(1, "a"), (2, "b"), (3, None)]
    assert receiver.received_count == 3
    assert receiver.drain() == []


def test_a_full_receiver_does_not_make_the_notifier_wait(
    receiver: NotificationSocket, notifier: Notifier
) -> None:
    took = fill(notifier)
    assert took > 0
    receiver.drain()
    assert receiver.received_count == took
    assert notifier.notify() is NotifyOutcome.SENT
    assert notifier.counts == {
        NotifyOutcome.SENT: took + 1,
        NotifyOutcome.FULL: 1,
        NotifyOutcome.MISSING: 0,
        NotifyOutcome.DROPPED: 0,
    }


def test_a_missing_receiver_is_counted_and_found_when_it_is_back(
    short_path: Path, notifier: Notifier
) -> None:
    assert notifier.notify() is NotifyOutcome.MISSING
    first = NotificationSocket(short_path / "notification")
    assert notifier.notify() is NotifyOutcome.SENT
    first._socket.close()  # as its process's death would
    assert notifier.notify() is NotifyOutcome.MISSING
    second = NotificationSocket(short_path / "notification")
    assert notifier.notify([(7,)]) is NotifyOutcome.SENT
    assert [tuple(item) for item in second.drain()] == [(7,)]
    second.close()
    assert not (short_path / "notification").exists()


@pytest.mark.parametrize(("every", "arrive"), [(1, 0), (2, 7), (7, 12), (0, 14)])
def test_every_nth_notification_can_be_lost(
    short_path: Path, receiver: NotificationSocket, every: int, arrive: int
) -> None:
    notifier = Notifier(short_path / "notification", NotificationFaults(drop_every=every))
    for _ in range(14):
        notifier.notify()
        receiver.drain()
    assert receiver.received_count == arrive
    assert notifier.counts[NotifyOutcome.DROPPED] == 14 - arrive
    notifier.close()


def test_every_note_can_be_lost_while_notifications_arrive(
    short_path: Path, receiver: NotificationSocket
) -> None:
    notifier = Notifier(short_path / "notification", NotificationFaults(drop_notes=True))
    assert notifier.notify([(1,)]) is NotifyOutcome.SENT
    assert receiver.drain() == [] and receiver.received_count == 1
    notifier.close()


def test_the_loop_answers_a_notification(receiver: NotificationSocket, notifier: Notifier) -> None:
    async def answered() -> list[tuple[Any, ...]]:
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[list[tuple[Any, ...]]] = loop.create_future()
        receiver.listen(heard.set_result)
        notifier.notify([(1, 2)])
        notes = await asyncio.wait_for(heard, 5)
        receiver.close()
        return notes

    assert [tuple(item) for item in asyncio.run(answered())] == [(1, 2)]


def test_a_burst_of_notes_waits_until_the_receiver_has_drained(
    short_path: Path, receiver: NotificationSocket
) -> None:
    async def exchange() -> list[int]:
        loop = asyncio.get_running_loop()
        notifier = Notifier(short_path / "notification")
        wanted = 40 * notifications.NOTE_ITEMS_MAX
        notifier.send((number, "t" * 127, [2**62] * 60) for number in range(wanted))
        assert 0 < notifier.pending_count < wanted
        heard: list[int] = []
        done = loop.create_future()

        def answer(notes: list[tuple[Any, ...]]) -> None:
            heard.extend(note[0] for note in notes)
            if len(heard) == wanted:
                done.set_result(None)

        receiver.listen(answer)
        await asyncio.wait_for(done, 10)
        assert notifier.pending_count == 0 and notifier.dropped_count == 0
        receiver.close()
        notifier.close()
        return heard

    assert asyncio.run(exchange()) == list(range(40 * notifications.NOTE_ITEMS_MAX))


def test_notes_to_a_receiver_that_is_gone_are_dropped(short_path: Path) -> None:
    async def send() -> tuple[int, int]:
        notifier = Notifier(short_path / "notification")
        notifier.send([(1,), (2,)])
        counts = notifier.pending_count, notifier.dropped_count
        notifier.close()
        return counts

    assert asyncio.run(send()) == (0, 2)


def test_notes_that_wait_are_bounded_and_the_oldest_go_first(
    short_path: Path, receiver: NotificationSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PENDING_ITEMS_MAX", 10)

    async def send() -> tuple[int, list[int]]:
        notifier = Notifier(short_path / "notification")
        while notifier.pending_count == 0:
            notifier.send([(0,)])
        notifier.send((number,) for number in range(1, 13))
        dropped = notifier.dropped_count
        receiver.drain()
        notifier._send_pending()
        notifier.close()
        return dropped, [item[0] for item in receiver.drain()]

    assert asyncio.run(send()) == (3, list(range(3, 13)))
