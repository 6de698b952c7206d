"""The same command by mqadmin of 4.9.3 and by `wakelog admin`, on the same cluster.

Compared are the words of each line, in any order of lines: mqadmin prints hash maps as they come.
`MASKS` hides what depends on the time, `SERVERS_DIFFER` what brokers and name servers of the two
kinds say differently on purpose, and `MENDS` is what docs/admin.md lists below "What differs".
"""

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.compat.admin_play import (
    PLAY,
    Said,
    by_mqadmin,
    by_wakelog,
    mqadmin,
    perform,
    staged,
    wakelog_admin,
    words_of,
)
from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver, wait_until
from tests.compat.frames import RawConnection
from wakelog.cli.admin import command as admin_command
from wakelog.cli.command import Option
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.java, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNTS = """
globalWhiteRemoteAddresses: [127.0.0.1]
accounts:
- {accessKey: admin-key, secretKey: admin-secret, admin: true}
"""
HEARTBEAT = 34
LINES = (
    "topicStatus -t {topic}",
    "topicRoute -t {topic}",
    "topicRoute -t {topic} -l",
    "topicClusterList -t {topic}",
    "queryMsgByKey -t {topic} -k key",
    "queryCq -t {topic} -q 1 -i 0",
    "getConsumerConfig -g {group}",
    "consumerConnection -g {group}",
    "getBrokerConfig -b {broker}",
    "updateTopic -b {broker} -t {topic} -r 4 -w 4",
    "updateTopicPerm -b {broker} -t {topic} -p 6",
    "updateSubGroup -b {broker} -g {group} -r 5",
)

# What depends on the time, and on what was done before in the same cluster.
MASKS = {
    "sendMsgStatus": r"rt:\d+|queueOffset=\d+",
    "checkMsgSendRT": r"(?<=true )\d+|(?<=RT: )\S+",
    "clusterRT": r"\d+\.\d\d",
    "consumerProgress": r"(?<=TPS: )\S+",
    "consumerStatus": r"@[0-9a-f]{5,}|\b20\d{12}\b|\d+\.\d\d|Lambda\S+",
    "statsAll": r"\d+\.\d\d|\d+(?= \d+$)|\d+$|\d+(?= NO_CONSUMER$)",
    "clusterList": r"(?<=V4_9_3 ).*|(?<=broker-a )\d+ \d+ \d+ \d+",
    "brokerStatus": r"(?<=DiskRatio)_.*|:( .*)?$",
    "clusterAclConfigVersion": r"\S+plain_acl.yml \d+",
    "exportMetadata": r"(?<=.counter.: )\d+",
    "exportMetrics": r"(?<=: )[\d.]+|(?<=: ).[\d.]+.(?=[,}])",
}
# What mqadmin says on one kind of broker and not on the other; docs/tools.md lists it.
SERVERS_DIFFER = {
    "brokerStatus": r"\b(getTransferredTps|wakelogVersion|wakelog\.\S+)",
    "getBrokerConfig": r"^(compat\.|parquet|replication|scrub|fileReservedBytes|\w+LimitFactor)"
    r"|^minInSyncReplicas ="
    r"|^(\w+Threads|\w+ThreadPoolNums|storePath\w+|listenPort|haListenPort|rocketmqHome) =",
    "getNamesrvConfig": r"^(configStorePath|kvConfigPath|rocketmqHome|listenPort) ?=",
}
# mqadmin has the call in its classes, and no command for it.
OURS_ALONE = {"resumeCheckHalfMessage"}
COMMANDS = {command.name: command for command in admin_command.mqadmin.commands()}
Mend = Callable[[str], str | None]


def without(pattern: str) -> Mend:
    return lambda line: None if re.search(pattern, line) else line


def replaced(pattern: str, word: str) -> Mend:
    return lambda line: re.sub(pattern, word, line)


BODY = replaced(r"^Message Body.*", "BODY")
MENDS: dict[str, Mend] = {
    "allocateMQ": lambda line: "".join(sorted(line)),
    "consumerStatus": replaced(r" TIME/\S+$", ""),
    "startMonitoring": without("__MONITOR_CONSUMER"),
    "queryMsgById": BODY,
    "queryMsgByUniqueKey": BODY,
    "queryMsgByOffset": BODY,
    "consumeMessage": without("Consume ok|message will be provided"),
    "updateAclConfig": replaced(r"^(org\.apache\S+|PlainAccessConfig.*)", "ACCOUNT"),
    # These differ where something does not answer, which nothing here does.
    "consumerProgress": str,
    "statsAll": str,
}


@pytest.mark.daily("notifications")
def test_names_and_flags_are_mqadmins(driver: JavaDriver) -> None:
    """Some of mqadmin's names end with a blank, which nobody types."""
    expected = {
        command: sorted((short, name.strip(), takes_value) for short, name, takes_value in flags)
        for command, flags in driver("mqadminFlags").items()
    }
    assert len(expected) == 55
    found = {
        name: sorted(map(flag_of, command.own))
        for name, command in COMMANDS.items()
        if name not in OURS_ALONE
    }
    assert found == expected


def flag_of(parameter: Option) -> tuple[str, str, bool]:
    short, name = parameter.names
    return short.removeprefix("-"), name.removeprefix("--"), parameter.takes_value


def test_commands_say_what_mqadmin_says(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    group = "said_by_mqadmin"
    names = {"topic": topic, "group": group, "broker": cluster.broker}
    sent = f"sendMessage -t {topic} -b broker-a -i 1 -p body -k key -c tag"
    wakelog_admin(sent.split(), cluster)
    by_key = f"queryMsgByKey -t {topic} -k key".split()
    wait_until(lambda: len(wakelog_admin(by_key, cluster)) > 1, what="indexed")
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    consumer = {"groupName": group, "subscriptionDataSet": [subscription]}
    beat = json.dumps({"clientID": "c1", "consumerDataSet": [consumer]}).encode()
    with RawConnection(cluster.broker, language="JAVA", version=399) as connection:
        assert connection.ask(HEARTBEAT, body=beat).code == 0
        wait_until(lambda: is_known(f"%RETRY%{group}", cluster), what="registered")
        lines = [line.format(**names).split() for line in LINES]
        for line in lines:
            expected = words_of(mqadmin(driver, line))
            assert words_of(wakelog_admin(line, cluster)) == expected, line


def is_known(topic: str, cluster: Cluster) -> bool:
    """Whether a topic has a route."""
    try:
        return bool(wakelog_admin(["topicClusterList", "-t", topic], cluster))
    except ClientError:
        return False


def test_what_differs_is_documented_and_every_command_is_played() -> None:
    assert set(MENDS) == {name for name, command in COMMANDS.items() if command.differs}
    assert {line.split()[0] for line in PLAY} == COMMANDS.keys() - OURS_ALONE
    listed = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    assert [name for name in SERVERS_DIFFER if f"`{name}`" not in listed] == []


@pytest.mark.long
@pytest.mark.timeout(500)
def test_every_command_says_what_mqadmin_says(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    starters: dict[str, Starter] = {"real": real_cluster, "wakelog": local_cluster}
    said: dict[tuple[str, str], Said] = {}
    for kind, start in starters.items():
        folder = tmp_path / kind
        accounts = folder / "broker" / "conf" / "plain_acl.yml"
        accounts.parent.mkdir(parents=True)
        accounts.write_text(ACCOUNTS)
        settings = {"aclEnable": "true", "rocketmqHome": str(folder / "broker")}
        with ExitStack() as stack:
            cluster = stack.enter_context(
                start(folder, settings={**settings, "traceTopicEnable": "true"})
            )
            driver = stack.enter_context(JavaDriver(cluster.name_server))
            # Names of one length: records hold them.
            tools = {"ours": partial(by_wakelog, cluster), "java": partial(by_mqadmin, driver)}
            for name, run in tools.items():
                play = f"{name}_play"
                with staged(play, cluster, driver, folder / f"exports_{name}") as stage:
                    said[kind, name] = perform(stage, run)
    found = []
    pairs = [("real", "ours", "real"), ("wakelog", "ours", "wakelog")]
    for kind, tool, other in [*pairs, ("wakelog", "java", "real")]:
        differs = SERVERS_DIFFER if kind != other else {}
        for line, lines in said[kind, tool].items():
            a, b = (mended(line, each, differs) for each in (lines, said[other, "java"][line]))
            if a != b:
                extra, missing = [x for x in a if x not in b], [x for x in b if x not in a]
                place = {"line": line, "by": tool, "on": kind, "against": other}
                found.append({**place, "extra": extra, "missing": missing})
    assert not found, json.dumps(found, indent=1)
    count = sum(map(len, said.values()))
    record_property(
        "said",
        f"mqadmin: {len(COMMANDS) - len(OURS_ALONE)} commands in {count} lines, none different",
    )


def mended(line: str, lines: list[list[str]], servers_differ: dict[str, str]) -> list[str]:
    """Return the lines that a command has said as they are compared."""
    command = line.split()[1]
    mask, left_out = MASKS.get(command, "$^"), servers_differ.get(command, "$^")
    texts = [re.sub(mask, "N", " ".join(words)) for words in lines]
    mend = MENDS.get(command, str)
    found = [mend(text) for text in texts if not re.search(left_out, text)]
    return sorted(text for text in found if text is not None)
