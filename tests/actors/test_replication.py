"""A wakelog master with a wakelog slave, each `wakelog up` of its own."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.actors.replicas import (
    MASTER,
    SMALL,
    TOPIC,
    ask,
    assert_equal,
    commit,
    committed,
    guarded,
    log_end,
    log_text,
    pulled,
    send,
    slave_of,
    topics,
    wait_until,
    wakelog_up,
)
from tests.compat.clusters import Wakelog
from tests.compat.processes import free_port
from tests.kinds import some_daily
from wakelog.audit.reseed import set_log_aside
from wakelog.cli.log_settings import store_config
from wakelog.protocol.codes import RequestCode, ResponseCode

pytestmark = [pytest.mark.process, pytest.mark.slow]

ALONE = [ResponseCode.SLAVE_NOT_AVAILABLE]
COPIED = [ResponseCode.SUCCESS]


@pytest.mark.parametrize("is_durable", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_a_slave_has_what_its_master_has_and_serves_it(tmp_path: Path, is_durable: str) -> None:
    """Without durable acknowledgements nothing is synced by time either, so none waits for it."""
    seldom = {} if is_durable == "true" else {"flushIntervalCommitLog": "3600000"}
    acknowledges = {"haAckDurable": is_durable, **seldom}
    with ExitStack() as stack:
        master = stack.enter_context(wakelog_up(tmp_path / "master", {**MASTER, **acknowledges}))
        address = master.cluster.broker
        assert send(address, 1_100) == ALONE * 1_100
        settings = slave_of(master, **acknowledges)
        slave = stack.enter_context(wakelog_up(tmp_path / "slave", settings))
        there = slave.cluster.broker
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged")
        assert send(address, 300) == COPIED * 300
        end = log_end(address)
        assert_equal(master.cluster.store, slave.cluster.store, end)
        assert send(there, 1) == [ResponseCode.SERVICE_NOT_AVAILABLE]
        wait_until(lambda: pulled(there) == pulled(address), "tables copied, queues made")
        assert pulled(there)[0] == ResponseCode.SUCCESS
        for broker in (slave, master):
            broker.stop()


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "transport", ["notifications", pytest.param("references", marks=pytest.mark.long)]
)
def test_actors_replicate(tmp_path: Path, transport: str) -> None:
    """Master and slave of Ray actors; the slave is stopped, and goes on where it was."""
    flags = ["--transport", transport]
    with ExitStack() as stack:
        master = stack.enter_context(wakelog_up(tmp_path / "master", MASTER, flags=flags))
        address = master.cluster.broker
        assert send(address, 100) == ALONE * 100
        slave = stack.enter_context(wakelog_up(tmp_path / "slave", slave_of(master), flags=flags))
        store = slave.cluster.store
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged")
        assert send(address, 200) == COPIED * 200
        slave.stop()
        wait_until(lambda: send(address, 1) == ALONE, "slave gone")
        assert send(address, 1_000) == ALONE * 1_000
        back = stack.enter_context(
            wakelog_up(tmp_path / "back", slave_of(master), flags=flags, store=store)
        )
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged again")
        assert_equal(master.cluster.store, store, log_end(address))
        for broker in (back, master):
            broker.stop()


@pytest.mark.long
@pytest.mark.parametrize("flags", [("--local",), ("--local", "--transport", "references")])
def test_a_topic_that_its_master_has_made_again_begins_again_at_a_slave(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """It waits for two rounds of copying, which are 10 s apart."""
    with ExitStack() as stack:
        master = stack.enter_context(wakelog_up(tmp_path / "master", MASTER, flags=flags))
        address = master.cluster.broker
        slave = stack.enter_context(wakelog_up(tmp_path / "slave", slave_of(master), flags=flags))
        there = slave.cluster.broker
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged")
        assert send(address, 9) == COPIED * 9
        wait_until(lambda: pulled(there) == pulled(address), "tables copied, queues made")
        deleted = ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert deleted.code == ResponseCode.SUCCESS, deleted.header
        assert send(address, 3, b"new") == COPIED * 3
        wait_until(lambda: pulled(there) == pulled(address), "queues made again")
        assert pulled(there)[0] == ResponseCode.SUCCESS
        assert send(address, 2, b"newer") == COPIED * 2
        wait_until(lambda: pulled(there) == pulled(address), "queues go on")
        for broker in (slave, master):
            broker.stop()


def test_what_is_committed_to_a_slave_is_there_when_its_master_is_back(tmp_path: Path) -> None:
    """It waits for two rounds of copying, which are 10 s apart."""
    with ExitStack() as stack:
        master = stack.enter_context(wakelog_up(tmp_path / "master", MASTER))
        address, store = master.cluster.broker, master.cluster.store
        slave = stack.enter_context(wakelog_up(tmp_path / "slave", slave_of(master)))
        there = slave.cluster.broker
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged")
        send(address, 99)
        assert commit(address, 20) == ResponseCode.SUCCESS
        wait_until(lambda: committed(there) == "20", "offsets copied")
        master.stop()
        assert pulled(there, 20)[0] == ResponseCode.SUCCESS
        assert commit(there, 77) == ResponseCode.SUCCESS
        back = stack.enter_context(
            wakelog_up(tmp_path / "back", MASTER, store=store, ports=master.ports)
        )
        wait_until(lambda: committed(address) == "77", "offered")
        assert committed(there) == "77"
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged again")
        assert_equal(store, slave.cluster.store, log_end(address))
        for broker in (slave, back):
            broker.stop()


@pytest.mark.long
def test_a_slave_signs_what_it_asks_a_master_with_access_control(tmp_path: Path) -> None:
    accounts = guarded(tmp_path)
    signs = {**accounts, "wakelog.accessKey": "replica-key"}
    with ExitStack() as stack:
        master = stack.enter_context(wakelog_up(tmp_path / "master", {**MASTER, **accounts}))
        address = master.cluster.broker
        assert send(address, 3) == ALONE * 3
        slave = stack.enter_context(wakelog_up(tmp_path / "slave", slave_of(master, **signs)))
        unsigned = slave_of(master, **accounts, brokerId="2")
        other = stack.enter_context(wakelog_up(tmp_path / "unsigned", unsigned))
        wait_until(lambda: "No accessKey is configured" in log_text(other), "said")
        wait_until(lambda: send(address, 1) == COPIED, "acknowledged")
        there = slave.cluster.broker
        wait_until(lambda: TOPIC in topics(there), "tables copied")
        assert pulled(there)[0] == ResponseCode.SUCCESS
        assert log_end(other.cluster.broker) == 0 and TOPIC not in topics(other.cluster.broker)
        for broker in (other, slave, master):
            broker.stop()


@pytest.mark.parametrize("other", some_daily(2, ["log", "cluster", "segments", "broker"]))
def test_what_does_not_fit_is_said_and_nothing_is_written(tmp_path: Path, other: str) -> None:
    settings = {
        "broker": {"brokerName": "broker-b"},
        "cluster": {"brokerClusterName": "elsewhere"},
        "log": {},
        "segments": {"mappedFileSizeCommitLog": "4096000"},
    }[other]
    said = {
        "broker": "brokerName is broker-b here and broker-a there",
        "cluster": "brokerClusterName is elsewhere here and DefaultCluster there",
        "log": "it is another log; stop this broker and give `wakelog cluster reseed`",
        "segments": "set mappedFileSizeCommitLog=1048576",
    }[other]
    with ExitStack() as stack:
        store, end = tmp_path / "slave-store", 0
        if other == "log":
            with wakelog_up(tmp_path / "before", SMALL, store=store) as before:
                send(before.cluster.broker, 3, b"mine")
                end = log_end(before.cluster.broker)
                before.stop()
        own = {path: path.read_bytes() for path in store.glob("commitlog/*")}
        master = stack.enter_context(wakelog_up(tmp_path / "master", MASTER))
        send(master.cluster.broker, 20)
        ha = f"127.0.0.1:{int(master.cluster.broker.rpartition(':')[2]) + 1}"
        slave = stack.enter_context(
            wakelog_up(
                tmp_path / "slave",
                {**slave_of(master, haMasterAddress=ha), **settings},
                store=store,
            )
        )
        wait_until(lambda: said in log_text(slave), said)
        assert send(master.cluster.broker, 1) in (ALONE, [ResponseCode.FLUSH_SLAVE_TIMEOUT])
        assert {path: path.read_bytes() for path in own} == own
        assert log_end(slave.cluster.broker) == end
        slave.stop()
        if other == "log":
            begin_again(master, store, tmp_path / "again")
        master.stop()


def begin_again(master: Wakelog, store: Path, folder: Path) -> None:
    """Set the log of a stopped slave aside, and see it follow."""
    set_log_aside(store_config(str(store), None, ()))
    with wakelog_up(folder, slave_of(master), store=store) as slave:
        wait_until(lambda: send(master.cluster.broker, 1) == COPIED, "acknowledged")
        assert_equal(master.cluster.store, store, log_end(master.cluster.broker))
        slave.stop()


def test_a_master_that_cannot_be_reached_is_waited_for(tmp_path: Path) -> None:
    ha = f"127.0.0.1:{free_port()}"
    settings = {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": ha, **SMALL}
    with wakelog_up(tmp_path / "slave", settings) as slave:
        wait_until(lambda: "not following" in log_text(slave), "said")
        assert send(slave.cluster.broker, 1) == [ResponseCode.SERVICE_NOT_AVAILABLE]
        slave.stop()
