"""Run: one run of a broker of a group in one role, and what its group may ask of it."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from zlib import crc32

import pytest
from msgspec import structs

from tests.actors.bounded import on_loop
from tests.actors.plans import service_plan
from tests.fakes.logs import SEGMENT_BYTES
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import open_store, put, store_config
from wakelog.actors.broker import run as run_module
from wakelog.actors.broker.member import RoleOver
from wakelog.actors.broker.run import Run, in_role
from wakelog.broker.replication.member_proof import ProofAccount
from wakelog.storage.config import BrokerRole
from wakelog.storage.errors import StoreFailed


class Group:
    """A replica as its run sees it. acts: how often it was to act."""

    def __init__(self) -> None:
        self.master = "the master"
        self.may_register = self.is_master_wanted = True
        self.notices = ["a notice"]
        self.election: Any = SimpleNamespace(in_sync=None)
        self.acts = 0

    def act(self) -> None:
        self.acts += 1

    def add_statistics(self, found: dict[str, Any]) -> dict[str, Any]:
        return found | {"election": 1}


def run_of(directory: Path, role: BrokerRole, *, is_open: bool = True) -> tuple[Run, Any]:
    """Return a run in a role, and its group; its store, if it is open, has some segments."""
    group: Any = Group()
    run = Run(group, role, structs.replace(service_plan(directory), replica_id=3))
    if is_open:
        store = open_store(MemoryFileSystem(), store_config())
        put(store, *(b"%d" % number * 500 for number in range(20)))
        opened: Any = SimpleNamespace(store=store, broker=SimpleNamespace(state=None))
        run.opened = opened
    return run, group


@pytest.mark.parametrize(
    ("role", "broker_id"), [(BrokerRole.SLAVE, 3), (BrokerRole.ASYNC_MASTER, 0)]
)
def test_a_role_has_its_settings(tmp_path: Path, role: BrokerRole, broker_id: int) -> None:
    before = structs.replace(service_plan(tmp_path), replica_id=3)
    plan = in_role(before, role)
    assert plan.settings.broker.broker_id == broker_id
    assert plan.settings.store.broker_role is role
    back = in_role(plan, before.settings.store.broker_role)
    assert structs.replace(back, settings=before.settings) == before


@pytest.mark.parametrize("role", [BrokerRole.SLAVE, BrokerRole.ASYNC_MASTER])
def test_a_run_speaks_for_its_group(tmp_path: Path, role: BrokerRole) -> None:
    run, group = run_of(tmp_path, role)
    assert run.is_master is (role is not BrokerRole.SLAVE)
    assert run.master is (None if run.is_master else group.master)
    for known in (True, False):
        group.may_register = known
        assert run.may_register is known
    assert run.notices == ["a notice"]
    assert run.add_statistics({"x": 0}) == {"x": 0, "election": 1}


def test_a_group_acts_on_what_is_written_and_while_open_on_what_is_durable(tmp_path: Path) -> None:
    run, group = run_of(tmp_path, BrokerRole.SLAVE)
    run.on_appended()
    assert group.acts == 1
    run.on_flushed(7)
    assert group.acts == 2
    opened = run.opened
    assert run.close() is opened and run.close() is None
    run.on_flushed(8)
    assert group.acts == 2


def test_a_closed_store_is_not_used(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path, BrokerRole.SLAVE, is_open=False)
    assert not run.is_open
    for use in (lambda: run.open_broker, lambda: run.open_store, lambda: run.read(0, 1)):
        with pytest.raises(StoreFailed, match="opened for another role"):
            use()


def test_the_sum_of_a_range_is_that_of_its_bytes_over_all_segments(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path, BrokerRole.SLAVE)
    assert run.is_open
    files = run.open_store.log.files.files
    assert len(files) > 2
    data = b"".join(file.read(0, SEGMENT_BYTES) for file in files)
    places = [0, 1, 100, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, len(data) - 1]
    for begin in places:
        for end in (*places, len(data)):
            if begin <= end:
                assert run.checksum(begin, end) == crc32(data[begin:end]), (begin, end)
    assert run.read(100, 7) == data[100:107]
    assert run.read(len(data) + 9, 7) == b"", "of a segment that is not there"


def test_what_cannot_be_read_has_no_bytes(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path, BrokerRole.SLAVE)

    def fail(_position: int, _size_bytes: int) -> bytes:
        raise StoreFailed("log", "read", OSError(5, "no"))

    file: Any = SimpleNamespace(position_of=lambda offset: offset, read=fail)
    opened: Any = run.opened
    opened.store = SimpleNamespace(
        log=SimpleNamespace(files=SimpleNamespace(find=lambda _: file)), config=store_config()
    )
    assert run.read(0, 9) == b""


@pytest.mark.parametrize("known", [True, False])
def test_the_account_is_as_its_file_has_it_now(tmp_path: Path, *, known: bool) -> None:
    run, _ = run_of(tmp_path, BrokerRole.SLAVE)
    opened: Any = run.opened
    found = SimpleNamespace(secret_key="s") if known else None
    table = SimpleNamespace(find={"a": found}.get)
    opened.broker.state = SimpleNamespace(access=SimpleNamespace(table=table))
    assert run.account is None, "without wakelog.accessKey"
    run.plan = structs.replace(run.plan, access_key="a")
    assert run.account == ProofAccount("a", "s" if known else None)
    opened.broker.state.access = None
    assert run.account == ProofAccount("a", None)
    run.close()
    assert run.account == ProofAccount("a", None)


@on_loop
async def test_a_follower_waits_for_nothing(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path, BrokerRole.SLAVE)
    await run.wait_serving()
    assert not run.serves


@on_loop
async def test_a_master_serves_once_its_whole_log_is_confirmed(tmp_path: Path) -> None:
    run, group = run_of(tmp_path, BrokerRole.ASYNC_MASTER)
    end = run.open_store.log.end_offset
    waiting = asyncio.create_task(run.wait_serving())
    for in_sync in (None, SimpleNamespace(confirmed=0), SimpleNamespace(confirmed=end - 1)):
        group.election.in_sync = in_sync
        run.confirmed_grown.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done() and not run.serves
    group.election.in_sync = SimpleNamespace(confirmed=end)
    run.confirmed_grown.set()
    await waiting
    assert run.serves


@on_loop
async def test_a_role_that_is_over_is_waited_for_no_more(tmp_path: Path) -> None:
    run, group = run_of(tmp_path, BrokerRole.ASYNC_MASTER)
    waiting = asyncio.create_task(run.wait_serving())
    await asyncio.sleep(0)
    group.is_master_wanted = False
    run.confirmed_grown.set()
    with pytest.raises(RoleOver):
        await waiting
    assert not run.serves


@pytest.mark.parametrize("role", [BrokerRole.SLAVE, BrokerRole.SYNC_MASTER])
def test_a_run_begins_with_a_broker_that_syncs_and_a_masters_waits_for_what_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: BrokerRole
) -> None:
    run, _ = run_of(tmp_path, role, is_open=False)
    made, resources = Mock(), Mock()
    asked: tuple[object, ...] = (resources, run)
    monkeypatch.setattr(run_module, "make_broker", lambda *parts: made if parts == asked else None)
    assert run.begin(resources) is made and run.open_broker is made
    assert made.broker.state.awaits_confirmed is (role is BrokerRole.SYNC_MASTER)
    made.progress.sync_every_turn.assert_called_once_with(wanted=True)
    assert run.close() is made and run.close() is None and not run.is_open
