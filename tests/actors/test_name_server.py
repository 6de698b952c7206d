"""A name server on a real loopback socket: routes end with connections, values are durable."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.client import Client
from tests.broker.access.requests import ADMIN, FILE, LOW, UNSIGNED, signed
from tests.compat.processes import free_port
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.nameserver.harness import Announced, FakeChannel, topic
from wakelog.actors import name_server
from wakelog.actors.broker import account_files
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.name_server import NameServerActor, NameServerService, start_name_server
from wakelog.actors.transport.service_plan import NameServerPlan
from wakelog.nameserver.config import NameServerConfig, NameServerSettings
from wakelog.network import driver
from wakelog.network.errors import PortUnavailable
from wakelog.network.signing import Credentials
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.steps import finish
from wakelog.storage.errors import DamagedStore, StoreLocked
from wakelog.storage.file_system import FileSystem

HOST = "127.0.0.1"
PATH = "/n/kvConfig.json"
REMOTE = FakeChannel(99, "10.0.0.9")


class Peer:
    """A broker or client: one connection on which frames are sent and answers awaited."""

    def __init__(self, service: NameServerService) -> None:
        self._port = service.port
        self._decoder = FrameDecoder()
        self._answers: list[RemotingCommand] = []

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def send(self, *requests: RemotingCommand) -> None:
        self._writer.write(b"".join(map(encode_frame, requests)))

    async def receive(self) -> RemotingCommand | None:
        """Return the next answer, None if the server closed the connection."""
        while not self._answers:
            received = await self._reader.read(65_536)
            if not received:
                return None
            self._answers += self._decoder.feed(received)
        return self._answers.pop(0)

    async def ask(self, request: RemotingCommand) -> RemotingCommand:
        self.send(request)
        response = await self.receive()
        assert response is not None
        return response


async def make_service(
    path: str, fs: FileSystem | None = None, *, port: int = 0
) -> NameServerService:
    return await start_name_server(make_plan(path, port), fs=fs)


def make_plan(path: str, port: int) -> NameServerPlan:
    config = NameServerConfig(kv_config_path=path, listen_port=port)
    return NameServerPlan(
        settings=NameServerSettings(config), bind_host=HOST, advertised_host=HOST, log_directory=""
    )


def put(value: str, *, oneway: bool = False, opaque: int = 1) -> RemotingCommand:
    fields = {"namespace": "n", "key": "k", "value": value}
    return make_request(RequestCode.PUT_KV_CONFIG, fields, opaque=opaque, oneway=oneway)


def get() -> RemotingCommand:
    fields = {"namespace": "n", "key": "k"}
    return make_request(RequestCode.GET_KV_CONFIG, fields, opaque=2)


def route(topic: str = "T") -> RemotingCommand:
    return make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, opaque=3)


def saved_value(text: str) -> str:
    return str(json.loads(text)["configTable"]["n"]["k"])


def read_text(fs: MemoryFileSystem, path: str = PATH) -> str:
    fd = fs.open(path, read_only=True)
    try:
        return fs.pread(fd, fs.size(fd), 0).decode()
    finally:
        fs.close(fd)


def test_a_body_beyond_its_bound_is_refused_without_being_read() -> None:
    async def main() -> None:
        service = await make_service(PATH, MemoryFileSystem())
        async with Peer(service) as peer:
            request = make_request(RequestCode.QUERY_DATA_VERSION, body=bytes(3 << 20), opaque=9)
            refused = await peer.ask(request)
            assert (refused.opaque, refused.code) == (9, ResponseCode.SYSTEM_ERROR)
            assert refused.remark == "the body has 3145728 bytes, at most 1048576 are allowed"
            assert (await peer.ask(route())).code == ResponseCode.TOPIC_NOT_EXIST
        await service.stop()

    run(main)


def test_a_route_comes_with_a_registration_and_goes_with_its_connection() -> None:
    async def main() -> None:
        service = await make_service(PATH, MemoryFileSystem())
        async with Peer(service) as client:
            async with Peer(service) as broker:
                registered = await broker.ask(Announced(topics=(topic("T"),)).request())
                assert registered.code == ResponseCode.SUCCESS
                found = await client.ask(route())
                assert found.code == ResponseCode.SUCCESS
                assert b'"brokerAddrs":{0:"10.0.0.1:10911"}' in found.body
            # The end of a connection and a request on another come in any order.
            while (await client.ask(route())).code == ResponseCode.SUCCESS:
                pass
            assert (await client.ask(route())).code == ResponseCode.TOPIC_NOT_EXIST
        statistics = service.statistics()
        await service.stop()
        service.name_server.validate()
        assert json.loads(json.dumps(statistics)) == statistics
        counted = statistics["name_server"]["routes"]["left_by_cause"]
        assert counted["channel closed"] == 1

    run(main)


def test_the_connection_of_an_expired_broker_is_closed() -> None:
    async def main() -> None:
        service = await make_service(PATH, MemoryFileSystem())
        async with Peer(service) as broker, Peer(service) as client:
            await broker.ask(Announced(topics=(topic("T"),)).request())
            service.name_server.tick(1 << 62)
            assert (await client.ask(route())).code == ResponseCode.TOPIC_NOT_EXIST
            assert await broker.receive() is None
        await service.stop()

    run(main)


def test_a_value_that_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"

    async def main() -> None:
        service = await make_service(str(path))
        async with Peer(service) as client:
            assert (await client.ask(put("v"))).code == ResponseCode.SUCCESS
            assert saved_value(path.read_text()) == "v"
        await service.stop()
        again = await make_service(str(path))
        async with Peer(again) as client:
            assert (await client.ask(get())).ext_fields == {"value": "v"}
        await again.stop()

    run(main)


def test_a_file_that_was_read_from_its_backup_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("{")
    Path(f"{path}.bak").write_text('{"configTable": {}}')

    async def scenario() -> None:
        service = await start_name_server(make_plan(str(path), 0))
        [notice] = service.notices
        assert notice.startswith(f"kvConfig.json: {path}: it cannot be read: ")
        assert "is in use: what was changed since is lost" in notice
        await service.stop()

    run(scenario)


def test_a_second_one_in_the_same_folder_is_refused_and_nothing_left_open() -> None:
    async def main() -> None:
        fs = MemoryFileSystem()
        first = await make_service(PATH, fs)
        beside = fs.other_process()
        for name in ("kvConfig.json", "other.json"):  # changedSettings.json is one for both
            with pytest.raises(StoreLocked) as refused:
                await make_service(f"/n/{name}", beside)
            assert refused.value.holder_pid == fs.pid
        assert beside.descriptor_count == 0
        elsewhere = await make_service("/m/kvConfig.json", beside)
        await elsewhere.stop()
        await first.stop()
        again = await make_service(PATH, beside)
        await again.stop()
        assert fs.descriptor_count == beside.descriptor_count == 0

    run(main)


def test_changes_made_during_a_save_share_the_next() -> None:
    async def main() -> None:
        fs = MemoryFileSystem()
        service = await make_service(PATH, fs)
        async with Peer(service) as client:
            client.send(*(put(str(i), opaque=i) for i in range(10)))
            answers = [await client.receive() for _ in range(10)]
            assert [a and (a.opaque, a.code) for a in answers] == [(i, 0) for i in range(10)]
            assert saved_value(read_text(fs)) == "9"
        assert service.statistics()["saves_count"] <= 2
        await service.stop()
        assert fs.descriptor_count == 0

    run(main)


def test_a_value_that_cannot_be_saved_is_not_acknowledged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        fs = MemoryFileSystem()
        service = await make_service(PATH, fs)
        async with Peer(service) as client:
            await client.ask(put("old"))
            fs.fail("sync")
            refused = await client.ask(put("new"))
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert (refused.remark or "").startswith("not saved: ")
            assert saved_value(read_text(fs)) == "old"
            assert (await client.ask(get())).ext_fields == {"value": "old"}
            assert (await client.ask(put("newer"))).code == ResponseCode.SUCCESS
            assert saved_value(read_text(fs)) == "newer"
        assert service.statistics()["saves_failed_count"] == 1
        await service.stop()

    with caplog.at_level(logging.INFO, "WakelogAudit"):
        run(main)
    lines = [msgspec.convert(each.msg, dict[str, Any]) for each in caplog.records]
    audited = [each for each in lines if each["event"] == "PUT_KV_CONFIG"]
    assert [each["result"] for each in audited] == ["SUCCESS", "SYSTEM_ERROR", "SUCCESS"]
    assert audited[1]["remark"].startswith("not saved: ")
    assert (audited[0]["namespace"], audited[0]["key"]) == ("n", "k")


def test_no_more_changes_wait_for_the_disk_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        service = await make_service(PATH, MemoryFileSystem())
        async with Peer(service) as client:
            await client.ask(put("old"))
            monkeypatch.setattr(driver, "WAITING_TASKS_MAX", 0)
            refused = await client.ask(put("new"))
            assert refused.remark == f"not saved: {driver.CROWDED}"
            assert (await client.ask(get())).ext_fields == {"value": "old"}
        await service.stop()

    run(main)


def test_a_oneway_change_is_saved_without_an_answer() -> None:
    async def main() -> None:
        fs = MemoryFileSystem()
        service = await make_service(PATH, fs)
        async with Peer(service) as client:
            client.send(put("v", oneway=True))
            assert (await client.ask(get())).ext_fields == {"value": "v"}
        await service.stop()
        assert saved_value(read_text(fs)) == "v"

    run(main)


class SlowDisk(MemoryFileSystem):
    """A disk whose syncs wait to be let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def sync(self, fd: int) -> None:
        self.reached.set()
        assert self.let_go.wait(10)
        super().sync(fd)


def test_a_stop_answers_what_waits_for_the_disk() -> None:
    async def main() -> None:
        fs = SlowDisk()
        service = await make_service(PATH, fs)
        async with Peer(service) as client:
            client.send(put("v"))
            await asyncio.to_thread(fs.reached.wait, 10)
            stopping = asyncio.create_task(service.stop())
            answering = asyncio.create_task(client.receive())
            await asyncio.sleep(0)
            assert not stopping.done()
            assert not answering.done()
            fs.let_go.set()
            response = await answering
            assert response is not None
            assert response.code == ResponseCode.SUCCESS
            assert await client.receive() is None
            await stopping

    run(main)


def test_a_taken_port_is_refused_and_nothing_left_open() -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            with pytest.raises(PortUnavailable):
                await make_service(PATH, MemoryFileSystem(), port=taken.getsockname()[1])

    run(main)


def test_a_damaged_file_is_refused_and_the_port_given_back(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("{")

    async def main() -> None:
        port = free_port()
        with pytest.raises(DamagedStore, match="kvConfig"):
            await make_service(str(path), port=port)
        path.unlink()
        again = await make_service(str(path), port=port)
        assert again.port == port
        await again.stop()

    run(main)


def test_where_there_are_accounts_an_admins_signature_administers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_files, "WATCH_SECONDS", 0.01)
    file = tmp_path / "conf" / "plain_acl.yml"
    file.parent.mkdir()
    plan = make_plan(str(tmp_path / "kvConfig.json"), 0)
    plan = msgspec.structs.replace(plan, accounts_home=str(tmp_path))

    def passes(service: NameServerService, by: Credentials) -> bool:
        outcome = service.name_server.process(signed(205, by, {"brokerName": "b"}), REMOTE, 0)
        command = finish(outcome) if isinstance(outcome, Generator) else outcome
        assert isinstance(command, RemotingCommand)
        return command.code != ResponseCode.NO_PERMISSION

    async def main() -> None:
        file.write_text("accounts: [")
        with pytest.raises(DeploymentFailed, match="this is no YAML"):
            await start_name_server(plan)
        file.write_text("accounts: []")
        service = await start_name_server(plan)
        assert not passes(service, ADMIN)
        file.write_text(FILE)
        while not passes(service, ADMIN):
            await asyncio.sleep(0.01)
        assert not passes(service, LOW) and not passes(service, UNSIGNED)
        await service.stop()

    run(main)


def make_actor(directory: Path, port: int) -> NameServerActor:
    return NameServerActor(msgspec.to_builtins(make_plan(str(directory / "kv.json"), port)))


@pytest.fixture(autouse=True)
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_server, "open_logs", lambda *_: None)


@pytest.mark.process
def test_it_starts_once_answers_and_stops(tmp_path: Path) -> None:
    async def main() -> None:
        actor = make_actor(tmp_path, 0)
        assert actor.statistics() == {} and await actor.ping() > 0
        first = await actor.start()
        assert await actor.start() == first
        client = Client(f"127.0.0.1:{first['port']}")
        answer = await client.call(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        assert answer.code == ResponseCode.SUCCESS
        await client.close()
        await actor.stop()
        await actor.stop()

    run(main)


@pytest.mark.process
def test_a_taken_port_is_a_value(tmp_path: Path) -> None:
    async def main() -> None:
        first = make_actor(tmp_path, 0)
        port = (await first.start())["port"]
        failure = (await make_actor(tmp_path / "other", port).start())["failure"]
        assert f"127.0.0.1:{port}" in failure["cause"]
        await first.stop()

    run(main)
