"""A slave's Broker as a client of its master: how its connection ends, and where its log begins."""

import asyncio
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker import ha_client
from wakelog.actors.broker.ha_client import (
    UNSYNCED_BYTES_MAX,
    HaClient,
    _MasterConnection,
    log_begin,
)
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.config_file import read_broker_conf
from wakelog.broker.replication.ha_client_state import (
    FetchEnded,
    HaClientSettings,
    HaClientState,
    MasterLog,
)
from wakelog.broker.replication.master import MasterAddress
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.bodies import KVTable, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request
from wakelog.protocol.ha_frames import encode_header
from wakelog.storage.errors import NotWriteable

SEGMENT_BYTES = 4096
RUNTIME = encode_body(KVTable({"commitLogMinOffset": "4096", "commitLogMaxOffset": "9000"}))


def untyped(given: object) -> Any:
    """Return a part that stands for another one."""
    return given


class Transport:
    """Writes down what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_aborted = False
        self.changes: list[str] = []

    def pause_reading(self) -> None:
        self.changes.append("pause")

    def resume_reading(self) -> None:
        self.changes.append("resume")

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
        self.parts: Any = SimpleNamespace(
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
        self.connection = _MasterConnection(untyped(self.parts), core)
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


@on_loop
async def test_a_slave_whose_disk_is_slow_reads_no_more_until_it_has_caught_up() -> None:
    slave = Slave()
    for behind, changes in ((0, []), (1, ["pause"]), (2, ["pause"]), (0, ["pause", "resume"])):
        slave.parts.progress.appended = UNSYNCED_BYTES_MAX + behind
        slave.connection.work()
        assert slave.transport.changes == changes
    slave.connection.close()
    assert slave.connection.ended.cancelled()
    slave.parts.progress.appended = 1 << 40
    slave.connection.work()
    assert len(slave.transport.changes) == 2, "of a connection that has ended"


class Broker:
    """A slave's broker whose HaClient is made, with parts that write down what is asked."""

    def __init__(
        self, *, member: bool = False, ack_durable: bool = True, address: str = ""
    ) -> None:
        self.syncs: list[bool] = []
        config = SimpleNamespace(ha_ack_durable=ack_durable, ha_master_address=address)
        self.files: list[int] = []
        self.store: Any = SimpleNamespace(
            config=config, log=SimpleNamespace(files=SimpleNamespace(find=self._find), end_offset=9)
        )
        self.progress: Any = SimpleNamespace(
            flushed=5, appended=7, sync_every_turn=lambda *, wanted: self.syncs.append(wanted)
        )
        offsets = SimpleNamespace(file_name="consumerOffset")
        state = SimpleNamespace(offsets=offsets, slave_commits={}, master="registered")
        broker: Any = SimpleNamespace(state=state, replace=None)
        group: Any = SimpleNamespace(master="of the group") if member else None
        client: Any = SimpleNamespace(invoke=self._invoke)
        self.answers: list[Any] = []
        nothing: Any = None
        self.client = HaClient(
            broker, untyped(self.store), untyped(self.progress), client, nothing,
            end_turn=nothing, follow_deleted=nothing, member=group,
        )  # fmt: skip

    def _find(self, offset: int) -> Any:
        self.files.append(offset)
        end = (offset // 10 + 1) * 10
        return SimpleNamespace(
            end_offset=end,
            position_of=lambda at: at % 10,
            read=lambda position, size: bytes(
                range(end - 10 + position, end - 10 + position + size)
            ),
        )

    async def _invoke(self, address: str, command: RemotingCommand, *, timeout_ms: int) -> Any:
        assert address == "m:10911" and timeout_ms > 0
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("ack_durable", "member", "syncs", "acknowledged", "tasks"),
    [(True, False, [True], 5, 2), (False, False, [], 7, 2), (False, True, [True], 7, 1)],
)
@on_loop
async def test_a_report_is_of_what_is_durable_and_a_member_copies_tables_alone(
    ack_durable: bool, member: bool, syncs: list[bool], acknowledged: int, tasks: int
) -> None:
    one = Broker(member=member, ack_durable=ack_durable)
    await one.client.stop()
    one.client.start()
    assert one.syncs == syncs and one.client.acknowledged == acknowledged
    assert len(one.client._tasks) == tasks
    await one.client.stop()
    assert all(task.cancelled() for task in one.client._tasks)


@on_loop
async def test_the_master_is_of_the_group_or_configured_or_registered() -> None:
    assert untyped(Broker(member=True, address="m:10912").client._master) == "of the group"
    assert Broker(address="m:10912").client._master == MasterAddress("m:10912", "m:10911")
    assert untyped(Broker().client._master) == "registered"


def test_a_slave_compares_bytes_of_all_its_segments() -> None:
    for begin, end in product((0, 3, 9, 10, 11), (3, 10, 11, 20, 27)):
        one = Broker()
        assert one.client._read(begin, end) == bytes(range(begin, end))
        assert len(one.files) == len({at // 10 for at in range(begin, end)})


@on_loop
async def test_what_a_slave_counts() -> None:
    one = Broker()
    assert one.client.statistics() == {
        "is_connected": False, "connected_count": 0, "received_bytes": 0,
        "tables_copied_count": 0,
    }  # fmt: skip
    one.client.on_flushed(5)
    worked: list[int] = []
    connection: Any = SimpleNamespace(
        core=SimpleNamespace(received_bytes=4), work=lambda: worked.append(1)
    )
    one.client._connection, one.client._received_bytes = connection, 3
    one.client.on_flushed(5)
    assert worked == [1]
    found = one.client.statistics()
    assert found["is_connected"] and found["received_bytes"] == 7


@on_loop
async def test_a_master_that_refuses_is_named() -> None:
    one = Broker()
    master = MasterAddress("m:10912", "m:10911")
    request = make_request(RequestCode.GET_BROKER_CONFIG, {}, opaque=0)
    one.answers = [answer(request, ResponseCode.SUCCESS, body=b"x")]
    assert await one.client._ask(master, request) == b"x"
    for remark, cause in (("no", "GET_BROKER_CONFIG: no"), ("", "GET_BROKER_CONFIG: code 1")):
        one.answers = [answer(request, ResponseCode.SYSTEM_ERROR, remark)]
        with pytest.raises(FetchEnded, match=f"m:10911 does not answer {cause}"):
            await one.client._ask(master, request)
