"""A running cluster, and a function that runs a command line against it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.admin.lines import run_admin
from tests.compat.clusters import Cluster, local_cluster
from tests.compat.frames import RawConnection

HEARTBEAT = 34
# Every test is let in as it is; what changes accounts has to be signed.
ACCOUNTS = """
globalWhiteRemoteAddresses: [127.0.0.1]
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
"""
SIGNED = ("--access-key", "admin-key", "--secret-key", "admin-secret")


class Enough(Exception):
    """So many lines of a command without an end are there."""


class AdminCommand:
    """Runs command lines of `wakelog admin` against one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __call__(self, line: str, *more: str) -> list[str]:
        """Return the lines of text."""
        said: list[str] = []
        run_admin([*line.split(), *more, "-n", self.cluster.name_server], said.append)
        return "\n".join(said).splitlines()

    def first(self, count: int, line: str, *more: str) -> list[str]:
        """Return the first lines of a command without an end."""
        said: list[str] = []

        def say(text: str) -> None:
            said.append(text)
            if len(said) == count:
                raise Enough

        with pytest.raises(Enough):
            run_admin([*line.split(), *more, "-n", self.cluster.name_server], say)
        return said

    def json(self, line: str, *more: str) -> list[dict[str, Any]]:
        """Return the objects."""
        return [json.loads(text) for text in self(line, *more, "--output", "json")]

    def create(self, topic: str) -> str:
        """Create a topic of two queues."""
        self(f"updateTopic -c DefaultCluster -t {topic} -r 2 -w 2")
        return topic


@pytest.fixture(scope="package")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCommand]:
    """Yield a function for command lines; each test has topics and groups of its own."""
    folder = tmp_path_factory.mktemp("admin")
    accounts = folder / "conf" / "plain_acl.yml"
    accounts.parent.mkdir()
    accounts.write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(folder), "traceTopicEnable": "true"}
    with local_cluster(folder, settings=settings) as cluster:
        yield AdminCommand(cluster)


@pytest.fixture
def online(admin: AdminCommand) -> Iterator[str]:
    """Yield a group with a client of id `c1`, which subscribes to topic `online_topic`."""
    subscription = {"topic": "online_topic", "subString": "*", "subVersion": 1}
    consumer = {"groupName": "online_group", "subscriptionDataSet": [subscription]}
    body = {"clientID": "c1", "consumerDataSet": [consumer]}
    with RawConnection(admin.cluster.broker, language="JAVA", version=399) as connection:
        answer = connection.ask(HEARTBEAT, body=json.dumps(body | PRODUCER).encode())
        assert answer.code == 0
        yield "online_group"


PRODUCER = {"producerDataSet": [{"groupName": "online_producer"}]}
