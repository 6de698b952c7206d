"""Three electors and a real register: a dead master, an operator, a register that is away.

No log is copied here: that a set's members have every acknowledged byte is the simulator's matter.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.actors.bounded import on_loop
from tests.actors.registers.etcd_members import EtcdMembers
from wakelog.actors.broker import elector as elector_module
from wakelog.actors.broker.elector import Elector
from wakelog.actors.registers.register import (
    NO_VERSION,
    GroupRegister,
    RegisterUnreachable,
    StaleVersion,
    group_key,
    open_register,
)
from wakelog.broker.replication.election import (
    Election,
    ElectionSettings,
    ReadRegister,
    ReplaceState,
    Role,
    StepDown,
    TakeRole,
)
from wakelog.broker.replication.epochs import SLOTS, Epochs
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress, VersionedState
from wakelog.broker.replication.takeover import accept_loss, hand_over
from wakelog.storage.durability.slot_file import SlotFile
from wakelog.storage.errors import StoreError, StoreFailed
from wakelog.storage.file_system import FileSystem

LOG_ID = bytes(range(16))
KEY = group_key("DefaultCluster", "broker-a")
WAIT_SECONDS_MAX = 60.0
QUICK = ElectionSettings(patience_ms=300, behind_ms=100, renew_ms=50, read_ms=50)
FAILOVERS_COUNT = 12
ADDRESSES = {one: ReplicaAddress(f"h{one}:1", f"h{one}:2") for one in (1, 2, 3)}
STATE = GroupState(
    log_id=LOG_ID.hex(), epoch=1, master=1, in_sync=frozenset({1, 2, 3}), replicas=ADDRESSES
)


class EmptyLog:
    """A log without a byte, on a disk that fails as often as a test wants."""

    failures_count = 0
    end = 0

    def freeze(self) -> int:
        if self.failures_count:
            self.failures_count -= 1
            raise StoreFailed("log", "sync", OSError(5, "Input/output error"))
        return 0


class Replica:
    """One elector over its own epoch file. changes: what it was told to be."""

    def __init__(self, number: int, folder: Path, group: GroupRegister) -> None:
        file = SlotFile(FileSystem(), str(folder / f"epochs.{number}"), SLOTS)
        epochs = Epochs(file, 0)
        if epochs.log_id != LOG_ID:
            epochs.join(LOG_ID, is_seeding=False)
        self.changes: list[TakeRole | StepDown] = []
        self._file, self.log = file, EmptyLog()
        self.election = Election(
            QUICK,
            number,
            ADDRESSES[number],
            epochs,
            self.log,
            new_log_id=LOG_ID,
            is_log_empty=True,
            now_ms=0,
        )
        self.elector = Elector(self.election, group, self.changes.append)

    @property
    def epochs_led(self) -> list[int]:
        return [one.epoch for one in self.changes if isinstance(one, TakeRole)]

    @property
    def is_master(self) -> bool:
        return self.election.role is Role.MASTER

    async def end(self) -> None:
        """Do nothing more, and report nothing: as a kill."""
        await self.elector.stop()
        self._file.close()


class Group:
    """Three replicas and their register's address."""

    def __init__(self, folder: Path, address: str = "") -> None:
        self.folder = folder
        self.address = address or f"file://{folder}/register"
        self.register = GroupRegister(open_register(self.address), KEY)
        self.register.replace(STATE, NO_VERSION)
        self.replicas = {number: self.start(number) for number in ADDRESSES}
        self.gone: list[Replica] = []

    def start(self, number: int) -> Replica:
        register = GroupRegister(open_register(self.address), KEY)
        replica = Replica(number, self.folder, register)
        replica.elector.start()
        return replica

    async def master(self, *, besides: int = 0) -> int:
        """Return which replica is master alone."""

        def masters() -> list[int]:
            return [n for n, one in self.replicas.items() if one.is_master and n != besides]

        await wait_until(lambda: len(masters()) == 1, "a master")
        return masters()[0]

    async def kill(self, number: int) -> None:
        self.gone.append(self.replicas.pop(number))
        await self.gone[-1].end()

    def operate(self, change: Callable[[GroupState, int], GroupState], to: int) -> None:
        """Do what `wakelog cluster failover` does."""
        while True:
            state, version = self.register.read()
            assert state is not None
            try:
                self.register.replace(change(state, to), version)
                return
            except StaleVersion:  # the master has renewed meanwhile
                continue

    def add_to_set(self, number: int) -> None:
        """Let a replica be a member again, as its master does once it has caught up."""
        self.operate(lambda state, to: replace(state, in_sync=state.in_sync | {to}), number)

    def check(self) -> None:
        """One master an epoch, in the order in which they followed each other."""
        led = [one.epochs_led for one in (*self.gone, *self.replicas.values())]
        epochs = list(itertools.chain.from_iterable(led))
        assert len(set(epochs)) == len(epochs), led
        assert all(one == sorted(one) for one in led)


@asynccontextmanager
async def group_of(folder: Path, address: str = "") -> AsyncIterator[Group]:
    group = Group(folder, address)
    try:
        yield group
        group.check()
    finally:
        for number in list(group.replicas):
            await group.kill(number)


async def wait_until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not true():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def test_a_dead_master_is_followed_by_a_member_and_does_not_lead_on_its_return(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with group_of(tmp_path) as group:
            first = await group.master()
            assert first == 1  # the register named it before
            await group.kill(first)
            second = await group.master()
            state = group.register.read().state
            assert state is not None
            assert (state.master, state.in_sync) == (second, frozenset({2, 3}))
            group.replicas[first] = back = group.start(first)
            await wait_until(lambda: back.election.leader == second, "follows the new master")
            assert back.epochs_led == []

    asyncio.run(run())


def test_an_operator_gives_the_group_another_master(tmp_path: Path) -> None:
    async def run() -> None:
        async with group_of(tmp_path) as group:
            await group.master()
            await asyncio.to_thread(group.operate, hand_over, 3)
            await wait_until(lambda: group.replicas[3].is_master, "replica 3 is master")
            await wait_until(lambda: not group.replicas[1].is_master, "replica 1 follows")
            assert isinstance(group.replicas[1].changes[-1], StepDown)
            state = group.register.read().state
            assert state is not None and state.in_sync == {1, 2, 3}
            await asyncio.to_thread(group.operate, accept_loss, 2)
            await wait_until(lambda: group.replicas[2].is_master, "replica 2 is master")
            await wait_until(lambda: set_of(group) == {2}, "alone in the set")

    asyncio.run(run())


@pytest.mark.etcd
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_failovers_while_members_of_etcd_are_killed(tmp_path: Path) -> None:
    """Each master is killed, and at every other one a member of etcd, too; all come back."""

    async def run(address: str, members: EtcdMembers) -> None:
        async with group_of(tmp_path, address) as group:
            for n in range(FAILOVERS_COUNT):
                master = await group.master()
                if n % 2:
                    await asyncio.to_thread(members.kill, n % 3)
                await group.kill(master)
                await group.master()
                if n % 2:
                    await asyncio.to_thread(members.start, n % 3)
                    await asyncio.to_thread(members.wait_healthy, n % 3)
                back = group.replicas[master] = group.start(master)
                await wait_until(partial(follows, back), "follows")
                await asyncio.to_thread(group.add_to_set, master)

    with EtcdMembers(tmp_path, 3) as members:
        places = ",".join(f"127.0.0.1:{port}" for port in members.client_ports)
        asyncio.run(run(f"etcd://{places}", members))


def follows(replica: Replica) -> bool:
    return replica.election.leader > 0


def set_of(group: Group) -> frozenset[int]:
    state = group.register.read().state
    return frozenset() if state is None else state.in_sync


def test_a_register_that_is_away_is_reported_and_asked_again(tmp_path: Path) -> None:
    class Away(GroupRegister):
        """Cut off as long as a test wants it."""

        is_away = True

        def read(self) -> VersionedState:
            if self.is_away:
                raise RegisterUnreachable("no member answers")
            return super().read()

    async def run() -> None:
        register = open_register(f"file://{tmp_path}/register")
        away = Away(register, KEY)
        away.replace(STATE, NO_VERSION)
        replica = Replica(1, tmp_path, away)
        replica.elector.start()
        await wait_until(lambda: replica.elector.cause == "no member answers", "reported")
        assert replica.changes == []
        away.is_away = False
        await wait_until(lambda: replica.is_master, "master")
        statistics = replica.elector.statistics()
        assert (replica.elector.cause, statistics["role"]) == ("", "master")
        assert statistics["epoch"] == 2 and statistics["register_failures_count"]
        await replica.end()

    asyncio.run(run())


def test_a_disk_that_fails_makes_no_master_and_is_asked_again(tmp_path: Path) -> None:
    async def run() -> None:
        register = open_register(f"file://{tmp_path}/register")
        GroupRegister(register, KEY).replace(STATE, NO_VERSION)
        replica = Replica(1, tmp_path, GroupRegister(register, KEY))
        replica.log.failures_count = 3
        replica.elector.start()
        await wait_until(lambda: "Input/output" in replica.elector.cause, "reported")
        await wait_until(lambda: replica.is_master, "master")
        assert len(replica.epochs_led) == 1 and replica.log.failures_count == 0
        await replica.end()

    asyncio.run(run())


@pytest.mark.parametrize("part", ["tick", "on_replaced"])
def test_an_unforeseen_error_ends_the_role(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose election does not go on does not keep its lease: it is no master, and tries again."""

    def fail(*_: object) -> None:
        raise KeyError("of ours")

    async def run() -> None:
        register = open_register(f"file://{tmp_path}/register")
        GroupRegister(register, KEY).replace(STATE, NO_VERSION)
        replica = Replica(1, tmp_path, GroupRegister(register, KEY))
        replica.elector.start()
        await wait_until(lambda: replica.is_master, "master")
        with monkeypatch.context() as broken:
            broken.setattr(replica.election, part, fail)
            await wait_until(lambda: not replica.is_master, "no master")
            assert isinstance(replica.changes[-1], StepDown)
            assert "KeyError('of ours')" in replica.changes[-1].cause
        await wait_until(lambda: replica.is_master, "master again")
        assert replica.epochs_led == [2, 3]
        await replica.end()

    asyncio.run(run())
    assert "election failed" in caplog.text and "Traceback" in caplog.text


@pytest.mark.parametrize("number", [1, 2])
def test_a_stop_while_a_call_is_under_way(tmp_path: Path, number: int) -> None:
    async def run() -> None:
        register = open_register(f"file://{tmp_path}/register")
        replica = Replica(number, tmp_path, GroupRegister(register, KEY))
        replica.elector.work()
        await replica.end()
        assert replica.changes == []

    asyncio.run(run())


@on_loop
async def test_an_elector_that_rests_asks_for_nothing_until_its_time_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms, asked_ms = [1_000], list[int]()
    monkeypatch.setattr(elector_module, "steady_ms", lambda: now_ms[-1])
    group = GroupRegister(open_register(f"file://{tmp_path}/register"), KEY)
    replica = Replica(1, tmp_path, group)
    monkeypatch.setattr(replica.election, "tick", asked_ms.append)
    for at_ms in (1_000, 1_001):
        now_ms.append(at_ms)
        replica.elector.work()
    replica.elector.rest(500)
    for at_ms in (1_001, 1_500, 1_501, 1_502):
        now_ms.append(at_ms)
        replica.elector.work()
    assert asked_ms == [1_000, 1_001, 1_501, 1_502]
    await replica.end()


class Hearing:
    """An election that notes what it hears, and wants one thing of its register."""

    refusal = ""
    in_sync = True

    def __init__(self, action: ReadRegister | ReplaceState) -> None:
        self.actions: list[ReadRegister | ReplaceState] = [action]
        self.heard: list[tuple[object, ...]] = []

    def tick(self, now_ms: int) -> None:
        """Want nothing more."""

    def on_read(self, call: int, found: VersionedState, now_ms: int) -> None:
        self.heard.append(("read", call, found.version))

    def on_replaced(self, call: int, version: str | None, now_ms: int) -> None:
        self.heard.append(("replaced", call, version))

    def on_no_answer(self, call: int, now_ms: int) -> None:
        self.heard.append(("no answer", call))

    def step_down(self, cause: str, now_ms: int) -> None:
        self.heard.append(("step down",))


@pytest.mark.parametrize(
    ("answer", "read", "replaced", "cause"),
    [
        ("9", [("read", 7, "9")], [("replaced", 7, "9")], ""),
        (StaleVersion("newer"), [("replaced", 7, None)], [("replaced", 7, None)], ""),
        (RegisterUnreachable("away", "wait"), [("no answer", 7)], [("no answer", 7)], "away. wait"),
        (StoreError("the disk"), [], [], "the disk"),
        (
            KeyError("of ours"),
            [("step down",), ("no answer", 7)],
            [("step down",), ("no answer", 7)],
            "KeyError('of ours')",
        ),
    ],
)
@on_loop
async def test_an_election_hears_what_became_of_each_call(
    answer: str | Exception,
    read: list[tuple[object, ...]],
    replaced: list[tuple[object, ...]],
    cause: str,
) -> None:
    def answered(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return VersionedState(STATE, answer) if isinstance(action, ReadRegister) else answer

    group: Any = SimpleNamespace(read=answered, replace=answered, close=lambda: None)
    for action, expected in ((ReadRegister(7), read), (ReplaceState(7, STATE, "8"), replaced)):
        election: Any = Hearing(action)
        elector = Elector(election, group, lambda change: None)
        elector.work()
        assert elector._under_way is not None
        await elector._under_way
        assert (election.heard, elector.cause) == (expected, cause)
        await elector.stop()


@on_loop
async def test_an_elector_that_was_stopped_decides_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elector_module, "TICK_SECONDS", 0.0)
    election: Any = Hearing(ReadRegister(7))
    ticks: list[int] = []
    election.actions, election.tick = [], ticks.append
    group: Any = SimpleNamespace(close=lambda: None)
    elector = Elector(election, group, lambda change: None)
    elector.start()
    while not ticks:
        await asyncio.sleep(0)
    await elector.stop()
    ticks.clear()
    for _ in range(5):
        await asyncio.sleep(0)
    assert ticks == []
