"""The Broker's service: what its answers rest on, and what a failed start leaves."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.actors.bell_broker import bell_broker
from tests.actors.client import Client, records
from tests.actors.deployments import small_plan
from tests.actors.plans import service_plan
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.local import LocalBroker
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.server.errors import PortUnavailable
from wakelog.server.server import Server
from wakelog.storage.errors import DamagedStore, StoreFailed, StoreLocked
from wakelog.storage.message_store import MessageStore
from wakelog.storage.state.store_lock import StoreLock

pytestmark = [pytest.mark.process, pytest.mark.slow]


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())


def local_broker(directory: Path) -> LocalBroker:
    port = small_plan(directory).brokers[0].listen_port
    return LocalBroker(service_plan(directory, listenPort=port))


def test_a_failed_write_is_acknowledged_to_nobody(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main() -> None:
        async with bell_broker(short_path, monkeypatch) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            # Its queue is written before the disk, which the services share here, fails.
            assert (await running.client.pull("t", 0)).code == ResponseCode.SUCCESS
            with monkeypatch.context() as patched:
                patched.setattr(os, "pwritev", fail)
                refused = await running.client.send("t", b"1")
            assert refused.code != ResponseCode.SUCCESS
            # What the disk holds is not known any more: nothing is taken, but reads go on.
            assert (await running.client.send("t", b"2")).code != ResponseCode.SUCCESS
            assert (await running.client.pull("t", 0)).code == ResponseCode.SUCCESS

    run(main)


def test_a_failed_sync_is_acknowledged_to_nobody(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main() -> None:
        sync = "flushDiskType=SYNC_FLUSH"
        async with bell_broker(short_path, monkeypatch, sync) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            with monkeypatch.context() as patched:
                patched.setattr(os, "fdatasync", fail)
                refused = await running.client.send("t", b"1")
                assert refused.code == ResponseCode.SYSTEM_ERROR
            assert (await running.client.send("t", b"2")).code != ResponseCode.SUCCESS

    run(main)


def test_who_sends_and_then_looks_finds_it(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bell_broker(short_path, monkeypatch) as running:
            client = running.client
            for number in range(50):
                assert (await client.send("t", b"%d" % number)).code == ResponseCode.SUCCESS
                pulled = await client.pull("t", number)
                assert [record.body for record in records(pulled)] == [b"%d" % number]
                await client.send("t", b"other", queue_id=1)
                end = await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 1})
                assert end.ext_fields["offset"] == str(number + 1)

    run(main)


def test_who_looks_at_queues_that_stand_still_is_answered_from_what_is_there(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bell_broker(short_path, monkeypatch) as running:
            await running.client.send("t", b"0")
            await running.client.pull("t", 0)
            running.services["reput"].release()
            await running.client.send("t", b"1")
            fields = {"topic": "t", "queueId": 0}
            end = await running.client.call(RequestCode.GET_MAX_OFFSET, fields)
            assert end.ext_fields["offset"] == "1"

    run(main)


def test_a_taken_port_leaves_the_store_untouched(short_path: Path) -> None:
    async def main() -> None:
        broker = local_broker(short_path)
        port = broker.plan.settings.broker.listen_port
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            with pytest.raises(PortUnavailable):
                await broker.service.start()
        assert not (short_path / "store").exists()
        broker.close()

    run(main)


def test_a_locked_store_leaves_the_ports_free(short_path: Path) -> None:
    async def main() -> None:
        broker = local_broker(short_path)
        service: BrokerService = broker.service
        port = broker.plan.settings.broker.listen_port
        # Through the service's own file system: the kernel would give this process the lock again,
        # and only the table of locks taken through one file system knows better.
        lock = StoreLock(service._fs, broker.plan.settings.store.paths.lock)
        with pytest.raises(StoreLocked):
            await service.start()
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
        lock.release()
        broker.close()

    run(main)


def test_a_damaged_table_is_told_and_everything_let_go(short_path: Path) -> None:
    async def main() -> None:
        broker = local_broker(short_path)
        topics = short_path / "store" / "config" / "topics.json"
        topics.parent.mkdir(parents=True)
        topics.write_text("{ no json")
        with pytest.raises(DamagedStore, match="topics"):
            await broker.service.start()
        broker.close()
        topics.unlink()
        again = LocalBroker(broker.plan)
        await again.service.start()
        assert await again.stop()

    run(main)


def test_before_it_is_stopped_everything_is_dispatched(short_path: Path) -> None:
    async def main() -> None:
        broker = local_broker(short_path)
        await broker.service.start()
        client = Client(broker.plan.settings.broker.broker_addr)
        answers = await asyncio.gather(*(client.send("t", b"%d" % i) for i in range(300)))
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        await client.close()
        assert await broker.stop()
        assert not (short_path / "store" / "abort").exists()
        assert not (short_path / "run").exists()

    run(main)


def test_a_disk_that_refuses_costs_a_scrape_the_queues_only(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_store: MessageStore) -> dict[str, list[int]]:
        raise StoreFailed("consumequeue", "list", OSError(errno.EIO, os.strerror(errno.EIO)))

    async def main() -> None:
        async with bell_broker(short_path, monkeypatch) as running:
            assert (await running.client.send("t", b"0")).code == ResponseCode.SUCCESS
            monkeypatch.setattr(MessageStore, "queues", refuse)
            assert await running.broker.measure_queues() == {}

    run(main)


def test_offsets_beyond_their_queues_are_mended_before_anybody_is_let_in(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended: list[dict[int, int]] = []

    async def start_listening(server: Server) -> None:
        mended.append(broker.service.broker.delay_offsets())
        await listen(server)

    listen = Server.start_listening
    monkeypatch.setattr(Server, "start_listening", start_listening)
    offsets = short_path / "store" / "config" / "delayOffset.json"
    offsets.parent.mkdir(parents=True)
    offsets.write_text('{"offsetTable":{3:7}}')
    broker = local_broker(short_path)

    async def main() -> None:
        await broker.service.start()
        await broker.stop()

    run(main)
    assert mended == [{3: 0}]
