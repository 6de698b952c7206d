"""Replicas with a register in one process: who serves, what is copied, what is cut."""

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from msgspec import structs

from tests.actors.bounded import on_loop
from tests.actors.client import Client
from tests.actors.group_in_process import (
    POLL_SECONDS,
    TOPIC,
    Group,
    bodies,
    group_of,
    send,
    until,
)
from tests.actors.plans import service_plan
from tests.actors.replicas import ACCOUNTS, guarded
from tests.actors.stores import fill
from tests.compat.processes import free_port
from tests.fakes.stores import open_store
from tests.simulation.disk import SimulatedDisk
from tests.simulation.faults import ANY_CALL, Failure
from tests.simulation.group_disk import SlotFileModel
from wakelog.actors.broker import member_server, replica
from wakelog.actors.broker.ha_client import HaClient
from wakelog.actors.broker.replica import (
    FAILED_MS_MIN,
    TICK_MS_MAX,
    OwnPlace,
    Replica,
    carry_out_cut,
)
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.deploy.local import start_local_broker
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.transport.clocks import wall_ms
from wakelog.audit.reseed import set_log_aside
from wakelog.broker.lock_table import LockTable
from wakelog.broker.replication import in_sync
from wakelog.broker.replication.election import StepDown, TakeRole
from wakelog.broker.replication.epochs import EpochLine, Epochs, EpochSlot
from wakelog.broker.replication.known_group import KnownGroup, known_group
from wakelog.broker.replication.replica_fetch import CutLog
from wakelog.broker.replication.takeover import (
    ELECTION_REFUSAL_VALUE,
    accept_loss,
)
from wakelog.console.health import Health
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.member_frames import Answer, Hello, MasterReader, encode_hello
from wakelog.storage.config import BrokerRole
from wakelog.storage.errors import StoreError
from wakelog.storage.read.reader import GetRequest

pytestmark = pytest.mark.slow


def locks_of(one: Replica) -> LockTable:
    return one.service.broker.state.locks


@on_loop
async def test_two_lead_by_turns_and_the_second_goes_on_alone(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        first = await group.start(1, min_in_sync=2)
        await until(lambda: first.run.serves)
        alone = await send(group, 1)
        assert alone.code == ResponseCode.SERVICE_NOT_AVAILABLE and first.end == 0
        assert "minInSyncReplicas" in (alone.remark or "")
        await group.start(2)
        await group.until_serving(1)
        for number in range(5):
            answer = await send(group, 1, b"%d" % number)
            assert answer.code == ResponseCode.SUCCESS, answer
        assert (await send(group, 2)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        numbers = first.service.statistics()["election"]
        assert (numbers["in_sync_count"], numbers["members_count"]) == (2, 1)
        assert numbers["behind_bytes_max"] == numbers["refused_count"] == 0
        assert first.service.broker.state.config.broker_id == 0
        assert group.replica(2).service.broker.state.config.broker_id == 2
        await until(lambda: group.replica(2).service.store.dispatched == first.end)
        assert await bodies(group, 2) == await bodies(group, 1)
        following = group.replica(2).service.statistics()["following"]
        assert following["is_connected"] and following["received_bytes"] == first.end
        queues = {MessageQueue(TOPIC, "broker-a", 0)}
        assert locks_of(first).lock("g", "c1", queues, wall_ms()) == queues
        await until(lambda: locks_of(group.replica(2)).held("g", "c1", queues) == queues)
        await group.stop(1)
        second = await group.until_serving(2)
        assert locks_of(second).lock("g", "c2", queues, wall_ms()) == set()
        assert (await send(group, 2, b"5")).code == ResponseCode.SUCCESS
        await until(lambda: second.service.store.dispatched == second.end)
        assert await bodies(group, 2) == [b"%d" % number for number in range(6)]
        await group.start(1)
        await until(lambda: group.state().in_sync == {1, 2})
        assert group.state().master == 2


@on_loop
async def test_a_master_without_its_followers_takes_nothing_and_is_cut(tmp_path: Path) -> None:
    """What only an old master has is set aside when it returns, and the rest is equal."""
    async with group_of(tmp_path) as group:
        await group.start(1)
        first = await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 1, b"kept")).code == ResponseCode.SUCCESS
        kept = first.end
        await group.replica(2)._follower.stop()  # it is there, and copies nothing more
        waiting = asyncio.create_task(send(group, 1, b"only here"))
        await until(lambda: first.end > kept == first.service.store.dispatched)
        assert len(await bodies(group, 1)) == 1
        await asyncio.to_thread(group.name_master, 2)
        with suppress(RemotingError):
            assert (await waiting).code == ResponseCode.SERVICE_NOT_AVAILABLE
        await group.until_serving(2)
        assert (await send(group, 2, b"later")).code == ResponseCode.SUCCESS
        leading = group.replica(2).service.broker
        assert leading.state.election_epoch == group.state().epoch
        await until(lambda: group.state().in_sync == {1, 2})
        following = group.replica(1).service.broker
        assert following.state.election_epoch is None
        aside = list((tmp_path / "1" / "store" / "wakelog.quarantine").iterdir())
        assert [b"only here" in path.read_bytes() for path in aside] == [True]
        await until(lambda: first.service.store.dispatched == first.end)
        assert await bodies(group, 1) == await bodies(group, 2) == [b"kept", b"later"]
        assert first.service.statistics()["election"]["cuts_count"] == 1


class Slots(SlotFileModel):
    """An epoch file that says what a power cut leaves of the log when lines are cut."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self._disk = disk
        self.left: list[bytes] = []

    def write(self, slot: EpochSlot) -> None:
        self.left.append(log_after_power_cut(self._disk))
        super().write(slot)


def log_after_power_cut(disk: SimulatedDisk) -> bytes:
    found = bytearray()
    for path, inode in sorted(disk.files.items()):
        if "/commitlog/" in path:
            found += bytes(int(path.rpartition("/")[2]) - len(found)) + inode.durable
    return bytes(found).rstrip(b"\0")


@pytest.mark.parametrize("keeps", [True, False])
@on_loop
async def test_the_log_is_cut_durably_before_its_lines_are(tmp_path: Path, keeps: bool) -> None:
    """Whichever call fails: bytes of a lost epoch would count as older ones without its line."""
    plan = structs.replace(service_plan(tmp_path), register="file:///register", replica_id=1)
    disk = SimulatedDisk()
    store = open_store(disk.process(), plan.settings.store)
    middle, end = fill(store, 20), fill(store, 1_000, begin=20)
    store.close(dispatch_behind_bytes=1)
    image, offset = disk.image(), middle if keeps else 0
    lines = (EpochLine(1, 0), EpochLine(2, middle), EpochLine(3, end - 1))
    for nth in count(1):
        disk = SimulatedDisk(image, records=False)
        slots = Slots(disk)
        epochs = Epochs(slots, end)
        epochs.make_promise(3)
        epochs.join(bytes(range(16)), lines, is_seeding=False)
        slots.left.clear()
        disk.faults.fail(ANY_CALL, Failure(), nth=nth)
        try:
            await carry_out_cut(CutLog(offset, None), plan.settings.store, disk.process(), epochs)
        except StoreError:
            assert epochs.lines == lines and not slots.left
            continue
        assert epochs.lines == (lines[:1] if keeps else ())
        assert len(slots.left) == 1 and len(slots.left[0]) <= offset
        if not disk.faults.struck_count:
            break
    assert nth > 20, "each call of a cut has failed once"


async def table_code(group: Group, number: int) -> int:
    """Return what a follower gets that asks for the committed offsets."""
    client = Client(group.address(number))
    try:
        answer = await client.call(RequestCode.GET_ALL_CONSUMER_OFFSET, {})
        return answer.code
    finally:
        await client.close()


@on_loop
async def test_replicas_follow_a_master_whose_loss_an_operator_has_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_sync, "ABSENT_MS_MAX", 500)
    async with group_of(tmp_path) as group:
        first = await group.start(1)
        await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 1, b"kept")).code == ResponseCode.SUCCESS
        await group.stop(2)
        await until(lambda: group.state().in_sync == {1})
        assert (await send(group, 1, b"lost")).code == ResponseCode.SUCCESS
        await asyncio.to_thread(group.name_master, 2, accept_loss)
        await group.start(2)
        await group.until_serving(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 2, b"later")).code == ResponseCode.SUCCESS
        await until(lambda: first.service.store.dispatched == group.replica(2).end)
        assert await bodies(group, 1) == await bodies(group, 2) == [b"kept", b"later"]


def health_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return what a probe is answered of one broker."""
    return Health(1.0).read({"broker-a": said}, wall_ms())


@on_loop
async def test_a_start_says_that_the_register_does_not_answer(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        group.register = f"etcd://127.0.0.1:{free_port()}"
        first = await group.start(1)
        (notice,) = first.notices
        assert "no message is taken before the register answers" in notice
        assert "Look whether a majority" in notice
        await until(lambda: bool(first.elector.cause))
        assert (said := first.service.health())["values"]["wakelog.registerFailure"]
        assert "broker-a: no master is elected yet" in health_of(said)["reasons"]


@on_loop
async def test_a_new_master_gives_its_tables_without_a_new_message(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        await group.start(1)
        await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 1)).code == ResponseCode.SUCCESS
        await group.stop(1)
        await group.until_serving(2)
        assert await table_code(group, 2) == ResponseCode.SUCCESS


@on_loop
async def test_strangers_change_nothing_and_keep_no_follower_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other groups, promises that nobody made, a number twice, other bytes, and silence."""
    monkeypatch.setattr(member_server, "SILENT_MS_MAX", 500)
    lines: list[str] = []
    monkeypatch.setattr(
        member_server.MemberServer, "_say", lambda _self, event, **values: lines.append(str(values))
    )
    async with group_of(tmp_path) as group:
        first = await group.start(1)
        await group.until_serving(1)
        epoch, epochs = first.election.epoch, first.epochs
        segment_bytes = first.run.open_store.config.commit_log_file_bytes
        fits = Hello(first.group, 2, epochs.log_id, epoch, segment_bytes, 0, 0, (), is_seeding=True)
        refusals = [
            await said_to(group, 1, encode_hello(structs.replace(fits, **changes)))
            for changes in (
                {"group": "wakelog/Other/broker-a", "promise": 900},
                {"log_id": bytes(16), "promise": 900},
                {"segment_bytes": 1, "promise": 900},
                {"promise": (1 << 62) - 1},
                {"replica": 1},
            )
        ]
        words = ["wakelog/Other", "has log 000", "mappedFileSize", "far above", "master's own"]
        assert [word in text for word, text in zip(words, refusals, strict=True)] == [True] * 5
        assert [word in text for word, text in zip(words, lines, strict=False)] == [True] * 5
        assert first.service.statistics()["election"]["refused_count"] == 5
        assert await said_to(group, 1, bytes(8)) == ""
        assert "4.9.3's slaves cannot" in lines[-1], lines
        silent = [await connect(group, 1) for _ in range(member_server.CONNECTIONS_MAX)]
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        for _, writer in silent:
            writer.close()
        assert (first.election.epoch, first.confirmed()) == (epoch, first.end)


async def connect(group: Group, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to where a replica takes its followers."""
    return await asyncio.open_connection("127.0.0.1", group.ports[number] + 1)


async def said_to(group: Group, number: int, data: bytes) -> str:
    """Return the refusal that a stranger gets, "" for none."""
    reader, writer = await connect(group, number)
    writer.write(data)
    answers = MasterReader().read(await reader.read())
    writer.close()
    return "".join(one.refusal for one in answers if isinstance(one, Answer))


@on_loop
async def test_members_with_an_access_key_prove_that_they_know_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower with another secret, or none, gets nothing, and both say so."""
    lines: list[str] = []
    monkeypatch.setattr(
        member_server.MemberServer,
        "_say",
        lambda _self, _event, **values: lines.append(str(values["cause"])),
    )
    guarded(tmp_path)
    guarded(tmp_path / "other", ACCOUNTS.replace("replica-secret", "stolen-secret"))
    async with group_of(tmp_path) as group:
        group.access_key, group.home = "replica-key", tmp_path
        first = await group.start(1)
        await group.until_serving(1)
        group.home = tmp_path / "other"
        impostor = await group.start(2)
        await until(lambda: "does not prove" in impostor._follower.cause)
        await until(lambda: member_server.UNPROVED in lines)
        assert not first._server.acknowledging and group.state().in_sync == {1}
        assert impostor.epochs.lines == ()
        await group.stop(2)
        group.access_key = ""
        unkeyed = await group.start(2)
        await until(lambda: "has no wakelog.accessKey" in unkeyed._follower.cause)
        assert not first._server.acknowledging and unkeyed.epochs.lines == ()
        assert any("has no wakelog.accessKey" in line for line in lines)
        await group.stop(2)
        group.access_key, group.home = "replica-key", tmp_path
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})


@on_loop
async def test_a_number_is_given_to_one_replica(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group, group_of(tmp_path / "o") as other:
        (tmp_path / "o").mkdir()
        other.register = group.register
        await group.start(1)
        await group.until_serving(1)
        with pytest.raises(DeploymentFailed, match="already"):
            await other.start(1)


@on_loop
async def test_a_number_that_two_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second could not reach the first when it started. It has not its log, so nobody leads."""
    monkeypatch.setattr(replica, "read_own_place", mock.AsyncMock(return_value=OwnPlace()))
    async with group_of(tmp_path) as group, group_of(tmp_path / "o") as other:
        (tmp_path / "o").mkdir()
        other.register = group.register
        await group.start(1)
        first = await group.until_serving(1)
        second = await other.start(1)
        await until(lambda: "is that of the broker at" in first.elector.cause)
        await until(lambda: not first.run.is_master and first.run.is_open)
        assert (await send(group, 1)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert second.election.in_sync is None and group.state().epoch == 1


@on_loop
@pytest.mark.parametrize("part", ["serve", "stop"])
async def test_a_role_that_cannot_be_begun_is_given_up_and_begun_again(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error leaves no master in the register that does not serve."""
    monkeypatch.setattr(replica, "REOPEN_AGAIN_SECONDS", 0.1)
    before, failures = getattr(BrokerService, part), [KeyError("of ours")]

    async def fail_once(service: BrokerService, *words: object, **more: object) -> object:
        found = await before(service, *words, **more)
        is_master = service.broker.state.config.broker_id == 0
        if failures and is_master == (part == "serve"):
            if part == "serve":
                await BrokerService.stop(service)
            raise failures.pop()
        return found

    async with group_of(tmp_path) as group:
        monkeypatch.setattr(BrokerService, part, fail_once)
        first = await group.start(1)
        await until(lambda: not failures)
        await group.until_serving(1)
        assert first.election.epoch == group.state().epoch > 1, "it has led before"
        assert (await send(group, 1)).code == ResponseCode.SUCCESS
    assert "not opened" in caplog.text and "KeyError('of ours')" in caplog.text


@on_loop
async def test_what_was_acknowledged_has_a_topic_whose_table_was_not_copied_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def copy_nothing(*_: object) -> None: ...

    monkeypatch.setattr(HaClient, "_copy_from", copy_nothing)
    async with group_of(tmp_path) as group:
        await group.start(1)
        first = await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        first.service.broker.state.topics.update(TopicConfig("made-late", 8, 8), wall_ms())
        client = Client(group.address(1))
        answer = await client.send("made-late", b"kept", queue_id=2)
        await client.close()
        assert answer.code == ResponseCode.SUCCESS, answer
        await group.stop(1)
        second = await group.until_serving(2)
        made = second.service.broker.state.topics.get("made-late")
        assert made is not None and (made.read_queue_nums, made.perm) == (3, 6)
        found = second.service.store.get_message(GetRequest("made-late", 2, 0, 32))
        assert found is not None and found.count == 1


async def _run_master_and_slave(group: Group) -> list[bytes]:
    """Leave the stores of a master and its slave, with equal logs; return what they have."""
    settings: list[dict[str, Any]] = [
        {"brokerRole": "SYNC_MASTER"},
        {
            "brokerRole": "SLAVE",
            "brokerId": 1,
            "haMasterAddress": f"127.0.0.1:{group.ports[1] + 1}",
        },
    ]
    plain = []
    for number, given in enumerate(settings, 1):
        folder = group.folder / str(number)
        folder.mkdir()
        plan = service_plan(folder, listenPort=group.ports[number], **given)
        plain.append(await start_local_broker(plan))
    sent = [b"%d" % number for number in range(5)]
    async with asyncio.timeout(20):
        while (await send(group, 1, sent[0])).code != ResponseCode.SUCCESS:
            await asyncio.sleep(POLL_SECONDS)
    for body in sent[1:]:
        assert (await send(group, 1, body)).code == ResponseCode.SUCCESS
    ends = [broker.service.store.log.end_offset for broker in plain]
    for broker in reversed(plain):
        await broker.stop()
    assert ends[0] == ends[1] > 0
    return sent


@on_loop
async def test_the_stores_of_a_master_and_its_slave_become_a_group(tmp_path: Path) -> None:
    """The master's store is replica 1. Its slave's is refused until its log is set aside."""
    async with group_of(tmp_path) as group:
        sent = await _run_master_and_slave(group)
        await group.start(1)
        await group.until_serving(1)
        second = await group.start(2)
        await until(lambda: "give `wakelog cluster reseed`" in second.elector.cause)
        assert group.state().in_sync == {1}
        config = second.service.store.config
        await group.stop(2)
        await asyncio.to_thread(set_log_aside, config)
        second = await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})
        assert (await send(group, 1, b"later")).code == ResponseCode.SUCCESS
        await until(lambda: second.service.store.dispatched == group.replica(1).end)
        assert (await bodies(group, 2))[-6:] == [*sent, b"later"]


@pytest.mark.parametrize(
    ("read_only", "passed_ms", "is_opened"),
    [
        (None, FAILED_MS_MIN, False),
        (None, FAILED_MS_MIN + 1, True),
        ("the disk is read-only", FAILED_MS_MIN + 1, False),
    ],
)
def test_a_log_that_failed_is_opened_again_unless_it_was_opened_just_now(
    read_only: str | None, passed_ms: int, is_opened: bool
) -> None:
    log, recovery = SimpleNamespace(failure="no disk"), SimpleNamespace(read_only=read_only)
    run = SimpleNamespace(is_open=True, open_store=SimpleNamespace(log=log, recovery=recovery))
    changed, election = asyncio.Event(), SimpleNamespace(in_sync=None)
    one: Any = SimpleNamespace(
        run=run, election=election, _opened_ms=0, _must_reopen=False, _changed=changed
    )
    Replica._check_log(one, passed_ms)
    assert one._must_reopen == changed.is_set() == is_opened


@pytest.mark.parametrize("wish", ["is_open", "role", "_cut", "_must_reopen", ""])
@on_loop
async def test_a_store_is_opened_again_once_for_each_reason(wish: str) -> None:
    run, opened = SimpleNamespace(is_open=wish != "is_open", role="slave"), list[str]()
    one: Any = SimpleNamespace(run=run, _changed=asyncio.Event(), _is_stopping=False)
    one._wanted, one._cut = "master" if wish == "role" else "slave", wish == "_cut" or None
    one._must_reopen = wish == "_must_reopen"

    async def reopen() -> None:
        opened.append(wish)
        one._cut, run.is_open, run.role = None, True, one._wanted

    one._reopen, keeping = reopen, asyncio.create_task(Replica._keep_role(one))
    for one._is_stopping in (False, False, True):
        await asyncio.sleep(0)
        one._changed.set()
    await keeping
    assert opened == ([wish] if wish else [])


@on_loop
async def test_replicas_report_their_group_to_operators(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        await group.start(1)
        await group.until_serving(1)
        await group.start(2)
        await until(lambda: group.state().in_sync == {1, 2})

        def reported(number: int) -> KnownGroup | None:
            return known_group(group.replica(number).service.broker.state.member_values())

        both = frozenset({1, 2})
        for number in both:
            known = KnownGroup(group.register, number, group.state().epoch, 1, both)
            await until(lambda number=number, known=known: reported(number) == known)  # type: ignore[misc]
        replica = group.replica(2)
        replica.election.refusal = "the register has lost this group"
        values = replica.service.broker.state.member_values()
        assert values[ELECTION_REFUSAL_VALUE] == "the register has lost this group"


@pytest.mark.parametrize("here", ["a:1", "b:1"])
def test_a_replica_is_known_by_its_present_address(here: str) -> None:
    broker = SimpleNamespace(broker_addr=here)
    plan = SimpleNamespace(settings=SimpleNamespace(broker=broker))
    one: Any = SimpleNamespace(own_id=1, _plan=plan)
    known: Any = SimpleNamespace(replicas={1: SimpleNamespace(address="a:1")})
    assert Replica._is_known_here(one, known) is (here == "a:1")
    assert not Replica._is_known_here(one, SimpleNamespace(replicas={}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "is_master", "is_open", "refuses"),
    [
        (TakeRole(5, 0), False, True, False),
        (TakeRole(5, 0), True, True, False),
        (StepDown("as asked"), True, True, True),
        (StepDown("as asked"), True, False, False),
        (StepDown("as asked"), False, True, False),
    ],
)
def test_only_an_open_master_that_steps_down_refuses_sends(
    action: TakeRole | StepDown, is_master: bool, is_open: bool, refuses: bool
) -> None:
    """The store of a follower takes what its master sends, whatever it was to become."""
    causes: list[str] = []
    dropped: list[int] = []
    given: Any = SimpleNamespace(
        run=SimpleNamespace(
            is_master=is_master, is_open=is_open, confirmed_grown=asyncio.Event()
        ),
        service=SimpleNamespace(refuse_sends=causes.append),
        _changed=asyncio.Event(), _took_ms=0, _wanted=None, _refusal="before",
        _drop_connections=lambda: dropped.append(1),
    )  # fmt: skip
    Replica._change_role(given, action)
    assert causes == (["this replica is no master now: as asked"] if refuses else [])
    assert given._refusal == ("as asked" if refuses else "before")
    takes = isinstance(action, TakeRole)
    assert given._wanted is (BrokerRole.SYNC_MASTER if takes else BrokerRole.SLAVE)
    assert (given._took_ms > 0) is takes and dropped == [1]
    assert given._changed.is_set() and given.run.confirmed_grown.is_set()


@pytest.mark.parametrize(
    ("is_master", "is_wanted", "silent_ms", "may"),
    [
        (False, False, 9_999, True),
        (True, True, TICK_MS_MAX - 1, True),
        (True, True, TICK_MS_MAX, False),
        (True, False, 0, False),
    ],
)
def test_a_master_registers_while_it_is_known_to_be_one(
    is_master: bool, is_wanted: bool, silent_ms: int, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "steady_ms", lambda: 20_000)
    given: Any = SimpleNamespace(
        run=SimpleNamespace(is_master=is_master),
        is_master_wanted=is_wanted,
        _ticked_ms=20_000 - silent_ms,
    )
    found: Any = vars(Replica)["may_register"]
    assert found.fget(given) is may
