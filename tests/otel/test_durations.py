"""When durations are recorded."""

import asyncio
from contextvars import ContextVar

import pytest

from wakelog.otel import durations
from wakelog.otel.durations import Durations

PLACE: ContextVar[str] = ContextVar("place", default="none")


def test_without_a_loop_a_duration_is_recorded_at_once() -> None:
    recorded: list[int] = []
    Durations().add(lambda: recorded.append(1))
    assert recorded == [1]


def test_in_a_loop_it_is_recorded_at_the_next_turn_and_in_no_context() -> None:
    waiting = Durations()

    async def main() -> None:
        recorded: list[str] = []
        PLACE.set("mine")
        for _ in range(3):
            waiting.add(lambda: recorded.append(PLACE.get()))
        assert recorded == []
        await asyncio.sleep(0)
        assert recorded == ["none"] * 3

    asyncio.run(main())
    asyncio.run(main())  # another loop, after one that is closed


def test_what_a_loop_has_left_is_recorded_by_a_reader_or_by_another_loop() -> None:
    waiting, recorded = Durations(), []

    async def main(number: int) -> None:
        waiting.add(lambda: recorded.append(number))

    loop = asyncio.new_event_loop()
    loop.call_soon(loop.stop)  # ends before the turn
    task = loop.create_task(main(1))
    loop.run_forever()
    loop.close()
    assert task.done() and recorded == []
    waiting.record_all()
    assert recorded == [1]
    asyncio.run(main(2))
    assert recorded == [1, 2]


def test_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "DURATIONS_WAITING_MAX", 2)
    waiting, recorded = Durations(), []

    async def main() -> None:
        for number in range(3):
            waiting.add(lambda number=number: recorded.append(number))  # type: ignore[misc]
        assert recorded == [2]

    asyncio.run(main())
    assert recorded == [2, 0, 1]
