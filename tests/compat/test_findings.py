"""What `wakelog findings` reads at 4.9.3's broker and at ours, with Java's consumers."""

import asyncio
import html
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, wait_until
from tests.compat.processes import free_port
from tests.compat.provision import JVM_OPTIONS, java_runtime, rocketmq_classpath
from tests.compat.real_rocketmq import class_options
from tests.console.site import console_of
from wakelog.client import Consumer, Producer
from wakelog.client.admin import open_admin
from wakelog.console.cluster_reading import ClusterReading, read_cluster
from wakelog.console.findings import RETRIED_COUNT_MIN, find
from wakelog.console.history import RETRIED, History
from wakelog.console.server_findings import CLOCK_APART_MS_MAX
from wakelog.console.views import topics
from wakelog.protocol.codes import RequestCode

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("real")]

CONSUMED_MS_MAX = 60_000
FAILED_SECONDS_MAX = 90.0
RUN_SECONDS_MAX = 60.0
RUNS_MAX = 5
"""A client's own 3 s for a send are not enough on a host with much else to do."""


def read(cluster: Cluster, *more_servers: str) -> ClusterReading:
    async def main() -> ClusterReading:
        async with open_admin(";".join((cluster.name_server, *more_servers))) as admin:
            return await read_cluster(admin, round(time.time() * 1000))

    return asyncio.run(main())


def read_behind(cluster: Cluster, group: str, count: int) -> ClusterReading:
    """Read until a group is so many messages behind: a broker counts those it dispatched."""
    found: list[ClusterReading] = []

    def is_behind() -> bool:
        found.append(read(cluster))
        return found[-1].groups[group].progress.total_diff() == count

    wait_until(is_behind, what=f"{count} behind")
    return found[-1]


def send(cluster: Cluster, topic: str, count: int) -> None:
    async def main() -> None:
        async with Producer(cluster.name_server, group="python") as producer:
            for n in range(count):
                await producer.send(topic, b"%d" % n)

    asyncio.run(main())


def test_a_group_is_read_with_its_member_and_then_without(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    group = f"group_{topic}"
    send(cluster, topic, 3)
    driver("consume", name=topic, group=group, topics=[topic])
    driver("consumed", name=topic, count=3, timeoutMs=CONSUMED_MS_MAX)
    found = read(cluster)
    assert [(x.address, x.failure) for x in found.brokers] == [(cluster.broker, None)]
    assert 0 < float(found.brokers[0].values["commitLogDiskRatio"]) <= 1
    assert topic in found.brokers[0].topics
    online = found.groups[group]
    assert online.clients is not None and len(online.clients.connection_set) == 1
    driver("stopConsuming", name=topic)

    history = History()
    for behind in (2, 4):
        send(cluster, topic, 2)
        history.add(read_behind(cluster, group, behind))
    [said] = [each for each in find(history) if each.about == f"group {group}"]
    assert said.rule == "no client"
    assert said.found.startswith("no client is online, and 4 messages wait: 2 more in ")


def test_the_clock_of_a_broker_is_known(cluster: Cluster) -> None:
    [broker] = read(cluster).brokers
    assert broker.clock_ahead_ms is not None
    assert abs(broker.clock_ahead_ms) < CLOCK_APART_MS_MAX / 2
    assert broker.certificate_end_ms == 0


def test_a_name_server_that_is_away_beside_one_that_answers(cluster: Cluster) -> None:
    away = f"127.0.0.1:{free_port()}"
    history = History()
    history.add(read(cluster, away))
    assert [x.about for x in find(history) if x.rule == "name server away"] == [
        f"name server {away}"
    ]
    assert not [x for x in find(history) if x.rule == "name servers disagree"]
    assert history.latest.brokers[0].failure is None


def test_messages_that_fail_again_and_again_are_said(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    group, count = f"group_{topic}", RETRIED_COUNT_MIN
    history = History()

    async def fail() -> None:
        async with Consumer(
            cluster.name_server, group=group, topics=topic, start="first"
        ) as consumer:
            end = time.monotonic() + FAILED_SECONDS_MAX
            times = 0
            async for message in consumer:
                await message.nack()
                times += 1
                if times % count == 0:
                    history.add(await asyncio.to_thread(read, cluster))
                change = history.change(RETRIED, group)
                if change is not None and change.grown >= 2 * count:
                    return
                assert time.monotonic() < end, change

    send(cluster, topic, count)
    asyncio.run(fail())
    [said] = [each for each in find(history) if each.rule == "retries loop"]
    assert said.about == f"group {group}"
    assert f"wakelog tail '%RETRY%{group}'" in said.remedy


def test_what_changes_is_noted(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    history, group = History(), f"group_{topic}"
    driver("consume", name=topic, group=group, topics=[topic])
    history.add(read(cluster))
    driver("stopConsuming", name=topic)
    driver("createTopic", address=cluster.broker, topic=f"made_{topic}", queues=2)

    async def change(key_values: str) -> None:
        async with open_admin(cluster.name_server) as admin:
            await admin.ask(cluster.broker, RequestCode.UPDATE_BROKER_CONFIG, body=key_values)

    before = history.latest.brokers[0].settings["fileReservedTime"]
    asyncio.run(change("fileReservedTime=71"))
    try:
        history.add(read(cluster))
    finally:
        asyncio.run(change(f"fileReservedTime={before}"))
    said = {f"{each.about} {each.found}" for each in history.changes.events}
    assert f"topic made_{topic} was made" in said
    assert any(x.endswith(f"fileReservedTime is 71 now, and was {before}") for x in said)
    assert any(x.startswith(f"group {group} ") and x.endswith(" left") for x in said)


def run_java(program: str, folder: Path) -> str:
    """Return what the lines of a program put out, in a class of their own."""
    imports = "\n".join(x for x in program.splitlines() if x.startswith("import "))
    body = program.removeprefix(imports)
    source = folder / "First.java"
    source.write_text(
        f"{imports}\npublic class First {{\npublic static void main(String[] words) {{\n"
        f"try {{\n{body}\n}} catch (Exception failed) {{\n"
        "failed.printStackTrace();\nSystem.exit(1);\n}\n}\n}\n"
    )
    runtime = java_runtime()
    options = (*JVM_OPTIONS, *class_options(), f"-Duser.home={folder}")
    outcome = subprocess.run(
        [runtime.java, *options, "-cp", rocketmq_classpath(), str(source)],
        env=runtime.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )
    return outcome.stdout + outcome.stderr


def test_the_java_program_of_a_new_cluster_works_as_shown(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "rows", lambda *_, **__: [])  # as before the first topic
    with console_of(cluster.name_server) as console:
        console.read()
        page = console.browser.get("/").html
    program = html.unescape(re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)[2])
    for _ in range(RUNS_MAX):
        said = run_java(program, tmp_path)
        if "sendStatus=SEND_OK" in said:
            return
        assert "RemotingTooMuchRequestException" in said, said
    raise AssertionError(said)
