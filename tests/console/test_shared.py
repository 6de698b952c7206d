"""What pages want is read once for all viewers, and kept for a while."""

import asyncio

import pytest

from wakelog.client.errors import ClientError
from wakelog.console import shared as shared_module
from wakelog.console.shared import FRESH_MS, Shared


class Readings:
    """Readings that are counted; each waits until it may end."""

    def __init__(self) -> None:
        self.count = 0
        self.now_ms = 1_000
        self.failure: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def read(self) -> int:
        self.count += 1
        number = self.count
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure
        return number

    @property
    def shared(self) -> Shared[int]:
        return Shared(self.read, 0, lambda: self.now_ms)


def test_a_hundred_viewers_share_one_reading_until_it_is_old() -> None:
    async def main() -> None:
        readings = Readings()
        shared = readings.shared
        found = await asyncio.gather(*(shared.get() for _ in range(100)))
        assert {each.value for each in found} == {1} and readings.count == 1
        readings.now_ms += FRESH_MS - 1
        assert (await shared.get()).value == 1
        readings.now_ms += 1
        again = await shared.get()
        assert (again.value, again.read_ms) == (2, readings.now_ms)

    asyncio.run(main())


def test_after_a_change_it_is_read_again() -> None:
    async def main() -> None:
        readings = Readings()
        shared = readings.shared
        assert (await shared.get()).value == 1
        shared.forget()
        assert (await shared.get()).value == 2

    asyncio.run(main())


def test_a_reading_that_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_module, "SHARED_SECONDS_MAX", 0.0)

    async def main() -> None:
        readings = Readings()
        readings.may_end.clear()
        shared = readings.shared
        assert (await shared.get()).read_ms == 0
        assert (await shared.get()).value == 0 and readings.count == 1  # it goes on, alone
        readings.may_end.set()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        assert (await shared.get()).value == 1

    asyncio.run(main())


def test_what_fails_is_said_and_what_was_there_is_kept() -> None:
    async def main() -> None:
        readings = Readings()
        shared = readings.shared
        await shared.get()
        readings.failure = ClientError("a refuses", "Ask as another")
        readings.now_ms += FRESH_MS
        shown = await shared.get()
        assert (shown.value, shown.read_ms) == (1, 1_000)
        assert shown.failure is not None and shown.failure.cause == "a refuses"
        readings.failure = None
        readings.now_ms += FRESH_MS
        assert (await shared.get()).failure is None

    asyncio.run(main())


def test_a_reading_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_module, "READING_SECONDS_MAX", 0.0)

    async def main() -> None:
        readings = Readings()
        readings.may_end.clear()
        shown = await readings.shared.get()
        assert shown.failure is not None and "do not answer within" in shown.failure.cause

    asyncio.run(main())


def test_an_error_of_our_own_reaches_the_page() -> None:
    async def main() -> None:
        readings = Readings()
        readings.failure = ZeroDivisionError()
        shared = readings.shared
        with pytest.raises(ZeroDivisionError):
            await shared.get()

    asyncio.run(main())
