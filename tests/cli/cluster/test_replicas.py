"""`wakelog cluster status`: what is compared, and a broker in this process."""

from pathlib import Path

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.actors.registers.register import (
    NO_VERSION,
    GroupRegister,
    group_key,
    open_register,
)
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress
from wakelog.cli.cluster.replicas import Registered, Replica, compare


def state(replicas: dict[int, str], *, in_sync: set[int], master: int = 1) -> GroupState:
    return GroupState(
        log_id="0" * 32,
        epoch=4,
        master=master,
        in_sync=frozenset(in_sync),
        replicas={number: ReplicaAddress(one, one) for number, one in replicas.items()},
    )


def test_without_a_register_id_0_is_the_master() -> None:
    found = list(compare([Registered(0, "a:1", 70), Registered(1, "b:1", None)], None))
    assert found == [
        Replica(0, "a:1", "master", None, None, 70, ""),
        Replica(1, "b:1", "slave", None, None, None, "no answer"),
    ]


def test_roles_and_the_set_are_those_of_the_register() -> None:
    registered = [Registered(0, "a:1", 70), Registered(2, "b:1", 60)]
    found = list(compare(registered, state({1: "a:1", 2: "b:1", 3: "c:1"}, in_sync={1, 3})))
    assert found == [
        Replica(1, "a:1", "master", 4, True, 70, ""),
        Replica(2, "b:1", "follower", 4, False, 60, ""),
        Replica(3, "c:1", "follower", 4, True, None, "no answer"),
    ]


def test_what_does_not_fit_the_register_is_noted() -> None:
    registered = [Registered(0, "b:1", 60), Registered(5, "d:1", 9)]
    found = list(compare(registered, state({1: "a:1", 2: "b:1"}, in_sync={1})))
    assert [one.note for one in found] == [
        "no answer",
        "registered as master, and the register names 1",
        "not in the register",
    ]


def test_a_broker_alone(cli: CommandLine) -> None:
    [row] = cli.json("cluster", "status")
    assert (row["broker"], row["replica"], row["role"]) == ("broker-t", 0, "master")
    assert (row["epoch"], row["inSync"], row["behindBytes"], row["note"]) == (None, None, 0, "")
    assert cli("cluster", "status", "--max", "0")[0].split()[:3] == ["CLUSTER", "BROKER", "REPLICA"]


@pytest.fixture
def register(tmp_path: Path) -> str:
    return f"file://{tmp_path}/register"


def test_a_group_with_a_register(cli: CommandLine, register: str) -> None:
    group = GroupRegister(open_register(register), group_key("DefaultCluster", "broker-t"))
    version = group.replace(state({1: cli.broker.address}, in_sync={1}), NO_VERSION)
    [row] = cli.json("cluster", "status", "--register", register)
    assert (row["replica"], row["role"], row["epoch"], row["inSync"]) == (1, "master", 4, True)
    replicas = {1: cli.broker.address, 2: "127.0.0.1:1"}
    group.replace(state(replicas, in_sync={1, 2}, master=2), version)
    rows = cli.json("cluster", "status", "--register", register, code=1)
    assert rows[-1]["problems"][0] == "broker-t has no master that answers"
    assert [row["note"] for row in rows[:2]] == [
        "registered as master, and the register names 2",
        "no answer",
    ]
    assert "127.0.0.1:1: no answer" in cli.err


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


def test_a_register_that_does_not_know_the_group(cli: CommandLine, register: str) -> None:
    cli("cluster", "status", "--register", register, code=1)
    assert "has nothing of wakelog/DefaultCluster/broker-t. Leave --register out" in cli.err
