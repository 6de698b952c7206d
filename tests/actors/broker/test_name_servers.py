"""What waits for a registration, against a name server that answers and one that hangs."""

import asyncio
import socket

import pytest

from tests.actors.bounded import run
from tests.actors.test_name_server import HOST, PATH, Peer, make_service, route
from tests.broker.harness import Harness
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.actors.broker import name_servers
from wakelog.actors.broker.name_servers import NameServers
from wakelog.protocol.codes import ResponseCode

pytestmark = pytest.mark.process


@pytest.mark.parametrize("oneway", [True, False])
def test_what_waits_for_a_registration_comes_after_it(oneway: bool) -> None:
    async def main() -> None:
        service = make_service(PATH, MemoryFileSystem())
        await service.start()
        harness = Harness(namesrvAddr=f"{HOST}:{service.port}")
        servers = NameServers(harness.broker)
        await servers.register(seconds_max=5.0)
        async with Peer(service) as client:
            assert (await client.ask(route())).code == ResponseCode.TOPIC_NOT_EXIST
            harness.send("T")
            reported = asyncio.Event()
            servers.register_soon(oneway=oneway)
            servers.after_registration(reported.set, oneway=oneway)
            await reported.wait()
            assert (await client.ask(route())).code == ResponseCode.SUCCESS
        await servers.close()
        await service.stop()

    run(main)


def test_a_send_does_not_wait_long_for_a_name_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(name_servers, "ONEWAY_SECONDS_MAX", 0.01)

    async def main() -> None:
        silent = socket.create_server((HOST, 0))  # whose kernel connects, and nobody answers
        harness = Harness(namesrvAddr=f"{HOST}:{silent.getsockname()[1]}")
        servers = NameServers(harness.broker)
        # The first is under way, and is not answered for 6 s.
        servers.register_soon(oneway=False)
        await asyncio.sleep(0)
        calls: list[None] = []
        reported = asyncio.Event()

        def done() -> None:
            calls.append(None)
            reported.set()

        servers.after_registration(done, oneway=True)
        await reported.wait()
        await servers.close()
        assert len(calls) == 1
        silent.close()

    run(main)
