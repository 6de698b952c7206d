"""Ports that are taken before a server listens on them."""

import socket

import pytest

from tests.network.conftest import Run
from tests.network.fakes import FakeHandler
from tests.network.test_server import HOST, make_server
from wakelog.network.bound_ports import BoundPorts
from wakelog.network.errors import PortUnavailable


def test_a_port_in_use_is_one_clear_error() -> None:
    ports = BoundPorts()
    with (
        socket.create_server((HOST, 0)) as other,
        pytest.raises(PortUnavailable, match="another process uses this port"),
    ):
        ports.bind(HOST, other.getsockname()[1])
    with pytest.raises(PortUnavailable, match="no such address"):
        ports.bind("192.0.2.1", 0)
    with pytest.raises(PortUnavailable):
        ports.bind("no-such-host.invalid", 0)


def test_two_servers_that_bound_one_port_do_not_both_listen(run: Run) -> None:
    async def main() -> None:
        servers = make_server(FakeHandler()), make_server(FakeHandler())
        first, second = BoundPorts(), BoundPorts()
        port = first.bind(HOST, 0)
        assert second.bind(HOST, port) == port
        await servers[0].listen(first)
        with pytest.raises(PortUnavailable):
            await servers[1].listen(second)
        for server in servers:
            await server.close()

    run(main)


def test_a_port_that_was_given_up_is_free() -> None:
    ports, others = BoundPorts(), BoundPorts()
    port = ports.bind(HOST, 0)
    ports.close()
    with socket.create_server((HOST, port)):
        pass
    others.close()
