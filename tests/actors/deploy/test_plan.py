"""What follows from the values of a plan."""

import pytest

from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan


def plan_of(**options: int) -> Plan:
    return make_plan(UpOptions(store="/s", **options))  # type: ignore[arg-type]


def test_every_port_is_listed_with_its_user_and_the_flag_that_moves_it() -> None:
    uses = plan_of(broker_count=2, broker_port=2000, name_server_port=1000, metrics_port=900).ports
    assert [(use.port, use.user.split(",")[0], use.flag) for use in uses] == [
        (1000, "the name server", "--namesrv-port"),
        (2000, "broker-a", "--broker-port"),
        (1998, "broker-a's VIP channel", "--broker-port"),
        (2001, "broker-a's replication", "--broker-port"),
        (2020, "broker-b", "--broker-port"),
        (2018, "broker-b's VIP channel", "--broker-port"),
        (2021, "broker-b's replication", "--broker-port"),
        (900, "the metrics", "--metrics-port"),
    ]


def test_without_metrics_there_is_no_port_for_them() -> None:
    assert all(use.user != "the metrics" for use in plan_of(metrics_port=0).ports)


@pytest.mark.parametrize("name", ["bind_host", "brokers", "store_root"])
def test_a_plan_is_made_of_all_options(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(plan_of(), name, None)
