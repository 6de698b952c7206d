"""The replicas of a deployment: `wakelog up --replicas 2` as a user runs it."""

import os
import signal
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.actors.replicas import (
    SMALL,
    assert_equal,
    log_end,
    log_text,
    pulled,
    send,
    wait_until,
    wakelog_up,
)
from tests.compat.clusters import Wakelog
from tests.compat.processes import free_port
from wakelog.actors.deploy.planning import PORTS_BETWEEN_BROKERS
from wakelog.actors.deploy.replicas import PlannedReplica, check_replicas, replicas_of
from wakelog.actors.errors import NotPossible
from wakelog.actors.registers.register import GroupRegister, group_key, open_register
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.durability.store_lock import BROKER_BYTE, holder_pid
from wakelog.storage.file_system import FileSystem

COPIED = [ResponseCode.SUCCESS]
GROUP = group_key("DefaultCluster", "broker-a")
PLAIN = {**SMALL, "brokerRole": "SYNC_MASTER"}


def test_one_replica_is_a_broker_as_ever() -> None:
    check_replicas(1, {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": "far:1"})
    given = {"brokerRole": "SLAVE"}
    found = replicas_of(
        "broker-a", 1, given=given, has_register=False, host="127.0.0.1", first_port=1
    )
    assert list(found) == [PlannedReplica("", {})]


@pytest.mark.parametrize("count", [-1, 0, 17])
def test_an_impossible_number(count: int) -> None:
    with pytest.raises(NotPossible, match="is not possible"):
        check_replicas(count, {})


def free_ports(count: int) -> tuple[int, int]:
    """Return a port for a name server, and one for the first of so many brokers."""
    firsts = range(0, count * PORTS_BETWEEN_BROKERS, PORTS_BETWEEN_BROKERS)
    return free_port(), free_port(*(first + by for first in firsts for by in (-2, 0, 1)))


def addresses_of(up: Wakelog, count: int) -> list[str]:
    """Return where the brokers answer, the master first."""
    return [f"127.0.0.1:{up.ports[1] + n * PORTS_BETWEEN_BROKERS}" for n in range(count)]


def kill_broker(store: Path) -> None:
    """Kill the process that has a broker's store open for writing."""
    process_id = holder_pid(FileSystem(), str(store / "lock"), BROKER_BYTE)
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_slave_and_then_the_master_of_three_actors_groups_are_killed(tmp_path: Path) -> None:
    """Sends go on without the slave, pulls without the master, and both come back."""
    flags = ["--replicas", "3"]
    with wakelog_up(tmp_path, PLAIN, flags=flags, ports=free_ports(3)) as up:
        master, *slaves = addresses_of(up, 3)
        stores = [up.cluster.store / f"broker-a-{n}" for n in (1, 2, 3)]
        wait_until(lambda: send(master, 1) == COPIED, "acknowledged by a slave")
        assert send(master, 200) == COPIED * 200
        for one in slaves:
            wait_until(partial(ends_equal, one, master), "both slaves follow")
        kill_broker(stores[1])
        assert send(master, 200) == COPIED * 200
        wait_until(lambda: pulled(slaves[1]) == pulled(master), "tables copied, queues made")
        kill_broker(stores[0])
        assert pulled(slaves[1])[0] == ResponseCode.SUCCESS
        wait_until(lambda: sends(master) == COPIED, "the master is back, and a slave follows it")
        assert send(master, 200) == COPIED * 200
        for one in slaves:
            wait_until(partial(ends_equal, one, master), "both slaves follow again")
        for store in stores[1:]:
            assert_equal(stores[0], store, log_end(master))
        up.stop()


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("transport", ["notifications", "references"])
def test_replicas_of_actors_go_on_when_their_master_is_killed(
    tmp_path: Path, transport: str
) -> None:
    """Ray starts the killed Broker again; it leads or follows, and all logs are equal."""
    flags = ["--replicas", "3", "--transport", transport]
    with wakelog_up(tmp_path, SMALL, flags=flags, ports=free_ports(3)) as up:
        addresses, register = addresses_of(up, 3), f"file://{up.cluster.store}/wakelog.register"
        stores = [up.cluster.store / f"broker-a-{n}" for n in (1, 2, 3)]
        with closing(GroupRegister(open_register(register), GROUP)) as group:
            for epoch in range(1, 4):
                wait_until(partial(is_whole, group, epoch), "all replicas in sync")
                state = group.read().state
                assert state is not None
                master = addresses[state.master - 1]
                wait_until(partial(is_taken, master), "the master takes messages")
                assert send(master, 100) == COPIED * 100
                kill_broker(stores[state.master - 1])
            wait_until(partial(is_whole, group, 4), "all replicas in sync again")
        for one in addresses[1:]:
            wait_until(partial(ends_equal, one, addresses[0]), "all have the same log")
        for store in stores[1:]:
            assert_equal(stores[0], store, log_end(addresses[0]))
        up.stop()


def is_whole(group: GroupRegister, epoch_min: int) -> bool:
    """Tell whether a group has three replicas in sync, in this epoch or a later one."""
    state = group.read().state
    return state is not None and len(state.in_sync) == 3 and state.epoch >= epoch_min


def is_taken(address: str) -> bool:
    """Tell whether a broker takes a message, and has it copied."""
    return sends(address) == COPIED


def sends(address: str) -> list[int]:
    """Send one message; no code if that fails."""
    try:
        return send(address, 1)
    except OSError:
        return []


def ends_equal(one: str, other: str) -> bool:
    """Tell whether two logs end at the same offset."""
    try:
        return log_end(one) == log_end(other)
    except OSError:
        return False


@pytest.mark.process
@pytest.mark.slow
def test_two_replicas_have_the_same_log_and_both_serve_it(tmp_path: Path) -> None:
    flags = ["--local", "--replicas", "2"]
    with wakelog_up(tmp_path, PLAIN, flags=flags, ports=free_ports(2)) as up:
        master, slave = addresses_of(up, 2)
        wait_until(lambda: send(master, 1) == COPIED, "acknowledged by the slave")
        assert send(master, 100) == COPIED * 100
        assert send(slave, 1) == [ResponseCode.SERVICE_NOT_AVAILABLE]
        store = up.cluster.store
        assert_equal(store / "broker-a-1", store / "broker-a-2", log_end(master))
        wait_until(lambda: pulled(slave) == pulled(master), "tables copied, queues made")
        assert pulled(slave)[0] == ResponseCode.SUCCESS
        up.stop()
    assert "segment gone" not in log_text(up)
