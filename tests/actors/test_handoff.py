"""A broker of actors hands its log over by reference, and keeps it for whoever reads it."""

import asyncio
import json
import os
import signal

import pytest
import ray

from tests.actors.client import Client
from tests.actors.deployments import wait_until
from tests.actors.supervised_brokers import SupervisedBroker
from tests.spark.logs import columns, query_rows
from wakelog.actors.deploy.group import BROKER
from wakelog.actors.ray.options import actor_name, find_actor
from wakelog.protocol.codes import ResponseCode
from wakelog.spark.handoff import held_snapshot, snapshot_text
from wakelog.storage.file_system import FileSystem
from wakelog.storage.retention.leases import read_leases

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.daily("in turn")]

TOPIC = "handed-over"


def bodies(text: str) -> list[int]:
    rows = query_rows(columns("body"), snapshot=text, topic=TOPIC)
    return [int(row["body"]) for row in rows]


async def send(supervised: SupervisedBroker, *numbers: int) -> None:
    client = Client(supervised.address)
    for number in numbers:
        answer = await client.send(TOPIC, b"%d" % number)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    await client.close()


def test_a_reference_is_what_was_acknowledged_and_nothing_later(
    supervised: SupervisedBroker,
) -> None:
    broker = find_actor(actor_name("broker-a", BROKER))
    assert broker is not None
    asyncio.run(send(supervised, *range(50)))
    reference = broker.snapshot.remote(holder="a test")
    first = ray.get(reference)
    asyncio.run(send(supervised, *range(50, 60)))
    assert bodies(snapshot_text(reference)) == [*range(50)]
    with held_snapshot(broker, after=first) as later:
        assert bodies(json.dumps(later)) == [*range(50, 60)]
        assert later["begin"] == first["end"]
    assert ray.get(broker.end_snapshot.remote(first["leaseId"])) == {"ended": True}
    assert ray.get(broker.end_snapshot.remote(later["leaseId"])) == {"ended": False}


def test_a_lease_survives_the_process_that_keeps_it(supervised: SupervisedBroker) -> None:
    broker = find_actor(actor_name("broker-a", BROKER))
    assert broker is not None
    asyncio.run(send(supervised, 100))
    snapshot = ray.get(broker.snapshot.remote())
    paths = supervised.plan.brokers[0].settings.store.paths
    leases = read_leases(FileSystem(), paths) or ()
    assert [x.lease_id for x in leases] == [snapshot["leaseId"]]

    async def kill() -> None:
        before = await supervised.attached_count("Retention")
        os.kill(await supervised.process_id("Retention"), signal.SIGKILL)

        async def is_back() -> bool:
            return await supervised.attached_count("Retention") > before

        await wait_until(is_back, "Retention")

    asyncio.run(kill())
    assert ray.get(broker.renew_snapshot.remote(snapshot["leaseId"]))["expires_ms"] > 0
    assert ray.get(broker.end_snapshot.remote(snapshot["leaseId"])) == {"ended": True}
    assert not os.path.exists(paths.leases)
