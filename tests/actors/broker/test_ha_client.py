"""A slave's Broker as a client of its master: how its connection ends, and where its log begins."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker import ha_client
from wakelog.actors.broker.ha_client import _MasterConnection, log_begin
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.config_file import read_broker_conf
from wakelog.broker.replication.ha_client_state import (
    FetchEnded,
    HaClientSettings,
    HaClientState,
    MasterLog,
)
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.bodies import KVTable, encode_body
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ha_frames import encode_header
from wakelog.storage.errors import NotWriteable

SEGMENT_BYTES = 4096
RUNTIME = encode_body(KVTable({"commitLogMinOffset": "4096", "commitLogMaxOffset": "9000"}))


class Transport:
    """Writes down what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def abort(self) -> None:
        self.is_aborted = True


class Slave:
    """A slave with an empty log whose master's is empty."""

    def __init__(self, failure: str = "", silent_ms_max: int = 20_000) -> None:
        self.failure = failure
        self.turns = 0
        self.taken: list[bytes] = []
        parts: Any = SimpleNamespace(
            store=SimpleNamespace(append_bytes=self.append),
            progress=SimpleNamespace(appended=0, flushed=0),
            acknowledged=0,
            end_turn=self.end_turn,
        )
        core = HaClientState(
            HaClientSettings(housekeeping_ms=silent_ms_max),
            MasterLog(0, 0, SEGMENT_BYTES),
            own_end=0,
            overlap=b"",
            now_ms=steady_ms(),
        )
        self.connection = _MasterConnection(parts, core)
        self.transport = Transport()
        opened: Any = self.transport
        self.connection.connection_made(opened)

    def receive(self, data: bytes) -> None:
        """Bring bytes of the master."""
        self.connection.get_buffer(len(data))[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def append(self, offset: int, data: bytes, **_: int) -> None:
        if self.failure:
            raise NotWriteable(self.failure)
        self.taken.append(data)

    def end_turn(self) -> None:
        self.turns += 1


@on_loop
async def test_the_first_report_is_sent_at_once() -> None:
    slave = Slave()
    assert slave.transport.sent == [bytes(8)]
    slave.receive(encode_header(0, 0))
    slave.connection.connection_lost(None)
    assert "closed the connection" in await slave.connection.ended
    slave.connection.close()
    assert slave.transport.is_aborted and slave.taken == []


@on_loop
async def test_a_master_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    slave = Slave(silent_ms_max=1)
    with pytest.raises(FetchEnded, match="nothing was received"):
        await slave.connection.ended
    slave.connection.close()


@pytest.mark.parametrize(
    ("data", "failure", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "", FetchEnded),
        (encode_header(7, 0), "", FetchEnded),
        (encode_header(0, 4000) + bytes(4000), "the disk is full", NotWriteable),
    ],
)
@on_loop
async def test_what_ends_a_connection(data: bytes, failure: str, kind: type[Exception]) -> None:
    slave = Slave(failure)
    slave.receive(data)
    slave.receive(encode_header(0, 0))
    with pytest.raises(kind):
        await slave.connection.ended
    assert slave.turns == 1 and slave.taken == []
    slave.connection.close()
    await asyncio.sleep(0)


@on_loop
async def test_half_a_frame_is_no_record() -> None:
    slave = Slave()
    slave.receive((encode_header(0, 300) + bytes(300))[:200])
    slave.connection.connection_lost(ConnectionResetError())
    await slave.connection.ended
    assert slave.taken == []
    slave.connection.close()


@on_loop
async def test_only_a_slave_asks_where_a_log_begins() -> None:
    settings = read_broker_conf("", overrides={"storePathRootDir": "/nowhere"})
    nothing: Any = None
    assert await log_begin(settings, nothing, nothing, nothing) == 0


@pytest.mark.parametrize(
    ("ha_address", "bodies", "begins", "asked"),
    [
        ("m:10912", [RUNTIME], 4096, ["m:10911"]),
        ("m:10912", [None], 0, ["m:10911"]),
        ("", [RUNTIME], 4096, ["a:1"]),
        ("", [None, RUNTIME], 4096, ["a:1", "b:1"]),
        ("", [b"{}", b"no", RUNTIME], 4096, ["a:1", "b:1", "c:1"]),
        ("", [None, None, None], 0, ["a:1", "b:1", "c:1"]),
    ],
)
@on_loop
async def test_the_log_of_a_new_slave_begins_where_its_masters_does(
    ha_address: str,
    bodies: list[bytes | None],
    begins: int,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The master is the one that the settings name, else the first to answer of those known."""
    own = {"storePathRootDir": "/nowhere", "brokerRole": "SLAVE", "brokerId": "1"}
    named = {"haMasterAddress": ha_address} if ha_address else {}
    settings = read_broker_conf("", overrides=own | named)
    calls: list[str] = []
    answers = iter(bodies)

    async def invoke(address: str, command: RemotingCommand, *, timeout_ms: int) -> Any:
        assert command.code == RequestCode.GET_BROKER_RUNTIME_INFO and timeout_ms > 0
        calls.append(address)
        body = next(answers)
        if body is None:
            raise ConnectFailed(address, "Connection refused")
        return SimpleNamespace(body=body)

    async def known(_broker: object, _client: object) -> list[str]:
        return ["a:1", "b:1", "c:1"]

    async def submit(_work: object) -> bool:
        return is_empty

    monkeypatch.setattr(ha_client, "master_addresses", known)
    client: Any = SimpleNamespace(invoke=invoke)
    pool: Any = SimpleNamespace(submit=submit)
    nothing: Any = None
    is_empty = False
    assert await log_begin(settings, nothing, client, pool) == 0 and calls == []
    is_empty = True
    assert await log_begin(settings, nothing, client, pool) == begins
    assert calls == asked
