"""What follows from the values of a plan."""

import json
from pathlib import Path

import msgspec

from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.ray.options import Placement


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


def test_a_plan_travels_to_the_supervisor_as_plain_parts(tmp_path: Path) -> None:
    made = plan_of(broker_count=2).in_directory(tmp_path)
    made = msgspec.structs.replace(made, placements={"broker-a": Placement(resource="disk")})
    read = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(made))), Plan)
    assert read == made
    for broker in read.brokers:
        assert broker.runtime_directory == str(tmp_path / broker.name)
        assert (tmp_path / broker.name).stat().st_mode & 0o777 == 0o700
    assert [read.placement_of(broker).resource for broker in read.brokers] == ["disk", None]
