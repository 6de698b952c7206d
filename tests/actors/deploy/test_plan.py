"""What follows from the values of a plan."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wakelog.actors.deploy import supervised
from wakelog.actors.deploy.deployment import make_deployment
from wakelog.actors.deploy.group import actors_count
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.deploy.supervised import RayDeployment, spread_plan
from wakelog.actors.deploy.up_keys import UP_KEYS, UP_PREFIX
from wakelog.actors.errors import DeploymentFailed, NotPossible
from wakelog.actors.ray.options import ANYWHERE, TARGETS, Placement, actor_name
from wakelog.actors.services.table import SERVICES
from wakelog.actors.transport.service_plan import at_address
from wakelog.storage.config import StoreConfig


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


@pytest.mark.parametrize(
    ("settings", "names", "has_other"),
    [
        ((), ("native",), False),
        (("wakelog.metricsNames=native,v5",), ("native", "v5"), True),
    ],
)
def test_names_of_elsewhere_are_served_if_a_setting_says_so(
    settings: tuple[str, ...], names: tuple[str, ...], has_other: bool
) -> None:
    made = make_plan(UpOptions(store="/s", settings=settings))
    assert (made.metrics_names, made.has_other_names) == (names, has_other)


def test_a_plan_travels_to_the_supervisor_as_plain_parts(tmp_path: Path) -> None:
    made = plan_of(broker_count=2).in_directory(tmp_path)
    made = msgspec.structs.replace(made, placements={"broker-a": Placement(resource="disk")})
    read = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(made))), Plan)
    assert read == made
    for broker in read.brokers:
        assert broker.runtime_directory == str(tmp_path / broker.name)
        assert (tmp_path / broker.name).stat().st_mode & 0o777 == 0o700
    assert [read.placement_of(broker).resource for broker in read.brokers] == ["disk", None]


def test_what_moves_keeps_nothing_else_on_its_node() -> None:
    made = plan_of()
    for placement, own in (
        (Placement(resource="disk"), Placement(resource="disk")),
        (Placement(group="places"), ANYWHERE),
    ):
        plan = msgspec.structs.replace(made, placements={"broker-a": placement})
        assert plan.own_placement == own
        assert placement.moves is (own == ANYWHERE)


def test_only_replicas_that_share_a_register_are_spread() -> None:
    with pytest.raises(DeploymentFailed, match="whose register all nodes reach"):
        spread_plan(plan_of())
    with pytest.raises(DeploymentFailed, match="whose register all nodes reach"):
        spread_plan(plan_of(replica_count=3))


def test_a_broker_is_reached_at_its_node() -> None:
    [broker] = plan_of(broker_port=2000).brokers
    moved = at_address(broker, "10.0.0.7").settings.broker
    assert (moved.broker_addr, moved.broker_ip2) == ("10.0.0.7:2000", "10.0.0.7")


def test_a_local_plan_needs_no_ray() -> None:
    deployment = make_deployment(make_plan(UpOptions(store="/s", is_local=True)))
    assert type(deployment) is LocalDeployment
    assert asyncio.run(deployment.stop(lambda _: None))


def test_another_plan_begins_to_start_a_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    rays: list[dict[str, Any]] = []
    monkeypatch.setattr(supervised, "RayCluster", lambda **options: rays.append(options))
    assert type(make_deployment(make_plan(UpOptions(store="/s")))) is RayDeployment
    assert len(rays) == 1


def test_each_actor_of_each_broker_has_a_name_of_its_own() -> None:
    names = {
        actor_name(broker, row.actor_name)
        for broker in ("broker-a", "broker-b")
        for row in SERVICES.values()
    }
    assert len(names) == 2 * len(SERVICES)
    with_pool = StoreConfig(store_path_root="/s", transient_store_pool_enable=True)
    plain = StoreConfig(store_path_root="/s")
    assert actors_count([with_pool], 1) == len(TARGETS)  # one target for every added service
    assert actors_count([with_pool] * 2) - actors_count([with_pool]) == 1 + len(SERVICES)
    assert actors_count([with_pool]) - actors_count([plain]) == 1
    assert actors_count([plain] * 2, 3) - actors_count([plain] * 2) == 6


@pytest.mark.parametrize("key", UP_KEYS)
def test_a_key_may_be_given_with_its_default(key: str) -> None:
    default = UP_KEYS[key].default
    assert key.startswith(UP_PREFIX)
    assert make_plan(UpOptions(settings=(f"{key}={default}",))) == make_plan(UpOptions())


@pytest.mark.parametrize("seconds", [-1, 3_601])
def test_a_drain_without_a_sensible_end_is_refused(seconds: int) -> None:
    with pytest.raises(NotPossible, match=f"--drain-seconds {seconds} is not accepted"):
        make_plan(UpOptions(drain_seconds=seconds))
    assert make_plan(UpOptions(drain_seconds=3_600)).drain_seconds == 3_600
