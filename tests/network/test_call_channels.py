"""The channels of a server: who is absent, what goes back empty, how many there may be."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.fakes.skipped_time import run_skipping
from tests.network.test_call_link import Pair, run
from wakelog.network import call_channels
from wakelog.network.call_channels import (
    ABSENT_SECONDS_MAX,
    CHANNELS_MAX,
    POLL_SECONDS,
    WAITING_MAX,
    CallChannels,
)
from wakelog.network.call_transport import (
    CHUNKS_AHEAD_MAX,
    NO_CHUNK,
    CallAnswer,
    CallTransport,
)

EMPTY, ENDED = CallAnswer(NO_CHUNK, b"", True), CallAnswer(NO_CHUNK, b"", False)


def test_a_client_that_calls_no_more_loses_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_channels, "ABSENT_SECONDS_MAX", 0.0)
    assert ABSENT_SECONDS_MAX > call_channels.POLL_SECONDS

    async def scenario(pair: Pair) -> None:
        name = await pair.channels.open_channel()
        assert name is not None
        while len(pair.channels):
            await asyncio.sleep(0)
        assert not (await pair.channels.exchange(name, NO_CHUNK, b"")).is_open

    run(scenario)


def test_a_call_that_finds_nothing_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_channels, "POLL_SECONDS", 0.0)

    async def scenario(pair: Pair) -> None:
        name = await pair.channels.open_channel() or ""
        assert await pair.channels.exchange(name, NO_CHUNK, b"") == CallAnswer(NO_CHUNK, b"", True)
        await pair.channels.close_channel(name, NO_CHUNK, b"")

    run(scenario)


def test_channels_have_a_limit() -> None:
    async def scenario(pair: Pair) -> None:
        names = [await pair.channels.open_channel() for _ in range(CHANNELS_MAX)]
        assert await pair.channels.open_channel() is None
        for name in names:
            await pair.channels.close_channel(name or "", NO_CHUNK, b"")

    run(scenario)


class Heard(asyncio.Protocol):
    """A server's end of a channel: what it hears, and when."""

    transport: CallTransport

    def __init__(self) -> None:
        self.heard: list[object] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, CallTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append(f"lost at {asyncio.get_running_loop().time():g}")


class Timed:
    """A channel on a clock that skips, and the calls of its client with their ends."""

    def __init__(self) -> None:
        self.server = Heard()
        self.channels = CallChannels(lambda: self.server)
        self.name = ""
        self.ends: list[tuple[str, float, CallAnswer]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        self.name = await self.channels.open_channel() or ""
        assert self.name and len(self.channels) == 1

    def call(self, label: str, number: int = NO_CHUNK, data: bytes = b"") -> asyncio.Task[None]:
        async def call() -> None:
            found = await self.channels.exchange(self.name, number, data)
            self.ends.append((label, asyncio.get_running_loop().time(), found))

        self._tasks.append(asyncio.ensure_future(call()))
        return self._tasks[-1]

    async def all_end(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)


def timed(scenario: Callable[[Timed], Awaitable[None]]) -> Timed:
    """Run a scenario with an open channel until the channel is gone."""
    both = Timed()

    async def main() -> None:
        await both.open()
        await scenario(both)
        await both.all_end()
        while len(both.channels):
            await asyncio.sleep(0.5)
        await asyncio.sleep(0)

    run_skipping(main)
    return both


def test_a_call_waits_so_long_and_its_client_may_be_absent_so_long() -> None:
    async def scenario(both: Timed) -> None:
        await asyncio.sleep(ABSENT_SECONDS_MAX - 1)
        both.call("first")
        await both.all_end()
        await asyncio.sleep(ABSENT_SECONDS_MAX - 1)
        both.call("second")
        await asyncio.sleep(POLL_SECONDS - 1)
        both.call("third")

    both = timed(scenario)
    first = ABSENT_SECONDS_MAX - 1 + POLL_SECONDS
    second = first + ABSENT_SECONDS_MAX - 1 + POLL_SECONDS
    third = second + POLL_SECONDS - 1
    assert both.ends == [
        ("first", first, EMPTY),
        ("second", second, EMPTY),
        ("third", third, EMPTY),
    ]
    assert both.server.heard == [f"lost at {third + ABSENT_SECONDS_MAX:g}"]


def test_the_oldest_call_takes_what_is_written_and_one_that_was_cancelled_nothing() -> None:
    async def scenario(both: Timed) -> None:
        gone = both.call("gone")
        both.call("first", 0, b"asked")
        both.call("second")
        await asyncio.sleep(3)
        gone.cancel()
        both.server.transport.write(b"one")
        await asyncio.sleep(1)
        both.server.transport.write(b"two")
        await both.all_end()
        both.server.transport.write(b"three")
        both.call("third")

    both = timed(scenario)
    assert both.ends == [
        ("first", 3.0, CallAnswer(0, b"one", True)),
        ("second", 4.0, CallAnswer(1, b"two", True)),
        ("third", 4.0, CallAnswer(2, b"three", True)),
    ]
    assert both.server.heard == [b"asked", f"lost at {4 + ABSENT_SECONDS_MAX:g}"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_so_many_calls_wait_while_the_server_reads(*, is_paused: bool) -> None:
    async def scenario(both: Timed) -> None:
        if is_paused:
            both.server.transport.pause_reading()
        for number in range(WAITING_MAX + 2):
            both.call(f"{number}", number, b"%d" % number)
        await asyncio.sleep(1)
        both.server.transport.resume_reading()

    both, back = timed(scenario), 1.0 if is_paused else 0.0
    ends = [("0", back, EMPTY), ("1", back, EMPTY)]
    late = [(f"{n}", POLL_SECONDS, EMPTY) for n in range(2, WAITING_MAX + 2)]
    assert (both.ends[:2], sorted(both.ends[2:])) == (ends, late)
    assert both.server.heard[:-1] == [b"%d" % n for n in range(WAITING_MAX + 2)]


@pytest.mark.parametrize("is_waited_for", [False, True])
@pytest.mark.parametrize("last", [b"", b"bye"])
def test_a_server_that_closes_gives_its_last_bytes_and_then_the_end(
    last: bytes, *, is_waited_for: bool
) -> None:
    async def scenario(both: Timed) -> None:
        if is_waited_for:
            both.call("first")
            both.call("second")
            await asyncio.sleep(1)
        if last:
            both.server.transport.write(last)
        both.server.transport.close()
        await asyncio.sleep(1)
        assert len(both.channels) == (bool(last) and not is_waited_for)
        both.call("third")
        await asyncio.sleep(1)
        assert len(both.channels) == 0

    both = timed(scenario)
    answered = CallAnswer(0, b"bye", True)
    if is_waited_for:
        first = ("first", 1.0, answered if last else ENDED)
        assert both.ends == [first, ("second", 1.0, ENDED), ("third", 2.0, ENDED)]
    else:
        assert both.ends == [("third", 1.0, answered if last else ENDED)]
    assert both.server.heard == ["lost at 1" if is_waited_for else "lost at 0"]


def test_a_client_that_closes_brings_its_last_bytes_and_ends_its_calls() -> None:
    async def scenario(both: Timed) -> None:
        both.call("first")
        await asyncio.sleep(1)
        both.server.transport.pause_reading()
        await both.channels.close_channel("another", 0, b"x")
        both.server.transport.resume_reading()
        await both.channels.close_channel(both.name, 0, b"bye")
        assert len(both.channels) == 0
        await both.channels.close_channel(both.name, 1, b"again")

    both = timed(scenario)
    assert both.ends == [("first", 1.0, ENDED)]
    assert both.server.heard == [b"bye", "lost at 1"]


@pytest.mark.parametrize("is_too_many", [False, True])
def test_a_chunk_that_is_missing_ends_the_channel_when_too_many_have_come(
    *, is_too_many: bool
) -> None:
    async def scenario(both: Timed) -> None:
        both.server.transport.pause_reading()  # so that no call goes back
        for number in range(1, CHUNKS_AHEAD_MAX + 1 + is_too_many):
            both.call(f"{number}", number, b"x")
        await asyncio.sleep(0)
        assert len(both.channels) == (not is_too_many)

    both = timed(scenario)
    assert {found for _, _, found in both.ends} == {ENDED if is_too_many else EMPTY}
    assert len(both.ends) == CHUNKS_AHEAD_MAX + is_too_many


def test_a_connection_that_the_server_does_not_take_is_no_channel() -> None:
    class Refusing(Heard):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.close()

    async def main() -> None:
        server = Refusing()
        channels = CallChannels(lambda: server)
        assert await channels.open_channel() is None
        assert len(channels) == 0
        await asyncio.sleep(0)
        assert server.heard == ["lost at 0"]

    run_skipping(main)
