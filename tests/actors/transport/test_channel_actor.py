"""What an actor answers to clients, before it accepts and after."""

import asyncio
import sys

import pytest

from tests.network.fakes import FakeHandler
from tests.network.test_server import make_server
from wakelog.actors.transport.channel_actor import ChannelActor
from wakelog.network.call_transport import NO_CHUNK
from wakelog.network.local_socket import connect_locally
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RESPONSE_FLAG, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame


def test_an_actor_that_does_not_accept_says_so() -> None:
    async def main() -> None:
        actor = ChannelActor()
        assert await actor.open_channel() is await actor.local_socket() is None
        assert await actor.exchange("gone", 0, b"") == (NO_CHUNK, b"", False)
        await actor.close_channel("gone", NO_CHUNK, b"")

    asyncio.run(main())


def test_a_frame_is_answered_as_on_a_port_in_builtins() -> None:
    async def main() -> None:
        server = make_server(FakeHandler())
        actor = ChannelActor()
        actor.open_channels(server.make_connection)
        name = await actor.open_channel()
        assert name is not None
        request = encode_frame(make_request(RequestCode.HEART_BEAT, {}, b"", opaque=7))
        answer = await actor.exchange(name, 0, request)
        assert (type(answer), answer[0], answer[2]) == (tuple, 0, True)
        (response,) = FrameDecoder().feed(answer[1])
        assert (response.opaque, response.flag & RESPONSE_FLAG) == (7, RESPONSE_FLAG)
        await actor.close_channel(name, NO_CHUNK, b"")
        assert await actor.exchange(name, NO_CHUNK, b"") == (NO_CHUNK, b"", False)
        actor.close_channels()
        await server.close()

    asyncio.run(main())


def test_a_client_of_this_host_finds_the_socket_while_the_actor_accepts() -> None:
    async def main() -> None:
        server = make_server(FakeHandler())
        actor = ChannelActor()
        actor.open_channels(server.make_connection)
        name = await actor.local_socket()
        assert name is not None
        request = make_request(RequestCode.HEART_BEAT, {}, b"", opaque=7)
        response = asyncio.get_running_loop().create_future()

        class Client(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                transport.write(encode_frame(request))

            def data_received(self, data: bytes) -> None:
                response.set_result(data)

        assert await connect_locally(name, Client())
        (answered,) = FrameDecoder().feed(await response)
        assert answered.opaque == 7
        actor.close_channels()
        assert await actor.local_socket() is None
        assert not await connect_locally(name, asyncio.Protocol())
        await server.close()

    asyncio.run(main())


def test_without_local_sockets_all_come_by_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        server = make_server(FakeHandler())
        actor = ChannelActor()
        monkeypatch.setattr(sys, "platform", "darwin")
        actor.open_channels(server.make_connection)
        assert await actor.local_socket() is None
        name = await actor.open_channel()
        assert name is not None
        await actor.close_channel(name, NO_CHUNK, b"")
        actor.close_channels()
        await server.close()

    asyncio.run(main())
