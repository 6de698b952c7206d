"""Replicas with a register in one process: disks that fill, and a register that forgets."""

import asyncio
import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.actors.bounded import on_loop
from tests.actors.client import Client
from tests.actors.group_in_process import QUICK, Group, bodies, group_of, send, until
from tests.compat.processes import free_port
from wakelog.actors.broker import member_server, replica, replica_fetcher
from wakelog.actors.broker.member_connections import FollowerConnection
from wakelog.actors.broker.member_server import MemberServer
from wakelog.actors.broker.replica import Replica
from wakelog.actors.broker.replica_fetcher import ReplicaFetcher
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.registers.register import NO_VERSION
from wakelog.broker.replication.takeover import (
    SeenReplica,
    accept_loss,
    found_again,
    seen_replica,
)
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import KVTable, decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.member_frames import Ack
from wakelog.storage.errors import StoreError, StoreFailed, StoreFull
from wakelog.storage.log.mapped_file import MappedFile

pytestmark = pytest.mark.slow


@on_loop
async def test_a_master_whose_disk_fails_opens_its_store_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "FAILED_MS_MIN", 0)
    async with group_of(tmp_path) as group:
        await group.start(1)
        first = await group.until_serving(1)
        assert (await send(group, 1, b"kept")).code == ResponseCode.SUCCESS
        first.service.progress.on_flush_failed("fdatasync: Input/output error")
        await until(lambda: group.state().epoch > 1)
        await group.until_serving(1)
        assert (await send(group, 1, b"later")).code == ResponseCode.SUCCESS
        await until(lambda: first.service.store.dispatched == first.end)
        assert await bodies(group, 1) == [b"kept", b"later"]


@on_loop
async def test_a_group_is_found_again_in_a_register_that_has_lost_it(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        await group.start(1)
        await group.until_serving(1)
        second = await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        [value] = (tmp_path / "register").glob("*.json")
        value.unlink()
        await until(lambda: "lost this group" in second.elector.cause)
        assert (await send(group, 1, b"without it")).code == ResponseCode.SUCCESS
        assert await group.stop(1)
        await group.start(1)
        await until(lambda: "lost this group" in group.replica(1).elector.cause)
        assert (await send(group, 1)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        seen = [await said_of_itself(group, number) for number in (1, 2)]
        state = found_again(seen, 2)
        assert state.log_id == second.epochs.log_id.hex()
        await asyncio.to_thread(group.group_register().replace, state, NO_VERSION)
        await group.until_serving(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 2, b"later")).code == ResponseCode.SUCCESS
        await until(lambda: second.service.store.dispatched == second.end)
        assert await bodies(group, 2) == [b"without it", b"later"]


@pytest.mark.parametrize(
    "leads",
    [pytest.param(1, id="the-copy"), pytest.param(2, id="the-other", marks=pytest.mark.long)],
)
@on_loop
async def test_what_an_old_copy_lacks_is_cut_once_an_operator_accepts_loss(
    tmp_path: Path, leads: int
) -> None:
    """A master's store is put back from a backup, and the other replica is started again."""
    store, backup = tmp_path / "1" / "store", tmp_path / "backup"
    async with group_of(tmp_path) as group:
        for body in (b"kept", b"later"):
            first = await group.start(1)
            await group.until_serving(1)
            second = await group.start(2)
            await until(lambda: group.state().in_sync == {1, 2})
            assert (await send(group, 1, body)).code == ResponseCode.SUCCESS
            end = first.end
            await until(partial(has_dispatched, second, end))
            await group.stop(2)
            await group.stop(1)
            if not backup.exists():
                shutil.copytree(store, backup)
        shutil.rmtree(store)
        backup.rename(store)
        await group.start(1)
        await group.until_serving(1)
        for _ in range(2):
            second = await group.start(2)
            await until(partial(is_refused, second))
            assert second.end == end
            await group.stop(2)
        await group.start(2)
        await asyncio.to_thread(group.name_master, leads, accept_loss)
        await group.until_serving(leads)
        await until(lambda: group.state().in_sync == {1, 2})
        leading = group.replica(leads)
        assert (await send(group, leads, b"at last")).code == ResponseCode.SUCCESS
        for number in (1, 2):
            await until(partial(has_dispatched, group.replica(number), leading.end))
            found = [b"kept", b"at last"] if leads == 1 else [b"kept", b"later", b"at last"]
            assert await bodies(group, number) == found


def has_dispatched(one: Replica, end: int) -> bool:
    """Tell whether consumers may see all of a log that ends at `end`."""
    return one.service.store.dispatched == end


def is_refused(one: Replica) -> bool:
    """Tell whether a replica refuses to be cut."""
    return "is an old copy" in one._follower.cause


async def said_of_itself(group: Group, number: int) -> SeenReplica:
    """Return what a replica tells an operator."""
    client = Client(group.address(number))
    try:
        answer = await client.call(RequestCode.GET_BROKER_RUNTIME_INFO, {})
    finally:
        await client.close()
    found = seen_replica(group.address(number), decode_body(KVTable, answer.body).table)
    assert found is not None
    return found


@on_loop
async def test_a_replica_that_moves_trusts_no_store_that_it_left_before(tmp_path: Path) -> None:
    """It would count with messages that it had elsewhere. A new store gets the whole log."""
    async with group_of(tmp_path) as group:
        group.names_own_node = True
        await group.start(1)
        await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 1, b"kept")).code == ResponseCode.SUCCESS
        old = group.address(2)
        await group.stop(2)
        group.ports[2] = free_port(-2, 1)
        with pytest.raises(DeploymentFailed, match=f"replica 2 was at {old} since"):
            await group.start(2)
        assert group.state().replicas[2].address == old
        (tmp_path / "2").rename(tmp_path / "left")
        second = await group.start(2)
        await until(lambda: group.state().replicas[2].address == group.address(2))
        await until(lambda: 0 < second.end == second.service.store.dispatched)
        await until(lambda: group.state().in_sync == {1, 2})
        assert await bodies(group, 2) == [b"kept"]
        (tmp_path / "register").rename(tmp_path / "away")
        (tmp_path / "register").touch()
        await group.stop(2)
        with pytest.raises(DeploymentFailed, match="the register's file"):
            await group.start(2)


@on_loop
async def test_a_follower_stops_in_order_with_bytes_that_are_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_of(tmp_path) as group:
        await group.start(1)
        await group.until_serving(1)
        second = await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        with monkeypatch.context() as patch:
            patch.setattr(ReplicaFetcher, "acknowledge", lambda *_, **__: None)
            waiting = asyncio.create_task(send(group, 1))
            await until(lambda: second.end > 0)
            assert await group.stop(2)
        assert (await waiting).code == ResponseCode.SUCCESS
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})


@on_loop
async def test_sends_wait_for_no_follower_whose_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back once there is space, and does not connect again and again before."""
    connected = set[int]()
    take = member_server.MemberServer.on_ack

    def note(server: MemberServer, connection: FollowerConnection, ack: Ack) -> None:
        connected.add(id(connection))
        take(server, connection, ack)

    monkeypatch.setattr(MemberServer, "on_ack", note)
    async with group_of(tmp_path) as group:
        await group.start(1)
        await group.until_serving(1)
        second = await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        second.service.store.set_disk_full(True)
        connected.clear()
        assert (await send(group, 1, b"beside it")).code == ResponseCode.SUCCESS
        assert group.state().in_sync == {1} and "disk is full" in second._follower.cause
        assert len(connected) <= 1
        second.service.store.set_disk_full(False)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 1, b"to both")).code == ResponseCode.SUCCESS
        await until(lambda: second.service.store.dispatched == second.end)
        assert await bodies(group, 2) == [b"beside it", b"to both"]


@on_loop
async def test_a_follower_whose_disk_takes_no_segment_waits_before_it_connects_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_fetcher, "DISK_AGAIN_SECONDS", 1.5)
    async with group_of(tmp_path) as group:
        await group.start(1)
        await group.until_serving(1)
        second = await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        full = StoreFull("log", "reserve", OSError(errno.ENOSPC, "No space left on device"))
        with monkeypatch.context() as patch:
            patch.setattr(MappedFile, "reserve", raises_for(second, full))
            assert (await send(group, 1, b"beside it")).code == ResponseCode.SUCCESS
            assert group.state().in_sync == {1} and "No space" in second._follower.cause
        await until(lambda: group.state().in_sync == {1, 2})
        await until(lambda: second.service.store.dispatched == second.end)
        assert await bodies(group, 2) == [b"beside it"]


def raises_for(one: Replica, error: StoreError, name: str = "reserve") -> Callable[..., None]:
    """Return a method of MappedFile that fails in the log of one replica."""
    call, folder = getattr(MappedFile, name), str(Path(one.run.plan.store_directory))

    def fail(file: MappedFile, *given: object) -> None:
        if file.path.startswith(folder):
            raise error
        call(file, *given)

    return fail


@on_loop
@pytest.mark.parametrize("is_measured", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_a_master_whose_disk_is_full_lets_another_one_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_measured: bool
) -> None:
    monkeypatch.setattr(replica, "FULL_MS_MIN", 500)
    async with group_of(tmp_path) as group:
        first = await group.start(1)
        await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        full = StoreFull("log", "reserve", OSError(errno.ENOSPC, "No space left on device"))
        monkeypatch.setattr(MappedFile, "reserve", raises_for(first, full))
        first.service.store.set_disk_full(is_measured)
        assert (await send(group, 1)).code != ResponseCode.SUCCESS
        await group.until_serving(2)
        assert (await send(group, 2)).code == ResponseCode.SUCCESS


@on_loop
async def test_a_master_whose_disk_cannot_be_written_lets_another_one_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lead again at once, and fail again. It follows once its disk works."""
    monkeypatch.setattr(replica, "FAILED_MS_MIN", 500)
    monkeypatch.setattr(replica, "YIELD_MS", 4_000)
    async with group_of(tmp_path, QUICK._replace(patience_ms=1_500)) as group:
        first = await group.start(1)
        await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        read_only = StoreFailed("log", "write", OSError(errno.EROFS, "Read-only file system"))
        with monkeypatch.context() as patch:
            patch.setattr(MappedFile, "write_all", raises_for(first, read_only, "write_all"))
            with suppress(RemotingError):
                assert (await send(group, 1)).code != ResponseCode.SUCCESS
            await group.until_serving(2)
            assert (await send(group, 2, b"later")).code == ResponseCode.SUCCESS
        await until(lambda: group.state().in_sync == {1, 2})
        await until(lambda: first.service.store.dispatched == first.end)
        assert await bodies(group, 1) == [b"later"]
