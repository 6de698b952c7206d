"""When durations are recorded."""

import asyncio

import pytest

from wakelog.otel import durations
from wakelog.otel.durations import Durations, Meanwhile


def test_durations_wait_until_they_are_asked_for() -> None:
    waiting, recorded = Durations(), []
    for number in range(3):
        waiting.add(lambda number=number: recorded.append(number))  # type: ignore[misc]
    assert recorded == []
    waiting.record_all()
    assert recorded == [0, 1, 2]
    waiting.record_all()
    assert recorded == [0, 1, 2]


def test_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "DURATIONS_WAITING_MAX", 2)
    waiting, recorded = Durations(), []
    for number in range(4):
        waiting.add(lambda number=number: recorded.append(number))  # type: ignore[misc]
    assert recorded == [0, 1]


def test_the_work_is_done_once_the_other_waits() -> None:
    async def main() -> None:
        noted: list[str] = []
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]

        async def ask() -> str:
            noted.append("asked")
            found = [await answer for answer in answers]
            noted.append("answered")
            return "".join(found)

        task = asyncio.ensure_future(_await(Meanwhile(ask(), lambda: noted.append("worked"))))
        await asyncio.sleep(0)
        assert noted == ["asked", "worked"]
        for answer, text in zip(answers, "ab", strict=True):
            answer.set_result(text)
        assert await task == "ab"
        assert noted == ["asked", "worked", "answered"]

    asyncio.run(main())


async def _await(waited_for: Meanwhile[str]) -> str:
    return await waited_for


def test_what_never_waits_has_its_result_and_its_error() -> None:
    async def at_once() -> str:
        return "a"

    async def failing() -> str:
        raise LookupError("mine")

    def work() -> None:
        raise AssertionError

    async def main() -> None:
        assert await Meanwhile(at_once(), work) == "a"
        with pytest.raises(LookupError, match="mine"):
            await Meanwhile(failing(), work)

    asyncio.run(main())


@pytest.mark.parametrize("is_caught", [True, False])
def test_a_cancellation_and_an_error_reach_what_waits(is_caught: bool) -> None:
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not is_caught:
                raise
        return "caught"

    async def main() -> None:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def ask() -> str:
            return await answer

        asking = asyncio.ensure_future(_await(Meanwhile(ask(), lambda: None)))
        waiting = asyncio.ensure_future(_await(Meanwhile(wait(), lambda: None)))
        await asyncio.sleep(0)
        waiting.cancel()
        answer.set_exception(LookupError("mine"))
        with pytest.raises(LookupError, match="mine"):
            await asking
        if is_caught:
            assert await waiting == "caught"
        else:
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())
