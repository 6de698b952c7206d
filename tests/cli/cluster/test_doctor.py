"""What `wakelog doctor` finds, from answers that are given and at a broker in this process."""

import asyncio

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.broker.trouble import Trouble, runtime_values
from wakelog.cli.cluster import doctor
from wakelog.cli.cluster.doctor import (
    disagreements,
    route_findings,
    still_findings,
)
from wakelog.client.consumer import Consumer
from wakelog.client.producer import Producer
from wakelog.client.route import NO_NAME_SERVER
from wakelog.console.findings import address_findings, load_findings
from wakelog.console.rules import OK, PROBLEM, WARNING
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    ConsumerRunningInfo,
    ConsumeStats,
    OffsetWrapper,
    QueueData,
    SubscriptionData,
    TopicRouteData,
)
from wakelog.protocol.body_codec import MessageQueue


def subscriber(expression: str, topic: str = "T", **more: object) -> ConsumerRunningInfo:
    subscriptions = [
        SubscriptionData(topic=topic, sub_string=expression),
        SubscriptionData(topic="%RETRY%g", sub_string="*"),
    ]
    push = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}
    return ConsumerRunningInfo(push, subscriptions, **more)  # type: ignore[arg-type]


def test_name_servers_that_disagree_are_found() -> None:
    both = {"a": BrokerData("c", "a", {0: "a:1"}), "b": BrokerData("c", "b", {0: "b:1"})}
    tables = {"n:1": ClusterInfo(both), "n:2": ClusterInfo({"a": both["a"]})}
    [found] = disagreements(tables)
    assert (found.verdict, found.about, found.found) == (WARNING, "broker b", "unknown at n:2")


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


def progress_of(queue: MessageQueue, broker_offset: int, consumer_offset: int) -> ConsumeStats:
    return ConsumeStats({queue: OffsetWrapper(broker_offset, consumer_offset)})


@pytest.mark.parametrize(
    ("after", "verdicts"),
    [
        ((30, 5), [WARNING]),
        ((30, 6), []),  # it moves
        ((20, 5), []),  # nothing came; whoever has the message may just take long
    ],
)
def test_an_offset_that_stays_while_its_queue_grows_is_found(
    after: tuple[int, int], verdicts: list[str]
) -> None:
    queue = MessageQueue("T", "b", 0)
    infos = {"c1": subscriber("*", mq_table={queue: {}})}
    before = progress_of(queue, 20, 5)
    found = list(still_findings("group g", before, progress_of(queue, *after), infos))
    assert [each.verdict for each in found] == verdicts
    if found:
        text = "queue 0 of T at b got 10 messages in 6 s, and c1, which has it, stayed at offset 5"
        assert found[0].found == text
    assert not list(still_findings("group g", before, progress_of(queue, *after), {}))


def test_a_consumer_that_acknowledges_nothing_is_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "MOVES_SECONDS", 0.5)
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
