"""What an actor answers to clients, before it accepts and after."""

import asyncio

from tests.network.fakes import FakeHandler
from tests.network.test_server import make_server
from wakelog.actors.transport.channel_actor import ChannelActor
from wakelog.network.call_channels import CallChannels
from wakelog.network.call_transport import NO_CHUNK
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RESPONSE_FLAG, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame


def test_an_actor_that_does_not_accept_says_so() -> None:
    async def main() -> None:
        actor = ChannelActor()
        assert await actor.open_channel() is None
        assert await actor.exchange("gone", 0, b"") == (NO_CHUNK, b"", False)
        await actor.close_channel("gone", NO_CHUNK, b"")

    asyncio.run(main())


def test_a_frame_is_answered_as_on_a_port_in_builtins() -> None:
    async def main() -> None:
        server = make_server(FakeHandler())
        actor = ChannelActor()
        actor.channels = CallChannels(server.make_connection)
        name = await actor.open_channel()
        assert name is not None
        request = encode_frame(make_request(RequestCode.HEART_BEAT, {}, b"", opaque=7))
        answer = await actor.exchange(name, 0, request)
        assert (type(answer), answer[0], answer[2]) == (tuple, 0, True)
        (response,) = FrameDecoder().feed(answer[1])
        assert (response.opaque, response.flag & RESPONSE_FLAG) == (7, RESPONSE_FLAG)
        await actor.close_channel(name, NO_CHUNK, b"")
        assert await actor.exchange(name, NO_CHUNK, b"") == (NO_CHUNK, b"", False)
        await server.close()

    asyncio.run(main())
