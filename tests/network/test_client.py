"""Calls by address against a real loopback server: answers, limits, ends."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from wakelog.actors.deploy.host_addresses import HostAddresses
from wakelog.network.busy_poll import BusyPoll
from wakelog.network.client import RemotingClient
from wakelog.network.connection import BufferedConnection
from wakelog.network.errors import CallTimeout, ConnectFailed, SendFailed
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import ONEWAY_FLAG, RemotingCommand, answer, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame

Answers = Callable[[RemotingCommand], bytes | None]
"""What a peer writes for a request; None closes the connection."""


class Peer:
    """A server that answers by a function, or closes the connection."""

    def __init__(
        self, answers: Answers, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._answers = answers
        self._host = host
        self.seen_hosts: list[str] = []
        self._tls = tls
        self.requests: list[RemotingCommand] = []
        self.connections_count = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None] | None] = []

    async def __aenter__(self) -> "Peer":
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(task for task in self._tasks if task is not None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_count += 1
        self.seen_hosts.append(writer.get_extra_info("peername")[0])
        self._writers.append(writer)
        self._tasks.append(asyncio.current_task())
        decoder = FrameDecoder()
        while data := await reader.read(65536):
            for request in decoder.feed(data):
                self.requests.append(request)
                written = self._answers(request)
                if written is None:
                    writer.close()
                    return
                writer.write(written)


def echo(request: RemotingCommand) -> bytes:
    return encode_frame(answer(request, ResponseCode.SUCCESS, body=request.body))


def request(body: bytes = b"") -> RemotingCommand:
    return make_request(RequestCode.GET_BROKER_CLUSTER_INFO, {}, body, opaque=0)


def run(scenario: Callable[[RemotingClient], Awaitable[None]]) -> None:
    async def with_client() -> None:
        client = RemotingClient()
        try:
            await scenario(client)
        finally:
            await client.close()
            assert client.calls_count == 0

    asyncio.run(with_client())


def test_every_connection_that_was_made_is_reported() -> None:
    async def main() -> list[str]:
        reported: list[str] = []
        client = RemotingClient(on_open=reported.append)
        async with Peer(lambda asked: None if asked.body else echo(asked)) as peer:
            await client.invoke(peer.address, request(), timeout_ms=5000)
            await client.invoke(peer.address, request(), timeout_ms=5000)
            with pytest.raises(SendFailed):
                await client.invoke(peer.address, request(b"end"), timeout_ms=5000)
            await client.invoke(peer.address, request(), timeout_ms=5000)
            await client.close()
            assert reported == [peer.address] * 2
        return reported

    assert asyncio.run(main())


def test_calls_at_once_share_a_connection_and_get_their_own_answers() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as peer:
            bodies = [str(index).encode() for index in range(50)]
            calls = [client.invoke(peer.address, request(b), timeout_ms=5000) for b in bodies]
            answers = await asyncio.gather(*calls)
            assert [response.body for response in answers] == bodies
            assert peer.connections_count == 1
            assert len({seen.opaque for seen in peer.requests}) == 50

    run(scenario)


def test_one_command_may_be_under_way_more_than_once_and_leaves_nothing_waiting() -> None:
    """A broker registers with each of its name servers in this way."""

    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as first, Peer(echo) as second:
            shared = request(b"x")
            addresses = (first.address, second.address, first.address)
            calls = [client.invoke(address, shared, timeout_ms=5000) for address in addresses]
            assert [one.body for one in await asyncio.gather(*calls)] == [b"x"] * 3
            waiting = [each.peer.waiting_count for each in client._connections.values()]
            assert waiting == [0, 0]

    run(scenario)


def test_a_server_on_an_own_address_sees_a_loopback_peer() -> None:
    """So a name server that listens on one address knows the brokers beside it."""

    async def scenario(_: RemotingClient) -> None:
        outward = HostAddresses().outward()
        async with Peer(echo, host=outward) as peer:
            for own_host, seen in ((outward, "127.0.0.1"), ("203.0.113.1", outward)):
                client = RemotingClient(own_host=own_host)
                await client.invoke(peer.address, request(), timeout_ms=5000)
                assert peer.seen_hosts.pop() == seen
                await client.close()

    run(scenario)


def test_a_lost_connection_ends_its_calls_and_the_next_call_connects_again() -> None:
    hung_up = False

    def hang_up_once(command: RemotingCommand) -> bytes | None:
        nonlocal hung_up
        first, hung_up = not hung_up, True
        return None if first else echo(command)

    async def scenario(client: RemotingClient) -> None:
        async with Peer(hang_up_once) as peer:
            with pytest.raises(SendFailed, match="the connection was lost"):
                await client.invoke(peer.address, request(), timeout_ms=5000)
            response = await client.invoke(peer.address, request(b"x"), timeout_ms=5000)
            assert response.body == b"x"
            assert peer.connections_count == 2

    run(scenario)


def test_an_answer_that_does_not_come_is_a_timeout_and_leaves_nothing_waiting() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(lambda _request: b"") as silent:
            with pytest.raises(CallTimeout, match="no answer within 20 ms"):
                await client.invoke(silent.address, request(), timeout_ms=20)
            await client.close()

    run(scenario)


def test_each_call_has_its_own_time_whichever_began_first() -> None:
    def answers(command: RemotingCommand) -> bytes:
        return echo(command) if command.body == b"answered" else b""

    async def scenario(client: RemotingClient) -> None:
        async with Peer(answers) as peer:
            long = asyncio.ensure_future(
                client.invoke(peer.address, request(b"long"), timeout_ms=60_000)
            )
            await client.invoke(peer.address, request(b"answered"), timeout_ms=5000)
            for timeout_ms in (30, 20):
                with pytest.raises(CallTimeout, match=f"no answer within {timeout_ms} ms"):
                    await client.invoke(peer.address, request(), timeout_ms=timeout_ms)
            assert not long.done()
            long.cancel()
            with pytest.raises(asyncio.CancelledError):
                await long
            assert [each.peer.waiting_count for each in client._connections.values()] == [0]

    run(scenario)


def test_the_connections_of_a_client_read_into_one_buffer() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as first, Peer(echo) as second:
            for peer in (first, second):
                await client.invoke(peer.address, request(), timeout_ms=5000)
            made = client._connections.values()
            assert all(isinstance(each, BufferedConnection) for each in made)
            assert len({id(each.get_buffer(-1)) for each in made}) == 1

    run(scenario)


def test_a_long_body_is_a_view_for_a_caller_that_wants_one() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as peer:
            body = bytes(range(256)) * 4_000
            for wants_view in (True, False):
                asked = request(body)
                asked.wants_view = wants_view
                found = (await client.invoke(peer.address, asked, timeout_ms=5000)).body
                assert type(found) is (memoryview if wants_view else bytes)
                assert found == body

    run(scenario)


def test_the_timer_is_set_for_the_first_call_and_for_earlier_ones_only() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as peer:
            timers = []
            for timeout_ms in (60_000, 90_000, 30_000, 90_000):
                await client.invoke(peer.address, request(), timeout_ms=timeout_ms)
                timers.append(client._timer)
            assert timers[0] is timers[1] is not timers[2] is timers[3]
            assert timers[0] is not None and timers[0].cancelled()

    run(scenario)


def test_a_timer_that_is_due_holds_up_no_call_on_uvloop() -> None:
    """uvloop makes no timer of less than half a millisecond."""

    async def scenario() -> None:
        async with Peer(echo) as peer:
            client = RemotingClient()
            await client.invoke(peer.address, request(), timeout_ms=60_000)
            client._set_timer(asyncio.get_running_loop().time())
            await client.invoke(peer.address, request(), timeout_ms=60_000)
            await client.close()

    uvloop.run(scenario())


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_only_caller_goes_on_in_the_read_of_its_response(
    run_loop: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, received = [], BufferedConnection.data_received

    def read(connection: BufferedConnection, data: bytes | memoryview) -> None:
        reads.append("begun")
        received(connection, data)
        reads.append("ended")

    monkeypatch.setattr(BufferedConnection, "data_received", read)

    async def scenario() -> None:
        async def call() -> None:
            await client.invoke(peer.address, request(), timeout_ms=60_000)
            reads.append("called")

        async with Peer(echo) as peer:
            client = RemotingClient()
            await call()
            await call()
            assert reads == ["begun", "called", "ended", "begun", "called"]
            await asyncio.sleep(0)
            reads.clear()
            await asyncio.gather(call(), call())
            assert reads.count("called") == 2
            await client.close()
            assert client.calls_count == 0

    run_loop(scenario())


def test_a_client_that_is_used_in_a_second_loop_connects_again_and_its_calls_end_in_time() -> None:
    async def leave_a_call(client: RemotingClient, address: str) -> None:
        connected = asyncio.ensure_future(client.invoke(address, request(), timeout_ms=60_000))
        while client.connection_id(address) is None:
            await asyncio.sleep(0)
        left = asyncio.ensure_future(client.invoke(address, request(), timeout_ms=20))
        await asyncio.sleep(0)
        assert not connected.done() and not left.done()

    async def call_again(client: RemotingClient, address: str) -> None:
        with pytest.raises(CallTimeout, match="no answer within 50 ms"):
            await asyncio.wait_for(client.invoke(address, request(), timeout_ms=50), 30)
        await client.close()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = RemotingClient()
        asyncio.run(leave_a_call(client, address))
        with pytest.warns(ResourceWarning, match="unclosed"):
            asyncio.run(call_again(client, address))
            gc.collect()
        silent.settimeout(30)
        for _ in range(2):
            silent.accept()[0].close()
        assert client.calls_count == 0


def test_the_time_to_connect_counts() -> None:
    async def scenario(_: RemotingClient) -> None:
        async def dial(address: str, protocol: asyncio.Protocol) -> None:
            await asyncio.Event().wait()

        client = RemotingClient(dial=dial)
        with pytest.raises(CallTimeout, match="no answer within 20 ms"):
            await client.invoke("actor", request(), timeout_ms=20)
        await client.close()
        assert client.calls_count == 0

    run(scenario)


def test_a_client_polls_for_the_response_to_its_only_request_and_sleeps_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    polls: list[str] = []

    class Recorded(BusyPoll):
        def turn_ended(self, began_seconds: float, now_seconds: float, *, answered: bool) -> None:
            polls.append("begun" if answered else "none")

        def stop(self, now_seconds: float) -> None:
            polls.append("ended")

    monkeypatch.setattr("wakelog.network.client.BusyPoll", Recorded)
    monkeypatch.setattr("wakelog.network.client.POLL_SECONDS", 0.00015)

    async def scenario(client: RemotingClient) -> None:
        async with Peer(lambda asked: b"" if asked.body else echo(asked)) as peer:
            await client.invoke(peer.address, request(), timeout_ms=5000)
            assert polls == ["begun", "ended"]
            both = (client.invoke(peer.address, request(), timeout_ms=5000) for _ in range(2))
            await asyncio.gather(*both)
            assert polls == ["begun", "ended"] * 2, "the first of them was alone"
            with pytest.raises(CallTimeout):
                await client.invoke(peer.address, request(b"unanswered"), timeout_ms=10)
            assert polls == ["begun", "ended"] * 3

    run(scenario)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:no", "no-such-host.invalid:9876"])
def test_an_address_without_a_server_is_a_failed_connect(address: str) -> None:
    async def scenario(client: RemotingClient) -> None:
        with pytest.raises(ConnectFailed) as caught:
            await client.invoke(address, request(), timeout_ms=5000)
        assert caught.value.address == address

    run(scenario)


def test_a_oneway_request_has_the_flag_and_needs_no_response() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as peer:
            await client.invoke_oneway(peer.address, request(b"one way"))
            await client.invoke(peer.address, request(b"behind it"), timeout_ms=5000)
            assert [seen.is_oneway for seen in peer.requests] == [True, False]

    run(scenario)


def test_a_bad_frame_ends_the_connection_and_its_calls() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(lambda _request: b"\xff" * 64) as peer:
            with pytest.raises(SendFailed, match="bad frame"):
                await client.invoke(peer.address, request(), timeout_ms=5000)

    run(scenario)


def test_a_call_that_waits_for_a_connection_ends_when_the_client_is_closed() -> None:
    async def scenario(client: RemotingClient) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            context = ssl.create_default_context()
            waiting = RemotingClient(context)
            port = silent.getsockname()[1]
            call = asyncio.ensure_future(
                waiting.invoke(f"127.0.0.1:{port}", request(), timeout_ms=5000)
            )
            await asyncio.sleep(0.01)
            await waiting.close()
            with pytest.raises(SendFailed, match="this client is closed"):
                await call

    run(scenario)


def test_a_closed_client_sends_nothing() -> None:
    async def scenario(client: RemotingClient) -> None:
        async with Peer(echo) as peer:
            await client.close()
            with pytest.raises(SendFailed, match="closed"):
                await client.invoke(peer.address, request(), timeout_ms=5000)
            assert peer.connections_count == 0

    run(scenario)


def pushing(*pushed: RemotingCommand) -> Answers:
    """Answer a request, after requests of the server's own."""
    frames = b"".join(map(encode_frame, pushed))
    return lambda asked: b"" if asked.is_response else frames + echo(asked)


def asked_by_the_server(client: RemotingClient, *pushed: RemotingCommand) -> list[RemotingCommand]:
    """Return the responses of a client to what a server asks it."""

    async def scenario() -> list[RemotingCommand]:
        async with Peer(pushing(*pushed)) as peer:
            await client.invoke(peer.address, request(), timeout_ms=5000)
            await asyncio.sleep(0)  # handlers run
            await client.invoke(peer.address, request(), timeout_ms=5000)
            await client.close()
            return [seen for seen in peer.requests if seen.is_response][: len(pushed)]

    return asyncio.run(scenario())


def test_a_client_executes_the_requests_of_the_server() -> None:
    async def execute(address: str, asked: RemotingCommand) -> RemotingCommand | None:
        if asked.code == 40:
            raise ValueError("too much")
        return None if asked.code == 41 else answer(asked, 0, body=asked.body)

    asked = [RemotingCommand(39, 1, body=b"x"), RemotingCommand(40, 2), RemotingCommand(41, 3)]
    found = asked_by_the_server(RemotingClient(on_request=execute), *asked)
    assert [(one.opaque, one.code, one.body) for one in found[:2]] == [(1, 0, b"x"), (2, 1, b"")]
    assert found[1].remark == "builtins.ValueError: too much"
    assert 3 not in {one.opaque for one in found}


def test_a_client_that_executes_no_requests_refuses_them() -> None:
    asked = [RemotingCommand(39, 1, ONEWAY_FLAG), RemotingCommand(307, 2)]
    found = asked_by_the_server(RemotingClient(), *asked)
    assert {one.opaque for one in found} == {2}
    assert found[0].remark == " request type 307 not supported"


def test_a_client_executes_a_limited_number_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakelog.network.client.EXECUTING_MAX", 1)

    async def never(address: str, asked: RemotingCommand) -> RemotingCommand | None:
        await asyncio.Event().wait()
        return None

    found = asked_by_the_server(
        RemotingClient(on_request=never), RemotingCommand(307, 1), RemotingCommand(307, 2)
    )
    assert (found[0].opaque, found[0].code) == (2, ResponseCode.SYSTEM_BUSY)
