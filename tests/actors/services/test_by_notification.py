"""Words and notifications between the Broker and its neighbours, and calls where a notification was
lost.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.actors.bounded import run
from tests.actors.services.fakes import EPOCH
from tests.actors.services.test_by_reference import Lines, note
from wakelog.actors.services import by_notification
from wakelog.actors.services.by_notification import BellDispatch, BellHolds
from wakelog.actors.services.pull_hold import HoldNote
from wakelog.actors.transport.notifications import NotificationSender, NotificationSocket, Notifier
from wakelog.actors.transport.shared_watermarks import (
    InitialWatermarks,
    SharedWatermark,
    SharedWatermarks,
    make_shared_watermarks,
)


@pytest.fixture
def page(short_path: Path) -> Iterator[SharedWatermarks]:
    values = InitialWatermarks(0, 0, 0, 0, 0, 0)
    with make_shared_watermarks(
        short_path / "words", UUID(int=1), epoch_min=EPOCH, values=values
    ) as made:
        yield made


def test_readable_is_a_word_and_a_notifications_and_progress_is_a_word(
    short_path: Path, page: SharedWatermarks
) -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        notification = NotificationSocket(short_path / "reput")
        line = Notifier(NotificationSender(short_path / "reput"), asyncio.get_running_loop())
        dispatch = BellDispatch(page, line, lines.dispatch, lines.events)
        page.set(SharedWatermark.APPENDED, 500)
        dispatch.readable(500)
        assert page.get(SharedWatermark.READABLE) == 500
        dispatch.hurry()
        assert notification.drain() == [] and notification.received_count == 1
        dispatch.look()
        assert lines.events.dispatched_to == 0
        page.set(SharedWatermark.DISPATCHED, 300)
        dispatch.look()
        dispatch.look()
        assert lines.events.dispatched_to == 300
        assert lines.reput.called("step") == []
        dispatch.stop_timer()
        line.close()
        notification.close()
        await lines.stop()

    run(main)


def test_a_notifications_waits_for_more_unless_a_pull_is_held(
    short_path: Path, page: SharedWatermarks
) -> None:
    async def main() -> None:
        lines = Lines()
        await lines.start()
        loop = asyncio.get_running_loop()
        notification = NotificationSocket(short_path / "reput")
        line = Notifier(NotificationSender(short_path / "reput"), loop)
        dispatch = BellDispatch(page, line, lines.dispatch, lines.events)
        page.set(SharedWatermark.APPENDED, 500)
        rung: asyncio.Future[None] = loop.create_future()
        began_seconds = loop.time()
        notification.listen(loop, lambda _: rung.set_result(None))
        for readable in (100, 200, 300):
            dispatch.readable(readable)
        assert not rung.done() and page.get(SharedWatermark.READABLE) == 300
        await rung
        assert loop.time() - began_seconds >= by_notification.PACE_SECONDS * 0.9
        assert notification.received_count == 1
        loop.remove_reader(notification)
        dispatch.readable(400)
        notification.drain()
        assert notification.received_count == 1
        dispatch.hurry()  # a pull came that has to wait
        dispatch.hurry()
        notification.drain()
        assert notification.received_count == 2
        lines.events.held.append(note(1))
        dispatch.readable(500)
        notification.drain()
        assert notification.received_count == 3
        dispatch.stop_timer()
        line.close()
        notification.close()
        await lines.stop()

    run(main)


def test_work_that_makes_no_progress_is_prepare_read_by_a_call(
    short_path: Path, page: SharedWatermarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_notification, "RECHECK_SECONDS", 0.01)

    async def main() -> None:
        lines = Lines()
        await lines.start()
        # Nobody hears this notification: the receiver has died.
        line = Notifier(NotificationSender(short_path / "reput"), asyncio.get_running_loop())
        dispatch = BellDispatch(page, line, lines.dispatch, lines.events)
        dispatch.readable(50)
        await lines.wait_dispatched(50)
        assert dispatch.rechecked_count == 1
        page.set(SharedWatermark.DISPATCHED, 50)
        dispatch.stop_timer()
        line.close()
        await lines.stop()

    run(main)


def test_the_timer_ends_with_the_work(
    short_path: Path, page: SharedWatermarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_notification, "RECHECK_SECONDS", 0.0)

    async def main() -> None:
        lines = Lines()
        await lines.start()
        line = Notifier(NotificationSender(short_path / "reput"), asyncio.get_running_loop())
        dispatch = BellDispatch(page, line, lines.dispatch, lines.events)
        dispatch.readable(50)
        page.set(SharedWatermark.DISPATCHED, 50)
        while dispatch._timer is not None:
            await asyncio.sleep(0)
        assert dispatch.rechecked_count == 0 and lines.events.dispatched_to == 50
        line.close()
        await lines.stop()

    run(main)


def test_holds_travel_as_notes(short_path: Path) -> None:
    async def main() -> None:
        notification = NotificationSocket(short_path / "pull_hold")
        line = Notifier(NotificationSender(short_path / "pull_hold"), asyncio.get_running_loop())
        holds = BellHolds(line)
        holds.hold([note(1), note(2)])
        holds.forget([1])
        kinds = [(parts[0], parts[1]) for parts in notification.drain()]
        assert kinds == [(HoldNote.HOLD, 1), (HoldNote.HOLD, 2), (HoldNote.FORGET, 1)]
        line.close()
        notification.close()

    run(main)
