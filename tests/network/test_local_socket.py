"""Clients over the socket of their host: answers, large frames, who may connect, the end."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

import pytest

from tests.network.fakes import FakeHandler
from tests.network.test_server import make_server
from wakelog.network.busy_poll import BusyPoll
from wakelog.network.call_channels import CallChannels
from wakelog.network.call_link import CallLink
from wakelog.network.call_transport import LOOPBACK
from wakelog.network.client import RemotingClient
from wakelog.network.local_socket import LocalSocket, connect_locally
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request


class Pair:
    """A server with a local socket, and a client of it."""

    def __init__(self) -> None:
        self.handler = FakeHandler(lambda command: self._answer(command))
        self.server = make_server(self.handler)
        self.local = LocalSocket(self.server.make_connection)
        self.client = RemotingClient(dial=self._dial)

    @staticmethod
    def _answer(command: RemotingCommand) -> RemotingCommand:
        response = answer(command, ResponseCode.SUCCESS)
        response.body = command.body[::-1]
        return response

    async def _dial(self, address: str, protocol: asyncio.Protocol) -> None:
        if not await connect_locally(self.local.name, protocol):
            raise ConnectionError("not of this host")

    async def ask(self, body: bytes) -> bytes:
        request = make_request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, body, opaque=0)
        return (await self.client.invoke("actor", request, timeout_ms=5000)).body


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            pair = Pair()
            try:
                await scenario(pair)
            finally:
                await pair.client.close()
                pair.local.close()
                await pair.server.close(grace_seconds=1)

    asyncio.run(bounded())


def test_frames_travel_both_ways_and_their_sender_is_of_this_host() -> None:
    async def scenario(pair: Pair) -> None:
        assert await pair.ask(b"abc") == b"cba"
        large = os.urandom(3 << 20)
        assert await pair.ask(large) == large[::-1]
        connection = pair.handler.channels[0]
        assert (connection.remote_host, connection.remote_port) == LOOPBACK

    run(scenario)


def test_a_client_polls_a_local_socket_and_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    polled: list[float] = []
    monkeypatch.setattr("wakelog.network.client.POLL_SECONDS", 0.00015)
    monkeypatch.setattr(BusyPoll, "stop", lambda _, now_seconds: polled.append(now_seconds))

    async def scenario(pair: Pair) -> None:
        await pair.ask(b"x")
        assert len(polled) == 1

        async def dial(address: str, protocol: asyncio.Protocol) -> None:
            await CallLink(CallChannels(pair.server.make_connection), protocol).open()

        by_calls = RemotingClient(dial=dial)
        request = make_request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, b"", opaque=0)
        await by_calls.invoke("actor", request, timeout_ms=5000)
        await by_calls.close()
        assert len(polled) == 1

    run(scenario)


def test_open_connections_outlive_the_name() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.ask(b"first")
        pair.local.close()
        assert await pair.ask(b"12") == b"21"
        assert not await connect_locally(pair.local.name, asyncio.Protocol())

    run(scenario)


def test_a_server_that_has_stopped_keeps_no_new_connection() -> None:
    async def scenario(pair: Pair) -> None:
        assert await pair.ask(b"12") == b"21"
        pair.server.stop_listening()
        assert await pair.ask(b"34") == b"43", "this connection goes on"
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        class Client(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                ended.set_result(None)

        assert await connect_locally(pair.local.name, Client())
        await ended
        assert await CallChannels(pair.server.make_connection).open_channel() is None

    run(scenario)


def test_a_client_leaves_what_another_user_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pair: Pair) -> None:
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        assert not await connect_locally(pair.local.name, asyncio.Protocol())

    run(scenario)


def test_a_process_of_another_user_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pair: Pair) -> None:
        own, loop = os.geteuid(), asyncio.get_running_loop()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.setblocking(False)
            stranger.connect(f"\0{pair.local.name}")
            assert await loop.sock_recv(stranger, 1) == b""
        assert not pair.server.statistics().connections.accepted_count

    run(scenario)
