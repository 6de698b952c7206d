"""The channels of a server: who is absent, what goes back empty, how many there may be."""

import asyncio

import pytest

from tests.network.test_call_link import Pair, run
from wakelog.network import call_channels
from wakelog.network.call_channels import ABSENT_SECONDS_MAX, CHANNELS_MAX
from wakelog.network.call_transport import NO_CHUNK, CallAnswer


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
