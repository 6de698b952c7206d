"""`wakelog cluster status`: what is compared, and a broker in this process."""

import threading
from pathlib import Path
from unittest import mock

import pytest
from msgspec.structs import replace

from tests.cli.cluster.conftest import CommandLine
from wakelog.actors.registers.register import (
    NO_VERSION,
    AnswerLost,
    GroupRegister,
    RegisterUnreachable,
    StaleVersion,
    group_key,
    open_register,
)
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress, VersionedState
from wakelog.broker.replication.takeover import LOG_EPOCH_VALUE, LOG_ID_VALUE, REPLICA_VALUE
from wakelog.cli.admin.brokers import AskedBroker, every_broker
from wakelog.cli.cluster import replicas
from wakelog.cli.cluster.replicas import RegisteredBroker, ReplicaRow, compare
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError

WATCH_SECONDS = 30.0


def state(places: dict[int, str], *, in_sync: set[int], master: int = 1) -> GroupState:
    return GroupState(
        log_id="0" * 32,
        epoch=4,
        master=master,
        in_sync=frozenset(in_sync),
        replicas={number: ReplicaAddress(one, one) for number, one in places.items()},
    )


def test_without_a_register_id_0_is_the_master() -> None:
    found = list(compare([RegisteredBroker(0, "a:1", 70), RegisteredBroker(1, "b:1", None)], None))
    assert found == [
        ReplicaRow(0, "a:1", "master", None, None, 70, ""),
        ReplicaRow(1, "b:1", "slave", None, None, None, "no answer"),
    ]


def test_roles_and_the_set_are_those_of_the_register() -> None:
    registered = [RegisteredBroker(0, "a:1", 70), RegisteredBroker(2, "b:1", 60)]
    found = list(compare(registered, state({1: "a:1", 2: "b:1", 3: "c:1"}, in_sync={1, 3})))
    assert found == [
        ReplicaRow(1, "a:1", "master", 4, True, 70, ""),
        ReplicaRow(2, "b:1", "follower", 4, False, 60, ""),
        ReplicaRow(3, "c:1", "follower", 4, True, None, "no answer"),
    ]


def test_what_does_not_fit_the_register_is_noted() -> None:
    registered = [RegisteredBroker(0, "b:1", 60), RegisteredBroker(5, "d:1", 9)]
    found = list(compare(registered, state({1: "a:1", 2: "b:1"}, in_sync={1})))
    assert [one.note for one in found] == [
        "no answer",
        "registered as master, and the register names 1",
        "not in the register",
    ]


REFUSAL = ClientError("a:1 answered 1: Check signature failed", "Check the secret key", code=1)


def test_what_a_broker_refuses_is_no_silence() -> None:
    registered = [RegisteredBroker(0, "a:1", None, REFUSAL), RegisteredBroker(2, "b:1", 60)]
    found = list(compare(registered, state({1: "a:1", 2: "b:1"}, in_sync={1})))
    assert [one.note for one in found] == ["refused", ""]
    assert [one.note for one in compare(registered, None)] == ["refused", ""]


def test_only_of_a_master_it_is_said_that_it_takes_no_sends() -> None:
    registered = [
        RegisteredBroker(0, "a:1", 70, None, "too few"),
        RegisteredBroker(2, "b:1", 60, None, "it follows"),
    ]
    found = list(compare(registered, state({1: "a:1", 2: "b:1"}, in_sync={1})))
    assert [one.note for one in found] == ["refuses sends: too few", ""]


def asked_brokers(
    monkeypatch: pytest.MonkeyPatch, *rounds: list[AskedBroker]
) -> list[list[AskedBroker]]:
    """Have brokers that say in each round something else; the list has what is not asked yet."""
    left = list(rounds)

    async def ask_all(admin: Admin) -> list[AskedBroker]:
        return left.pop(0)

    monkeypatch.setattr(replicas, "every_broker", ask_all)
    monkeypatch.setattr(replicas, "REOPENED_SECONDS", 0.0)
    return left


def asked(number: int, end: int | None, refusal: ClientError | None = None) -> AskedBroker:
    values = {} if end is None else {"commitLogMaxOffset": str(end)}
    return AskedBroker("c", "broker-t", number, f"127.0.0.1:{number + 1}", values, refusal)


def test_a_refusal_is_said_once_with_its_remedy(
    cli: CommandLine, register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [asked(0, None, REFUSAL), asked(1, None, REFUSAL)]
    asked_brokers(monkeypatch, both, both)
    *rows, end = cli.json("cluster", "status", code=1)
    assert [(row["note"], row["behindBytes"]) for row in rows] == [("refused", None)] * 2
    assert end["problems"] == ["a:1 answered 1: Check signature failed"]
    assert cli.err.strip().endswith("Check signature failed. Check the secret key.")
    asked_brokers(monkeypatch, both, both)
    assert "" not in cli("cluster", "status", code=1)
    GroupRegister(open_register(register), group_key("c", "broker-t")).replace(
        state({1: "127.0.0.1:1", 2: "127.0.0.1:2"}, in_sync={1, 2}), NO_VERSION
    )
    cli("cluster", "failover", "broker-t", "--register", register, code=1)
    assert "Check signature failed. Check the secret key" in cli.err


def test_copies_that_have_more_than_their_master(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store is an old copy: none is behind it, and they do not follow it."""
    now = [asked(0, 50), asked(1, 80), asked(2, 40)]
    left = asked_brokers(monkeypatch, now, now)
    *rows, end = cli.json("cluster", "status", code=1)
    assert [(row["behindBytes"], row["note"]) for row in rows] == [
        (0, ""),
        (0, "30 bytes ahead of its master"),
        (10, ""),
    ]
    assert end["problems"] == ["127.0.0.1:2: 30 bytes ahead of its master"]
    assert not left


def test_a_copy_of_a_log_that_grows_is_not_ahead(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked after its master, which had more by then."""
    left = asked_brokers(monkeypatch, [asked(0, 50), asked(1, 80)], [asked(0, 90), asked(1, 110)])
    rows = cli.json("cluster", "status")
    assert [row["note"] for row in rows] == ["", ""] and not left


def test_without_a_master_none_is_said_to_be_level(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_brokers(monkeypatch, *([[asked(0, None), asked(1, 80)]] * 2))
    *rows, end = cli.json("cluster", "status", code=1)
    assert [row["behindBytes"] for row in rows] == [None, None]
    assert end["problems"] == ["broker-t has no master that answers", "127.0.0.1:1: no answer"]


def test_a_broker_alone(cli: CommandLine) -> None:
    [row] = cli.json("cluster", "status")
    assert (row["broker"], row["replica"], row["role"]) == ("broker-t", 0, "master")
    assert (row["epoch"], row["inSync"], row["behindBytes"], row["note"]) == (None, None, 0, "")
    assert cli("cluster", "status", "--max", "0")[0].split()[:3] == ["CLUSTER", "BROKER", "REPLICA"]


@pytest.fixture
def register(tmp_path: Path) -> str:
    return f"file://{tmp_path}/register"


def test_a_group_with_a_register(
    cli: CommandLine, register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "REOPENED_SECONDS", 0.0)
    group = GroupRegister(open_register(register), group_key("DefaultCluster", "broker-t"))
    version = group.replace(state({1: cli.broker.address}, in_sync={1}), NO_VERSION)
    [row] = cli.json("cluster", "status", "--register", register)
    assert (row["replica"], row["role"], row["epoch"], row["inSync"]) == (1, "master", 4, True)
    both = {1: cli.broker.address, 2: "127.0.0.1:1"}
    group.replace(state(both, in_sync={1, 2}, master=2), version)
    rows = cli.json("cluster", "status", "--register", register, code=1)
    assert rows[-1]["problems"][0] == "broker-t has no master that answers"
    assert [row["note"] for row in rows[:2]] == [
        "registered as master, and the register names 2",
        "no answer",
    ]
    assert "127.0.0.1:1: no answer" in cli.err


def test_a_replica_that_reopens_is_asked_once_more(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = Admin.runtime_info, []

    async def silent_once(admin: Admin, address: str) -> dict[str, str]:
        asked.append(address)
        if len(asked) == 1:
            raise ClientError("it reopens", "Wait")
        return await ask(admin, address)

    monkeypatch.setattr(replicas, "REOPENED_SECONDS", 0.0)
    monkeypatch.setattr(Admin, "runtime_info", silent_once)
    [row] = cli.json("cluster", "status")
    assert (row["role"], row["note"], len(asked)) == ("master", "", 2)


@pytest.mark.parametrize(
    ("address", "said", "code"),
    [
        ("", "", 0),
        ("consul://a:1", "there is no register consul:// here. There are etcd,", 2),
        ("etcd://127.0.0.1:1", "no member of the register answers: 127.0.0.1:1", 1),
    ],
)
def test_an_address_of_a_register(cli: CommandLine, address: str, said: str, code: int) -> None:
    cli("cluster", "status", "--register", address, code=code)
    assert said in cli.err


@pytest.mark.parametrize(
    ("is_reachable", "note", "said"),
    [
        (True, "not in the register", "has nothing of wakelog/DefaultCluster/broker-t. Leave --re"),
        (False, "register not read", "the register's file: [Errno "),
    ],
)
def test_without_the_registers_answer_the_rows_are_those_of_the_name_servers(
    cli: CommandLine, tmp_path: Path, is_reachable: bool, note: str, said: str
) -> None:
    if not is_reachable:
        (tmp_path / "register").touch()
    words = "cluster", "status", "--register", f"file://{tmp_path}/register"
    row, end = cli.json(*words, code=1)
    assert (row["address"], row["role"], row["note"]) == (cli.broker.address, "master", note)
    assert (row["epoch"], row["inSync"], row["behindBytes"]) == (None, None, 0)
    assert len(end["problems"]) == 1 and said in cli.err
    assert cli.broker.address in cli(*words, code=1)[1]


def test_a_broker_without_failover_beside_a_group_is_no_fault(
    cli: CommandLine, register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def with_another(admin: Admin) -> list[AskedBroker]:
        found = await every_broker(admin)
        return [*found, found[0]._replace(name="broker-u", address="127.0.0.1:1")]

    monkeypatch.setattr(replicas, "every_broker", with_another)
    group = GroupRegister(open_register(register), group_key("DefaultCluster", "broker-t"))
    group.replace(state({1: cli.broker.address}, in_sync={1}), NO_VERSION)
    rows = cli.json("cluster", "status", "--register", register)
    assert [(row["broker"], row["role"], row["note"]) for row in rows] == [
        ("broker-t", "master", ""),
        ("broker-u", "master", "not in the register"),
    ]


def test_a_replica_that_is_silent_says_that_first() -> None:
    registered = [RegisteredBroker(0, "a:1", 70), RegisteredBroker(1, "b:1", None)]
    notes = [one.note for one in compare(registered, None, "register not read")]
    assert notes == ["register not read", "no answer"]


@pytest.fixture
def group(cli: CommandLine, register: str) -> GroupRegister:
    """A group whose second replica is this broker, and whose master does not answer."""
    made = GroupRegister(open_register(register), group_key("DefaultCluster", "broker-t"))
    places = {1: "127.0.0.1:1", 2: cli.broker.address, 3: "127.0.0.1:2"}
    made.replace(state(places, in_sync={1, 2}), NO_VERSION)
    return made


def test_a_group_that_its_register_has_lost_is_found_again(
    cli: CommandLine, register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an operator, who is told how: it may lose what only a silent replica has."""
    ask = Admin.runtime_info

    async def with_own_values(admin: Admin, address: str) -> dict[str, str]:
        own = {REPLICA_VALUE: "2", LOG_ID_VALUE: "7" * 32, LOG_EPOCH_VALUE: "4"}
        return {**await ask(admin, address), **own}

    monkeypatch.setattr(Admin, "runtime_info", with_own_values)
    group = GroupRegister(open_register(register), group_key("DefaultCluster", "broker-t"))
    cli("cluster", "status", "--register", register, code=1)
    assert "Give their wakelog.register" in cli.err
    words = "cluster", "failover", "broker-t", "--register", register
    cli(*words, "--yes", code=1)
    assert "found the group again: failover with --accept-loss" in cli.err
    loss, _ = cli.json(*words, "--accept-loss")
    assert loss == {"to": 2, "lossBytes": 0, "silent": []}
    assert group.read().state is None
    monkeypatch.setattr(replicas, "TAKEOVER_SECONDS_MAX", 0.1)
    cli(*words, "--accept-loss", "--yes", code=1)
    assert "replica 2 of wakelog/DefaultCluster/broker-t has not been seen" in cli.err
    found = group.read().state
    assert found is not None and (found.master, found.epoch) == (2, 6)
    assert found.in_sync == {2}
    assert found.replicas[2].address == cli.broker.address


def test_a_failover_is_shown_first(cli: CommandLine, register: str, group: GroupRegister) -> None:
    before = group.read()
    words = "cluster", "failover", "broker-t", "--to", "2", "--register", register
    assert cli(*words) == [
        "replica 2 has every acknowledged message",
        "nothing is changed yet: repeat it with --to 2 --yes",
    ]
    loss, _ = cli.json(*words, "--accept-loss")
    assert loss == {"to": 2, "lossBytes": 0, "silent": [1]}
    loss, _ = cli.json(*words[:4], "3", *words[5:], "--accept-loss")
    assert loss == {"to": 3, "lossBytes": None, "silent": [1]}
    assert group.read() == before


def test_without_a_name_the_best_follower_is_shown(
    cli: CommandLine, register: str, group: GroupRegister
) -> None:
    before = group.read()
    words = "cluster", "failover", "broker-t", "--register", register
    assert cli(*words) == [
        "replica 2 has every acknowledged message",
        # Without its number another one might be the best by then.
        "nothing is changed yet: repeat it with --to 2 --yes",
    ]
    assert cli.json(*words)[0] == {"to": 2, "lossBytes": 0, "silent": [1]}
    cli(*words, "--accept-loss", code=2)
    assert "Name the replica with --to" in cli.err
    state, version = before
    assert state is not None
    group.replace(replace(state, in_sync=frozenset({1, 3})), version)
    cli(*words, "--yes", code=2)
    assert "no replica of the in-sync set answers but the master" in cli.err


def take_over(register: str, key: str) -> None:
    """Do what the replica does that reads that it is master: get an epoch of its own."""
    group = GroupRegister(open_register(register), key)
    found, version = group.read()
    while found is None or found.master == 1:
        found, version = group.watch(version, WATCH_SECONDS)
    group.replace(replace(found, epoch=found.epoch + 1), version)


@pytest.mark.parametrize(("to", "more"), [(2, ()), (3, ("--accept-loss",))])
def test_a_failover_waits_until_the_replica_serves(
    cli: CommandLine, register: str, group: GroupRegister, to: int, more: tuple[str, ...]
) -> None:
    thread = threading.Thread(target=take_over, args=(register, group.key))
    thread.start()
    words = "cluster", "failover", "broker-t", "--to", str(to), "--register", register, "--yes"
    lines = cli.json(*words, *more)
    thread.join()
    assert lines[-1] == {"broker": "broker-t", "changed": True, "master": to, "epoch": 6}
    found = group.read().state
    assert found is not None and found.master == to
    assert found.in_sync == ({3} if more else {1, 2})


def test_a_failover_ends_at_once_when_another_replica_takes_over(
    cli: CommandLine, register: str, group: GroupRegister, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_state = GroupRegister.watch

    def watched(self: GroupRegister, version: str, seconds_max: float) -> VersionedState:
        found, own = self.read()
        if found is not None and found.master == 2:
            self.replace(replace(found, master=1, epoch=9), own)
        return watch_state(self, version, seconds_max)

    monkeypatch.setattr(GroupRegister, "watch", watched)
    cli("cluster", "failover", "broker-t", "--to", "2", "--register", register, "--yes", code=1)
    assert "replica 1 of wakelog/DefaultCluster/broker-t leads in epoch 9 instead" in cli.err


def test_a_failover_goes_on_when_the_master_renews_meanwhile(
    cli: CommandLine, register: str, group: GroupRegister, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first proposal is stale, the answer to its second is lost, and both are no end."""
    replace_state = GroupRegister.replace
    errors: list[type[Exception]] = [AnswerLost, StaleVersion]

    def replaced(self: GroupRegister, wanted: GroupState, version: str) -> str:
        made = "" if errors[-1:] == [StaleVersion] else replace_state(self, wanted, version)
        if errors:
            raise errors.pop()("as the test wants it")
        return made

    monkeypatch.setattr(GroupRegister, "replace", replaced)
    thread = threading.Thread(target=take_over, args=(register, group.key))
    thread.start()
    words = "cluster", "failover", "broker-t", "--to", "2", "--register", register, "--yes"
    assert cli(*words)[-1] == "replica 2 is master of broker-t in epoch 6"
    thread.join()


def test_a_register_that_is_unreachable_for_a_moment_does_not_end_a_failover(
    cli: CommandLine, register: str, group: GroupRegister, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_state = GroupRegister.watch
    errors = [RegisterUnreachable("as the test wants it")] * 2

    def watched(self: GroupRegister, version: str, seconds_max: float) -> VersionedState:
        if errors:
            raise errors.pop()
        take_over(register, group.key)
        return watch_state(self, version, seconds_max)

    monkeypatch.setattr(replicas, "ASK_AGAIN_SECONDS", 0.0)
    with mock.patch.object(GroupRegister, "watch", watched):
        words = "cluster", "failover", "broker-t", "--to", "2", "--register", register, "--yes"
        assert cli(*words)[-1] == "replica 2 is master of broker-t in epoch 6"
    assert not errors


@pytest.mark.parametrize(
    ("is_lost", "said"),
    [(False, "it is written; replica 2 of "), (True, "it is not known to be written; replica 2 ")],
)
def test_a_register_that_stays_unreachable_leaves_what_is_written(
    cli: CommandLine,
    register: str,
    group: GroupRegister,
    monkeypatch: pytest.MonkeyPatch,
    is_lost: bool,
    said: str,
) -> None:
    away = mock.Mock(side_effect=RegisterUnreachable("nobody is there"))
    monkeypatch.setattr(replicas, "TAKEOVER_SECONDS_MAX", 0.1)
    monkeypatch.setattr(GroupRegister, "watch", away)
    if is_lost:
        monkeypatch.setattr(GroupRegister, "replace", mock.Mock(side_effect=AnswerLost("lost")))
    cli("cluster", "failover", "broker-t", "--to", "2", "--register", register, "--yes", code=1)
    assert said in cli.err and "take over in 0 s (nobody is there). Look at" in cli.err


def test_a_state_that_others_replace_all_the_time_ends_the_command(
    cli: CommandLine, register: str, group: GroupRegister, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = group.read()
    always = mock.Mock(side_effect=StaleVersion("as the test wants it"))
    monkeypatch.setattr(GroupRegister, "replace", always)
    cli("cluster", "failover", "broker-t", "--to", "2", "--register", register, "--yes", code=1)
    assert "was replaced by others 10 times in a row" in cli.err
    assert always.call_count == replicas.PROPOSALS_MAX and group.read() == before


def test_a_replica_that_does_not_take_over(
    cli: CommandLine, register: str, group: GroupRegister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "TAKEOVER_SECONDS_MAX", 0.1)
    cli("cluster", "failover", "broker-t", "--to", "2", "--register", register, "--yes", code=1)
    assert (
        "it is written; replica 2 of wakelog/DefaultCluster/broker-t has not been seen to take "
        "over in 0 s. Look at" in cli.err
    )
    found = group.read().state
    assert found is not None and (found.master, found.epoch) == (2, 5)


@pytest.mark.parametrize(
    ("name", "to", "said", "code"),
    [
        ("broker-t", "1", "replica 1 is the master already", 2),
        ("broker-t", "3", "replica 3 is not in the in-sync set (1, 2)", 2),
        ("broker-t", "4", "the group has no replica 4. Its replicas are 1, 2, 3.", 2),
        ("broker-x", "2", "no name server has broker broker-x. Run wakelog status.", 1),
        ("broker-t", "0", "--to", 2),
    ],
)
def test_a_failover_that_is_refused(
    cli: CommandLine,
    register: str,
    group: GroupRegister,
    name: str,
    to: str,
    said: str,
    code: int,
) -> None:
    before = group.read()
    words = "cluster", "failover", name, "--to", to, "--register", register, "--yes"
    cli(*words, code=code)
    assert said in cli.err
    assert group.read() == before
