"""The port of slaves or members: who connects, a process without descriptors, a taken port."""

import asyncio
import errno
import socket
from contextlib import closing
from typing import Any
from unittest import mock

import pytest

from tests.actors.bounded import on_loop
from tests.compat.processes import free_port
from wakelog.actors.broker import acceptor
from wakelog.actors.broker.acceptor import Accepted, Acceptor
from wakelog.network.errors import PortUnavailable


@on_loop
async def test_what_connects_is_taken_until_the_close() -> None:
    taken: list[Accepted] = []
    port = free_port()
    listening = Acceptor(taken.append, "slaves", mock.Mock())
    listening.open("127.0.0.1", port, 2)
    with closing(socket.create_connection(("127.0.0.1", port))) as other:
        while not taken:
            await asyncio.sleep(0)
        [(opened, address, host, local_host)] = taken
        assert address == "{}:{}".format(*other.getsockname())
        assert host == local_host == "127.0.0.1"
        opened.close()
    listening.close()
    listening.close()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port))


@on_loop
async def test_a_process_without_descriptors_accepts_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", 0.01)
    taken: list[Accepted] = []
    log: Any = mock.Mock()
    port = free_port()
    listening = Acceptor(taken.append, "slaves", log)
    accept = mock.Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
    with monkeypatch.context() as patch, closing(listening):
        patch.setattr(socket.socket, "accept", accept)
        listening.open("127.0.0.1", port, 2)
        with closing(socket.create_connection(("127.0.0.1", port))):
            while not log.error.called:
                await asyncio.sleep(0)
            assert log.error.call_args.args == ("cannot accept slaves",)
            patch.undo()
            while not taken:
                await asyncio.sleep(0.001)
            taken[0].opened.close()


@on_loop
async def test_a_port_that_is_taken_is_named() -> None:
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(PortUnavailable, match=f"127.0.0.1:{port}"),
    ):
        Acceptor(lambda _: None, "slaves", mock.Mock()).open("127.0.0.1", port, 2)
