"""A broker made of actors: what crosses between them, what it says, how it starts and stops."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.actors.client import Client, records
from tests.actors.deployments import small_plan, wait_until
from tests.actors.programs import running_up
from tests.actors.supervised_brokers import SupervisedBroker
from wakelog.actors.deploy.group import SUPERVISOR, broker_makers
from wakelog.actors.deploy.supervised import placed
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.options import actor_name, end_actor, find_actor
from wakelog.actors.ray.private_ray import RayCluster
from wakelog.actors.services.table import needed_services
from wakelog.actors.start_outcome import raise_failure
from wakelog.actors.transport.service_plan import Transport
from wakelog.protocol.codes import ResponseCode

pytestmark = [pytest.mark.ray, pytest.mark.slow]

BY_CALL = {"allocate", "delay", "retention"}
BY_NOTIFICATION_OR_CALL = {"dispatch", "wake", "flush"}


def test_messages_go_through_and_held_pulls_are_woken(supervised: SupervisedBroker) -> None:
    async def main() -> None:
        client = Client(supervised.address)
        assert (await client.send("t", b"0")).code == ResponseCode.SUCCESS

        async def first() -> bool:
            return (await client.pull("t", 0)).code == ResponseCode.SUCCESS

        await wait_until(first, "the first message")
        for number in range(1, 5):
            held = asyncio.ensure_future(client.pull("t", number, hold_ms=15_000))
            await client.send("t", b"%d" % number)
            assert [record.body for record in records(await held)] == [b"%d" % number]
        await client.close()

    asyncio.run(main())


def test_each_kind_of_work_crosses_by_reference(supervised: SupervisedBroker) -> None:
    kinds = set(BY_CALL)
    if supervised.kind.transport is Transport.REFERENCES:
        kinds |= {*BY_NOTIFICATION_OR_CALL, "commit"}

    async def main() -> None:
        client = Client(supervised.address)
        await client.send("crossing", b"x" * 20_000)
        await client.close()

        async def crossed() -> bool:
            references = await supervised.references()
            return all(references.get(kind, 0) > 0 for kind in kinds)

        await wait_until(crossed, f"references for {kinds}")
        supervisor = (await supervised.actors.statistics())["supervisor"]
        assert supervisor["references"]["statistics"] > 0

    asyncio.run(main())


@pytest.mark.daily("in turn")
def test_every_service_has_statistics(supervised: SupervisedBroker) -> None:
    async def main() -> None:
        await supervised.wait_whole()
        statistics = await supervised.actors.statistics()
        assert set(statistics) == {"build", "brokers", "name_server", "supervisor"}
        services = statistics["brokers"]["broker-a"]["services"]
        assert set(services) == set(needed_services(supervised.plan.brokers[0].settings.store))
        assert all(services.values())

    asyncio.run(main())


@pytest.mark.daily("in turn")
def test_actors_are_found_by_name_and_answer_with_plain_parts(
    supervised: SupervisedBroker,
) -> None:
    import ray

    # The Supervisor of the deployment that was started last has the name.
    supervisor = find_actor(SUPERVISOR)
    assert supervisor is not None
    state = ray.get(supervisor.wait_ready.remote(10))
    notices = state.pop("notices")
    assert state == {"ready": True, "progress": "running", "failure": None}
    # Other tests have killed this broker, perhaps in the middle of a write.
    assert all(isinstance(line, str) and "were no whole message" in line for line in notices)
    broker = find_actor(actor_name("broker-a", "Broker"))
    assert broker is not None
    assert ray.get(broker.statistics.remote())["watermarks"]["appended"] >= 0
    assert find_actor("absent") is None


@pytest.mark.daily("in turn")
def test_a_taken_port_is_reported_with_a_remedy(
    supervised: SupervisedBroker, ray_cluster: RayCluster, tmp_path: Path
) -> None:
    port = supervised.plan.brokers[0].settings.broker.listen_port

    async def main() -> None:
        plan = small_plan(tmp_path, "brokerName=other", is_local=False)
        plan.brokers[0].settings.broker.listen_port = port
        plan = placed(plan, ray_cluster.shared_directory)
        handles = {kind: make() for kind, make in broker_makers(plan, plan.brokers[0]).items()}
        with pytest.raises(
            DeploymentFailed, match=f":{port}: another process uses this port"
        ) as raised:
            raise_failure(await handles["Broker"].start.remote())
        assert "another port" in raised.value.remedy
        for handle in handles.values():
            end_actor(handle)

    asyncio.run(main())


def test_an_interrupt_while_ray_starts_is_an_ordered_stop(tmp_path: Path) -> None:
    with running_up(tmp_path / "store") as up:
        up.command.wait_line("starting Ray")
        up.stop(signal.SIGINT, group=True)
        assert up.processes() == {}
    assert not (tmp_path / "store" / "abort").exists()
