"""A client and a server that speak by calls: answers, order, requests of the server, ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.fakes.skipped_time import run_skipping
from tests.network.fakes import FakeHandler
from tests.network.test_server import make_server
from wakelog.network.call_channels import CallChannels
from wakelog.network.call_link import CLOSE_SECONDS_MAX, CallLink
from wakelog.network.call_transport import (
    CHUNK_BYTES_MAX,
    NO_CHUNK,
    CallAnswer,
    CallTransport,
)
from wakelog.network.client import RemotingClient
from wakelog.network.errors import ConnectFailed, SendFailed
from wakelog.network.server import Server
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request


def request(body: bytes = b"") -> RemotingCommand:
    return make_request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, body, opaque=0)


class Pair:
    """A server, its channels, and a client that reaches it by calls of this object."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.handler = FakeHandler(self._rule)
        self.server: Server = make_server(self.handler)
        self.channels = CallChannels(self.server.make_connection)
        self.asked: list[bytes] = []
        self.client = RemotingClient(dial=self._dial, on_request=self._execute)
        self.is_away = False
        self.calls_count = 0

    def _rule(self, command: RemotingCommand) -> RemotingCommand:
        self.bodies.append(command.body)
        return answer(command, ResponseCode.SUCCESS)

    async def _dial(self, address: str, protocol: asyncio.Protocol) -> None:
        await CallLink(self, protocol).open()

    async def _execute(self, address: str, command: RemotingCommand) -> RemotingCommand | None:
        self.asked.append(command.body)
        return answer(command, ResponseCode.SUCCESS)

    async def open_channel(self) -> str | None:
        return None if self.is_away else await self.channels.open_channel()

    async def exchange(self, channel: str, number: int, data: bytes) -> CallAnswer:
        self.calls_count += 1
        if self.is_away:
            raise ConnectionError("the actor died")
        return await self.channels.exchange(channel, number, data)

    async def close_channel(self, channel: str, number: int, data: bytes) -> None:
        await self.channels.close_channel(channel, number, data)


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            pair = Pair()
            try:
                await scenario(pair)
            finally:
                await pair.client.close()
                await pair.server.close(grace_seconds=1)
                assert len(pair.channels) == 0

    asyncio.run(bounded())


async def ask(pair: Pair, body: bytes = b"") -> RemotingCommand:
    return await pair.client.invoke("actor", request(body), timeout_ms=5000)


def test_requests_and_answers_travel_both_ways() -> None:
    async def scenario(pair: Pair) -> None:
        bodies = [b"%d" % number for number in range(1000)]
        answers = await asyncio.gather(*(ask(pair, body) for body in bodies))
        assert {each.code for each in answers} == {int(ResponseCode.SUCCESS)}
        assert pair.bodies == bodies
        assert pair.calls_count < 100

    run(scenario)


def test_a_body_larger_than_a_chunk_arrives() -> None:
    async def scenario(pair: Pair) -> None:
        body = b"x" * (6 << 20)
        await ask(pair, body)
        assert pair.bodies == [body]

    run(scenario)


def test_the_server_sees_a_local_peer_and_can_ask_it() -> None:
    async def scenario(pair: Pair) -> None:
        await ask(pair)
        (connection,) = pair.server._table
        assert connection.remote_host == "127.0.0.1"
        response = await pair.server.request(connection.id, request(b"alive?"), timeout_seconds=5)
        assert response.code == ResponseCode.SUCCESS
        assert pair.asked == [b"alive?"]

    run(scenario)


def test_a_connection_that_the_server_closes_is_made_again() -> None:
    async def scenario(pair: Pair) -> None:
        await ask(pair)
        pair.server.close_channels()
        while pair.client.connection_id("actor") is not None:
            await asyncio.sleep(0)
        await ask(pair)
        assert len(pair.channels) == 1

    run(scenario)


def test_a_dead_actor_fails_requests_and_connecting() -> None:
    async def scenario(pair: Pair) -> None:
        await ask(pair)
        pair.is_away = True
        with pytest.raises(SendFailed, match=r"connection was lost: .*the actor died"):
            await ask(pair)
        with pytest.raises(ConnectFailed, match="does not accept yet"):
            await ask(pair)
        await pair.server.close(grace_seconds=0)

    run(scenario)


class HungPeer:
    """The other end: what it is asked, and which of its answers never comes or fails."""

    def __init__(self, fails: str, hangs: str) -> None:
        self.fails, self.hangs = fails, hangs
        self.asked: list[tuple[str, int, int]] = []
        self.is_closed = asyncio.Event()

    async def open_channel(self) -> str:
        return "name"

    async def answer(self, call: str, number: int, data: bytes) -> None:
        self.asked.append((call, number, len(data)))
        if call == self.fails:
            raise ConnectionError("the actor died")
        if call == self.hangs:
            await asyncio.Event().wait()

    async def exchange(self, channel: str, number: int, data: bytes) -> CallAnswer:
        await self.answer("wait" if number == NO_CHUNK else "bring", number, data)
        if number == NO_CHUNK:
            await self.is_closed.wait()
        return CallAnswer(NO_CHUNK, b"", not self.is_closed.is_set())

    async def close_channel(self, channel: str, number: int, data: bytes) -> None:
        await self.answer("close", number, data)
        self.is_closed.set()


class Lost(asyncio.Protocol):
    """A client's end, and when it was lost."""

    def __init__(self) -> None:
        self.lost: list[tuple[float, Exception | None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, CallTransport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append((asyncio.get_running_loop().time(), exc))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("written", "fails", "hangs", "asked", "seconds"),
    [
        ([], "", "", [("close", NO_CHUNK, 0)], 0),
        ([3], "", "", [("close", 0, 3)], 0),
        ([CHUNK_BYTES_MAX, 2, 1], "", "", [("bring", 0, CHUNK_BYTES_MAX), ("close", 1, 3)], 0),
        ([3], "close", "", [("close", 0, 3)], 0),
        ([3], "", "close", [("close", 0, 3)], CLOSE_SECONDS_MAX),
        ([CHUNK_BYTES_MAX, 1], "bring", "", [("bring", 0, CHUNK_BYTES_MAX)], 0),
        ([CHUNK_BYTES_MAX, 1], "", "bring", [("bring", 0, CHUNK_BYTES_MAX)], CLOSE_SECONDS_MAX),
    ],
)
def test_a_client_that_closes_brings_the_rest_and_is_lost_whatever_the_server_does(
    written: list[int],
    fails: str,
    hangs: str,
    asked: list[tuple[str, int, int]],
    seconds: float,
    *,
    waits: bool,
) -> None:
    async def main() -> None:
        peer, client = HungPeer(fails, hangs), Lost()
        await CallLink(peer, client).open()
        if waits:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for size_bytes in written:
            client.transport.write(b"x" * size_bytes)
        client.transport.close()
        await asyncio.sleep(2 * CLOSE_SECONDS_MAX)
        assert peer.asked == [("wait", NO_CHUNK, 0)] * waits + asked
        assert client.lost == [(seconds, None)]
        assert len(asyncio.all_tasks()) == 1

    run_skipping(main)
