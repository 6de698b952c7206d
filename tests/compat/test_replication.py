"""Masters and slaves of both kinds: what one has, the other has, byte for byte."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.actors.replicas import (
    MASTER,
    SLAVE,
    SMALL,
    assert_equal,
    commit,
    committed,
    log_end,
    pulled,
    send,
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
