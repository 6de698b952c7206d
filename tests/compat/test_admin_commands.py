"""The same command by mqadmin of 4.9.3 and by `wakelog admin`, on the same cluster.

Compared are the words of each line, in any order of lines: mqadmin prints hash maps as they come.
"""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, wait_until
from tests.compat.frames import RawConnection
from tests.compat.provision import JVM_OPTIONS, java_runtime, rocketmq_classpath
from tests.compat.real_rocketmq import class_options
from tests.compat.together import at_once
from wakelog.cli.admin.table import run_admin
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.java, pytest.mark.slow]

STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup"
LOGBACK = "<configuration/>"
MQADMIN_SECONDS_MAX = 60.0
HEARTBEAT, UPDATE_OFFSET = 34, 15
COMMANDS = (
    "topicStatus -t {topic}",
    "topicRoute -t {topic}",
    "topicRoute -t {topic} -l",
    "topicClusterList -t {topic}",
    "queryMsgByKey -t {topic} -k key",
    "getConsumerConfig -g {group}",
    "consumerConnection -g {group}",
    "getBrokerConfig -b {broker}",
)
CHANGES = (
    "updateTopic -b {broker} -t {topic} -r 4 -w 4",
    "updateSubGroup -b {broker} -g {group} -r 5",
)


def mqadmin(line: str, cluster: Cluster, home: Path) -> list[str]:
    """Run one command of the real tools and return its lines."""
    runtime = java_runtime()
    options = (*JVM_OPTIONS, *class_options(), f"-Duser.home={home}")
    words = [runtime.java, *options, STARTUP, *line.split(), "-n", cluster.name_server]
    environment = {**runtime.env, "ROCKETMQ_HOME": str(home), "CLASSPATH": rocketmq_classpath()}
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MQADMIN_SECONDS_MAX,
        check=True,
    )
    return done.stdout.splitlines()


def ours(line: str, cluster: Cluster) -> list[str]:
    """Run one command of wakelog and return its lines."""
    said: list[str] = []
    run_admin([*line.split(), "-n", cluster.name_server], said.append)
    return "\n".join(said).splitlines()


def words_of(lines: list[str]) -> list[list[str]]:
    """Return the words of the lines that have any; of JSON, which has other breaks, all as one."""
    if lines[:1] == ["{"]:
        return [["".join("".join(lines).split())]]
    return sorted(line.split() for line in lines if line.strip())


def test_commands_say_what_mqadmin_says(
    cluster: Cluster, driver: JavaDriver, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "logback_tools.xml").write_text(LOGBACK)
    group = "said_by_mqadmin"
    ours(f"sendMessage -t {topic} -b broker-a -i 1 -p body -k key -c tag", cluster)
    by_key = f"queryMsgByKey -t {topic} -k key"
    wait_until(lambda: len(ours(by_key, cluster)) > 1, what="indexed")
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    consumer = {"groupName": group, "subscriptionDataSet": [subscription]}
    beat = json.dumps({"clientID": "c1", "consumerDataSet": [consumer]}).encode()
    with RawConnection(cluster.broker, language="JAVA", version=399) as connection:
        assert connection.ask(HEARTBEAT, body=beat).code == 0
        retries = f"topicClusterList -t %RETRY%{group}"
        wait_until(lambda: is_known(retries, cluster), what="registered")
        for texts in (COMMANDS, CHANGES):
            lines = [x.format(topic=topic, group=group, broker=cluster.broker) for x in texts]
            found = at_once(*(partial(mqadmin, line, cluster, tmp_path) for line in lines))
            expected = {line: words_of(said) for line, said in zip(lines, found, strict=True)}
            said = {line: words_of(ours(line, cluster)) for line in lines}
            different = {x: (said[x], expected[x]) for x in lines if said[x] != expected[x]}
            assert not different, json.dumps(different, indent=1)


def is_known(line: str, cluster: Cluster) -> bool:
    """Return whether a command that fails for an unknown topic succeeds."""
    try:
        return bool(ours(line, cluster))
    except ClientError:
        return False
