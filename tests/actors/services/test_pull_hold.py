"""PullHold's shell: calls of its own epoch only, and notifications with a timer of its own."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.actors.plans import service_plan
from tests.actors.services.fakes import EPOCH, attachment
from wakelog.actors.services.broker_events import hold_note
from wakelog.actors.services.pull_hold import HoldNote, PullHoldService
from wakelog.actors.services.session import Refused
from wakelog.actors.transport.notifications import NotificationSender, NotificationSocket
from wakelog.actors.transport.service_plan import Transport
from wakelog.actors.transport.shared_watermarks import InitialWatermarks, make_shared_watermarks
from wakelog.broker.decision import HoldPull
from wakelog.dispatchers.reput import Arrival


def known(**changes: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(attachment(**changes)))


def note(hold_id: int, *, deadline_ms: int = 1 << 60) -> HoldPull:
    return HoldPull(hold_id, "topic", 0, 0, deadline_ms, None)


ARRIVAL = Arrival("topic", 0, 1, None, 0, 0)


def test_calls_hold_wake_forget_and_expire(short_path: Path) -> None:
    service = PullHoldService(service_plan(short_path).to_builtins())
    assert service.attach(known())["process_id"] > 0
    deadline_ms = time.time_ns() // 1_000_000 - 1
    assert service.hold(EPOCH, [hold_note(note(1)), hold_note(note(2))]) == ([], 1 << 60)
    service.forget(EPOCH, [2])
    assert service.arrived(EPOCH, [tuple(ARRIVAL)]) == ([1], None)
    # The queue's reach is remembered: whoever comes late is woken at once.
    assert service.hold(EPOCH, [hold_note(note(3))]) == ([3], None)
    other = HoldPull(4, "other", 0, 0, deadline_ms, None)
    assert service.hold(EPOCH, [hold_note(other)]) == ([], deadline_ms)
    assert service.expire(EPOCH) == ([4], None)
    assert service.statistics()["hold_count"] == 0
    service.release()


def test_a_call_of_another_epoch_is_refused(short_path: Path) -> None:
    service = PullHoldService(service_plan(short_path).to_builtins())
    with pytest.raises(Refused, match="not attached"):
        service.hold(EPOCH, [])
    service.attach(known())
    service.hold(EPOCH, [hold_note(note(1))])
    service.attach(known(epoch=EPOCH + 1))
    assert service.statistics()["hold_count"] == 0
    with pytest.raises(Refused, match=f"epoch {EPOCH} was asked for"):
        service.arrived(EPOCH, [])
    service.release()


def test_notifications_bring_holds_and_arrivals_and_wake_the_broker(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.actors.services.session.open_logs", lambda *_: None)
    plan = service_plan(short_path, transport=Transport.NOTIFICATIONS, in_one_process=False)
    values = InitialWatermarks(0, 0, 0, 0, 0, 0)
    attached = attachment()

    async def main() -> None:
        from uuid import UUID

        page = make_shared_watermarks(
            plan.watermarks_path, UUID(attached.store_id), epoch_min=EPOCH, values=values
        )
        service = PullHoldService(plan.to_builtins())
        service.attach(known())
        broker = NotificationSocket(plan.socket_path("broker"))
        sender = NotificationSender(plan.socket_path("pull_hold"))
        soon_ms = time.time_ns() // 1_000_000 + 20
        held = [note(1), HoldPull(2, "other", 0, 0, soon_ms, None), note(3)]
        sender.notify([(int(HoldNote.HOLD), *hold_note(one)) for one in held])
        sender.notify([(int(HoldNote.FORGET), 3)])
        sender.notify([(int(HoldNote.ARRIVAL), *ARRIVAL)])
        woken: list[int] = []
        async with asyncio.timeout(10):
            while len(woken) < 2:
                await asyncio.sleep(0.001)
                woken += [hold_id for (hold_id,) in broker.drain()]
        # The first by the arrival, the second by its deadline.
        assert woken == [1, 2]
        service.release()
        assert not plan.socket_path("pull_hold").exists()
        sender.close()
        broker.close()
        page.close()

    asyncio.run(main())
