"""What `wakelog doctor` finds, from answers that are given and at a broker in this process."""

import asyncio

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.broker.trouble import Trouble, runtime_values
from wakelog.cli.cluster import doctor
from wakelog.cli.cluster.doctor import route_findings
from wakelog.client.consumer import Consumer
from wakelog.client.producer import Producer
from wakelog.client.route import NO_NAME_SERVER
from wakelog.console import findings
from wakelog.console.findings import (
    address_findings,
    load_findings,
)
from wakelog.console.rules import OK, PROBLEM, WARNING
from wakelog.protocol.bodies import (
    BrokerData,
    QueueData,
    TopicRouteData,
)


def test_an_address_that_leads_nowhere_is_found() -> None:
    assert not list(address_findings("a", {0: "10.0.0.5:10911"}, "10.0.0.4:9876"))
    assert not list(address_findings("a", {0: "127.0.0.1:10911"}, "localhost:9876"))
    [local] = address_findings("a", {0: "127.0.0.1:10911"}, "10.0.0.4:9876")
    assert (local.verdict, "--advertise" in local.remedy) == (PROBLEM, True)
    [nowhere] = address_findings("a", {0: "0.0.0.0:10911"}, "127.0.0.1:9876")
    assert "no address" in nowhere.found
    [alone] = address_findings("a", {1: "10.0.0.5:10911"}, "10.0.0.4:9876")
    assert (alone.verdict, "no master" in alone.found) == (WARNING, True)


def test_disk_and_load_are_judged() -> None:
    assert not list(load_findings("b", {"commitLogDiskRatio": "0.5"}))
    assert [x.verdict for x in load_findings("b", {"commitLogDiskRatio": "0.8"})] == [WARNING]
    values = {
        "commitLogDiskRatio": "0.95",
        "sendThreadPoolQueueHeadWaitTimeMills": "900",
        "dispatchBehindBytes": str(1 << 30),
    }
    found = list(load_findings("b", values))
    assert [x.verdict for x in found] == [PROBLEM, PROBLEM, WARNING]
    assert "95% full" in found[0].found
    assert "1,024 MiB" in found[2].found


def test_what_does_not_work_is_a_problem_with_its_remedy() -> None:
    values = runtime_values({"reput": Trouble("the disk is full", "Free some space.")})
    [found] = load_findings("b", values)
    assert found[:4] == (PROBLEM, "b", "reput does not work: the disk is full", "Free some space")


def test_a_route_without_permission_is_found() -> None:
    brokers = [BrokerData("c", "a", {0: "a:1"}), BrokerData("c", "b", {1: "b:2"})]
    queues = [QueueData("a", 4, 8, 4), QueueData("b", 4, 4, 6)]
    found = list(route_findings("t", TopicRouteData(queue_datas=queues, broker_datas=brokers)))
    assert [x.verdict for x in found] == [WARNING, PROBLEM, OK]
    assert found[1].found == "no queue can be written"
    assert found[2].found == "8 queues can be read"


def test_a_consumer_that_acknowledges_nothing_is_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "MOVES_SECONDS", 0.5)
    monkeypatch.setattr(findings, "MOVES_MS", 500)
    name_server = cli.broker.name_server
    cli.broker.create_topic("stuck", queues=1)

    async def hold() -> str:
        async with (
            Producer(name_server, group="p") as producer,
            Consumer(
                name_server, group="holders", topics="stuck", start="first", ordered=True
            ) as one,
        ):
            await producer.send("stuck", b"in hand")
            assert await one.fetch(1, 10.0)

            async def grow() -> None:
                while True:
                    await producer.send("stuck", b"behind it")
                    await asyncio.sleep(0.02)

            growing = asyncio.create_task(grow())
            words = ("doctor", "--topic", "stuck", "--group", "holders")
            await asyncio.to_thread(cli, *words)
            growing.cancel()
            return one._instance.client_id

    client = asyncio.run(hold())
    [line] = [each for each in cli.out.splitlines() if each.startswith("warning")]
    assert "queue 0 of stuck at broker-t got " in line
    assert f"{client}, which has it, stayed at offset 0" in line


def test_a_cluster_is_examined_from_here(cli: CommandLine) -> None:
    name_server = cli.broker.name_server
    cli.broker.create_topic("examined", queues=2)
    cli("doctor", "--topic", "examined", "--group", "nobody", code=1)
    lines = cli.out.splitlines()
    assert lines[0].startswith(f"ok       name server {name_server}: answers in ")
    assert f"broker broker-t (0) at {cli.broker.address}: answers" in lines[1]
    assert "ok       topic examined: 2 queues can be read" in lines
    assert any(each.startswith("problem  group nobody: is not there: no broker") for each in lines)
    assert not any("lags by" in each for each in lines)
    assert "found. See what stands with each." in cli.err


def test_a_name_server_that_is_away_is_a_problem(cli: CommandLine) -> None:
    [found] = cli.json("doctor", "-n", "127.0.0.1:1", code=1)
    assert (found["verdict"], "Connection refused" in found["found"]) == (PROBLEM, True)


def test_the_address_of_a_broker_is_no_name_server(cli: CommandLine) -> None:
    [found] = cli.json("doctor", "-n", cli.broker.address, code=1)
    assert (found["verdict"], found["remedy"]) == (PROBLEM, NO_NAME_SERVER)
