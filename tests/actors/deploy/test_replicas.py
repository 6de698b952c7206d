"""The replicas of a deployment: `wakelog up --replicas 2` as a user runs it."""

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
from tests.compat.processes import free_port
from wakelog.actors.deploy.planning import PORTS_BETWEEN_BROKERS
from wakelog.actors.deploy.replicas import Replica, check_replicas, replicas_of
from wakelog.actors.errors import PlanRefused
from wakelog.protocol.codes import ResponseCode

COPIED = [ResponseCode.SUCCESS]


def test_one_replica_is_a_broker_as_ever() -> None:
    check_replicas(1, {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": "far:1"})
    found = replicas_of("broker-a", 1, role="SLAVE", host="127.0.0.1", first_port=1)
    assert list(found) == [Replica("", {})]


@pytest.mark.parametrize("count", [-1, 0, 17])
def test_an_impossible_number(count: int) -> None:
    with pytest.raises(PlanRefused, match="is not possible"):
        check_replicas(count, {})


@pytest.mark.process
@pytest.mark.slow
def test_two_replicas_have_the_same_log_and_both_serve_it(tmp_path: Path) -> None:
    offsets = (-2, 1, PORTS_BETWEEN_BROKERS - 2, PORTS_BETWEEN_BROKERS, PORTS_BETWEEN_BROKERS + 1)
    ports = free_port(), free_port(*offsets)
    flags = ["--local", "--replicas", "2"]
    with wakelog_up(tmp_path, SMALL, flags=flags, ports=ports) as up:
        master = up.cluster.broker
        slave = f"127.0.0.1:{ports[1] + PORTS_BETWEEN_BROKERS}"
        wait_until(lambda: send(master, 1) == COPIED, "acknowledged by the slave")
        assert send(master, 100) == COPIED * 100
        assert send(slave, 1) == [ResponseCode.SERVICE_NOT_AVAILABLE]
        store = up.cluster.store
        assert_equal(store / "broker-a-1", store / "broker-a-2", log_end(master))
        wait_until(lambda: pulled(slave) == pulled(master), "tables copied, queues made")
        assert pulled(slave)[0] == ResponseCode.SUCCESS
        up.stop()
    assert "segment gone" not in log_text(up)
