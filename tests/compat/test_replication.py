"""Masters and slaves of both kinds: what one has, the other has, byte for byte."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.actors.replicas import (
    ACCOUNTS,
    MASTER,
    SLAVE,
    SMALL,
    TOPIC,
    assert_equal,
    commit,
    committed,
    guarded,
    log_end,
    pulled,
    send,
    topics,
    wait_until,
    wakelog_up,
)
from tests.compat.real_rocketmq import RealBroker, RealNameServer
from wakelog.protocol.codes import ResponseCode

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

COPIED = [ResponseCode.SUCCESS]


@contextmanager
def running(broker: RealBroker) -> Iterator[RealBroker]:
    """Run a real broker, which is killed at the end."""
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def test_a_real_slave_of_a_wakelog_master(tmp_path: Path) -> None:
    with ExitStack() as stack:
        started = stack.enter_context(wakelog_up(tmp_path / "master", MASTER))
        master = started.cluster
        assert send(master.broker, 3) == [ResponseCode.SLAVE_NOT_AVAILABLE] * 3
        slave = RealBroker(
            tmp_path / "broker", tmp_path / "slave", name_server=master.name_server, settings=SLAVE
        )
        stack.enter_context(running(slave))
        wait_until(lambda: send(master.broker, 1) == COPIED, "acknowledged")
        assert set(send(master.broker, 1_500)) == set(COPIED)
        end = log_end(master.broker)
        wait_until(lambda: log_end(slave.address) == end, "copied")
        assert_equal(master.store, slave.store, end)
        wait_until(lambda: pulled(slave.address) == pulled(master.broker), "tables copied")
        assert pulled(slave.address)[0] == ResponseCode.SUCCESS
        slave.kill()
        alone = [ResponseCode.SLAVE_NOT_AVAILABLE]
        wait_until(lambda: send(master.broker, 1) == alone, "slave gone")
        started.stop()


def test_a_wakelog_slave_of_a_real_master(tmp_path: Path) -> None:
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        settings = {**SMALL, "brokerRole": "SYNC_MASTER"}
        master = RealBroker(
            tmp_path / "broker",
            tmp_path / "master",
            name_server=name_server.address,
            settings=settings,
        )
        stack.enter_context(running(master))
        send(master.address, 1_500)  # two segments before there is a slave
        followed = {**SLAVE, "namesrvAddr": name_server.address}
        started = stack.enter_context(wakelog_up(tmp_path / "slave", followed))
        slave = started.cluster
        wait_until(lambda: send(master.address, 1) == COPIED, "acknowledged")
        assert send(master.address, 300) == COPIED * 300
        end = log_end(master.address)
        assert log_end(slave.broker) == end
        assert_equal(master.store, slave.store, end)
        assert commit(master.address, 20) == ResponseCode.SUCCESS
        wait_until(lambda: pulled(slave.broker) == pulled(master.address), "tables copied")
        wait_until(lambda: committed(slave.broker) == "20", "offsets copied")
        started.stop()


@pytest.mark.long
def test_a_wakelog_slave_signs_what_it_asks_a_real_master(tmp_path: Path) -> None:
    accounts = guarded(tmp_path / "broker")
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        master = RealBroker(
            tmp_path / "broker",
            tmp_path / "master",
            name_server=name_server.address,
            settings={**MASTER, **accounts},
        )
        stack.enter_context(running(master))
        signs = {"wakelog.accessKey": "replica-key", "namesrvAddr": name_server.address}
        started = stack.enter_context(
            wakelog_up(tmp_path / "slave", {**SLAVE, **accounts, **signs})
        )
        slave = started.cluster
        wait_until(lambda: send(master.address, 1) == COPIED, "acknowledged")
        assert commit(master.address, 1) == ResponseCode.SUCCESS
        wait_until(lambda: TOPIC in topics(slave.broker), "topics copied")
        wait_until(lambda: committed(slave.broker) == "1", "offsets copied")
        assert_equal(master.store, slave.store, log_end(master.address))
        started.stop()


@pytest.mark.long
def test_a_real_slave_needs_the_white_list_of_a_master_with_access_control(tmp_path: Path) -> None:
    """It never signs: 4.9.3 has a hook for it, and nothing sets it."""
    accounts = guarded(tmp_path)
    with ExitStack() as stack:
        started = stack.enter_context(wakelog_up(tmp_path / "master", {**MASTER, **accounts}))
        master = started.cluster
        slave = RealBroker(
            tmp_path / "broker", tmp_path / "slave", name_server=master.name_server, settings=SLAVE
        )
        stack.enter_context(running(slave))
        wait_until(lambda: send(master.broker, 1) == COPIED, "acknowledged")
        log = tmp_path / "broker" / "broker.log"
        wait_until(lambda: "No accessKey is configured" in log.read_text(), "refused")
        assert TOPIC not in topics(slave.address)
        guarded(tmp_path, ACCOUNTS.replace("Addresses: []", "Addresses: [127.0.0.*]"))
        wait_until(lambda: TOPIC in topics(slave.address), "topics copied")
        slave.kill()
        started.stop()
