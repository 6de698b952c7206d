"""Notifications ring without waiting, notes wait for a full receiver, a dead one is found again."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.actors.bounded import on_loop
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


def test_a_path_longer_than_the_system_takes_is_bound_and_found(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    with closing(Notifier(folder / "notification")) as notifier:
        assert notifier.notify() is NotifyOutcome.MISSING
        folder.mkdir()
        descriptors = len(os.listdir("/proc/self/fd"))
        with closing(NotificationSocket(folder / "notification")) as receiver:
            assert notifier.notify([("a", 1)]) is NotifyOutcome.SENT
            assert [*map(tuple, receiver.drain())] == [("a", 1)]
            assert len(os.listdir("/proc/self/fd")) == descriptors + 1
        assert list(folder.iterdir()) == []


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


@on_loop
async def test_the_loop_answers_a_notification(
    receiver: NotificationSocket, notifier: Notifier
) -> None:
    heard: asyncio.Future[list[tuple[Any, ...]]] = asyncio.get_running_loop().create_future()
    receiver.listen(heard.set_result)
    notifier.notify([(1, 2)])
    assert [tuple(item) for item in await heard] == [(1, 2)]
    receiver.close()


@on_loop
async def test_a_burst_of_notes_waits_until_the_receiver_has_drained(
    receiver: NotificationSocket, notifier: Notifier
) -> None:
    wanted = 40 * notifications.NOTE_ITEMS_MAX
    notifier.send((number, "t" * 127, [2**62] * 60) for number in range(wanted))
    assert notifier.counts[NotifyOutcome.FULL] == 1
    heard: list[int] = []
    receiver.listen(lambda notes: heard.extend(note[0] for note in notes))
    while len(heard) < wanted:
        await asyncio.sleep(0)
    assert heard == list(range(wanted))
    receiver.close()
    notifier.close()


@on_loop
async def test_notes_to_a_receiver_that_is_gone_are_dropped(short_path: Path) -> None:
    with closing(Notifier(short_path / "notification")) as notifier:
        notifier.send([(1,), (2,)])
        with closing(NotificationSocket(short_path / "notification")) as receiver:
            notifier.send([(3,)])
            assert [tuple(item) for item in receiver.drain()] == [(3,)]


@on_loop
async def test_notes_that_wait_are_bounded_and_the_oldest_go_first(
    short_path: Path, receiver: NotificationSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PENDING_ITEMS_MAX", 10)
    with closing(Notifier(short_path / "notification")) as notifier:
        while not notifier.counts[NotifyOutcome.FULL]:
            notifier.send([(0,)])
        notifier.send((number,) for number in range(1, 13))
        receiver.drain()
        notifier._send_pending()
        assert [item[0] for item in receiver.drain()] == list(range(3, 13))
