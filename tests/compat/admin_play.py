"""All commands of mqadmin in one order, and what is made beforehand for them to find.

A play is done by one tool in one cluster, on topics and groups that bear its name, so that several
plays in one cluster do not meet. What is bound to differ between two plays is replaced by a word:
times, ids, addresses, places in the log, and the name of the play itself.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.admin.lines import run_admin
from tests.compat.clusters import Cluster
from tests.compat.driver import DriverError, JavaDriver, message, wait_until
from tests.compat.frames import RawConnection
from wakelog.actors.errors import NotPossible
from wakelog.client.errors import ClientError
from wakelog.protocol.names import RETRY_PREFIX

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
HEARTBEAT, UPDATE_OFFSET = 34, 15
ROUND_MS = 3_000
"""How long a command without an end is watched: for its first round."""
ADMIN = {"accessKey": "admin-key", "secretKey": "admin-secret"}
FAILED = "failed"
# What two plays are bound to say differently, and the word in its place.
WORDS = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "TIME"),
    (r"\b20\d{15}\b", "TIME"),
    (r"\b1[5-9]\d{11}\b", "TIME"),
    (r"\b[0-9A-F]{32,}\b", "ID"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"(?i)(commit ?log ?offset|physicOffset)([:=]\s*)\d+", r"\1\2OFFSET"),
)

PLAY = (
    "updateTopic -c DefaultCluster -t {topic}_new -r 4 -w 4",
    "updateTopic -b {broker} -t {topic}_ordered -r 2 -w 2 -o true",
    "updateTopicPerm -b {broker} -t {topic}_new -p 4",
    "updateTopicPerm -b {broker} -t {topic}_new -p 4",
    "updateTopicPerm -c DefaultCluster -t {topic}_new -p 6",
    "updateSubGroup -c DefaultCluster -g {group}_new -r 5",
    "updateSubGroup -b {broker} -g {group}_new -s false",
    "topicRoute -t {topic}",
    "topicRoute -t {topic} -l",
    "topicRoute -t {topic}_absent",
    "topicStatus -t {topic}",
    "topicClusterList -t {topic}",
    "topicList",
    "topicList -c",
    "allocateMQ -t {topic} -i 10.0.0.1,10.0.0.2,10.0.0.3",
    "queryMsgById -i {offset_id}",
    "queryMsgById -i {new_offset_id}",
    "queryMsgByKey -t {topic} -k key1",
    "queryMsgByUniqueKey -t {topic} -i {id}",
    "queryMsgByOffset -t {topic} -b broker-a -i 1 -o 0",
    "QueryMsgTraceById -i {id}",
    "queryCq -t {topic} -q 1 -i 0 -c 2",
    "queryCq -t {topic} -q 1 -i 0 -c 2 -g {group}",
    "printMsg -t {topic}",
    "printMsg -t {topic} -s red -d false",
    "printMsgByQueue -t {topic} -a broker-a -i 1 -p true -d true",
    "printMsgByQueue -t {topic} -a broker-a -i 1 -f true",
    "consumeMessage -t {topic} -b broker-a -i 1 -o 0 -c 2",
    "sendMessage -t {topic}_new -b broker-a -i 0 -p body -k sent -c red",
    "sendMsgStatus -b broker-a -c 2 -s 20",
    "checkMsgSendRT -t {topic}_new -a 4 -s 10",
    "clusterRT -a 2 -s 10 -c DefaultCluster",
    "producerConnection -g online_{play} -t {topic}",
    "consumerConnection -g {group}",
    "consumerConnection -g {group}_absent",
    "consumerProgress -g {group}",
    "consumerProgress -g {group} -s true",
    "consumerProgress -g {group}_absent",
    "consumerProgress",
    "consumerStatus -g {group}",
    "consumerStatus -g {group} -i {client}",
    "brokerConsumeStats -b {broker}",
    "brokerConsumeStats -b {broker} -l 1",
    "statsAll -t {topic}",
    "statsAll",
    "getConsumerConfig -g {group}_new",
    "cloneGroupOffset -s {group} -d {group}_clone -t {topic}",
    "resetOffsetByTime -g {group}_behind -t {topic} -s 0",
    "resetOffsetByTime -g {group}_behind -t {topic} -s now",
    "skipAccumulatedMessage -g {group}_behind -t {topic}",
    "resetOffsetByTime -g {group} -t {topic} -s now",
    "clusterList",
    "clusterList -m",
    "brokerStatus -b {broker}",
    "brokerStatus -c DefaultCluster",
    "getBrokerConfig -b {broker}",
    "getBrokerConfig -c DefaultCluster",
    "updateBrokerConfig -b {broker} -k brokerPermission -v 6",
    "getNamesrvConfig",
    "updateNamesrvConfig -k orderMessageEnable -v false",
    "updateKvConfig -s {play} -k key -v value",
    "deleteKvConfig -s {play} -k key",
    "updateOrderConf -t {topic} -m put -v broker-a:2",
    "updateOrderConf -t {topic} -m get",
    "updateOrderConf -t {topic} -m delete",
    "wipeWritePerm -b broker-a",
    "addWritePerm -b broker-a",
    "cleanExpiredCQ -b {broker}",
    "cleanUnusedTopic -c DefaultCluster",
    "updateAclConfig -b {broker} -a {account} -s secret-of-it -t T=PUB,U=DENY -i PUB|SUB",
    "getAccessConfigSubCommand -b {broker}",
    "clusterAclConfigVersion -c DefaultCluster",
    "clusterAclConfigVersion -b {broker}",
    "deleteAccessConfig -c DefaultCluster -a {account}",
    "deleteAccessConfig -c DefaultCluster -a {account}",
    "updateGlobalWhiteAddr -b {broker} -g 127.0.0.1",
    "exportMetadata -c DefaultCluster -f {folder}",
    "exportMetadata -b {broker} -t -f {folder}",
    "exportMetadata -b {broker} -g -f {folder}",
    "exportConfigs -c DefaultCluster -f {folder}",
    "exportMetrics -c DefaultCluster -f {folder}",
    "deleteSubGroup -b {broker} -g {group}_new",
    "deleteTopic -c DefaultCluster -t {topic}_new",
    "deleteTopic -c DefaultCluster -t {topic}_ordered",
    "startMonitoring",  # last: mqadmin's makes groups of its own
)

Tool = Callable[[list[str]], list[str]]
Said = dict[str, list[list[str]]]
"""The words of what each line of a play says, by its number and text."""


class Stage(NamedTuple):
    """What a play finds: a cluster, the names of things, and a folder for exports."""

    play: str
    cluster: Cluster
    folder: Path
    names: dict[str, str]

    def line(self, text: str) -> list[str]:
        """Return the words of a line of the play."""
        return [word.format(**self.names) for word in text.split()]


def mqadmin(driver: JavaDriver, words: Sequence[str], **more: Any) -> list[str]:
    """Run one command of the real tools and return its lines."""
    command, *rest = words
    said = driver("mqadmin", command=command, words=rest, **more)
    return str(said).splitlines()


def wakelog_admin(words: Sequence[str], cluster: Cluster) -> list[str]:
    """Run one command of wakelog and return its lines."""
    said: list[str] = []
    run_admin([*words, "-n", cluster.name_server], said.append)
    return "\n".join(said).splitlines()


class _Enough(Exception):
    """The first round is over."""


def by_mqadmin(driver: JavaDriver, words: list[str]) -> list[str]:
    """Run a line with mqadmin; one that fails says so, one that has no end says its first round."""
    if words[0] == "startMonitoring":
        return _monitored_by_mqadmin(driver, words)
    try:
        end_after_ms = ROUND_MS if words[0] == "clusterRT" else 0
        return mqadmin(driver, words, endAfterMs=end_after_ms, **ADMIN)
    except DriverError:
        return [FAILED]


def _monitored_by_mqadmin(driver: JavaDriver, words: list[str]) -> list[str]:
    """Return what the monitor logs in its first round, which begins after 20 s."""
    mqadmin(driver, words, **ADMIN)
    path = driver.log_path.parent / "logs" / "rocketmqlogs" / "rocketmq_client.log"

    def logged() -> list[str]:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line[line.index("[MONITOR]") :] for line in lines if "[MONITOR]" in line]

    wait_until(lambda: any("endRound" in line for line in logged()), what="monitored")
    return logged()


def by_wakelog(cluster: Cluster, words: list[str]) -> list[str]:
    """Run a line with wakelog admin, as `by_mqadmin` does."""
    said: list[str] = []
    signed = ["--access-key", ADMIN["accessKey"], "--secret-key", ADMIN["secretKey"]]

    def say(line: str) -> None:
        said.append(line)
        is_row = words[0] == "clusterRT" and len(said) == 2
        if is_row or "endRound" in line:
            raise _Enough

    try:
        run_admin([*words, "-n", cluster.name_server, *signed], say)
    except _Enough:
        pass
    except (ClientError, NotPossible):
        return [FAILED]
    return "\n".join(said).splitlines()


@contextmanager
def staged(play: str, cluster: Cluster, driver: JavaDriver, folder: Path) -> Iterator[Stage]:
    """Make what a play finds: nine messages, of which one group has consumed all, another none."""
    topic, group = f"topic_{play}", f"group_{play}"
    driver("createTopic", address=cluster.broker, topic=topic, queues=2)
    driver("createTopic", address=cluster.broker, topic=f"{topic}_unread", queues=1)
    driver("createTopic", address=cluster.broker, topic=f"%RETRY%{group}_behind", queues=1)
    for name in (group, f"{group}_behind", f"{group}_clone"):
        driver("createGroup", address=cluster.broker, group=name)
    sent: list[dict[str, Any]] = []
    for number in range(6):
        queue = {"broker": "broker-a", "queueId": number % 2}
        tags = ("red", "blue")[number // 2 % 2]
        said = message(topic, b"body", keys=f"key{number}", tags=tags, **queue)
        sent += driver("send", group=f"producer_{play}", messages=[said])
    queue = {"broker": "broker-a", "queueId": 0}
    said = message(f"{topic}_unread", b"body", **queue)
    [unread] = driver("send", group=f"producer_{play}", messages=[said])
    trace = message(TRACE_TOPIC, _trace(sent[1]["msgId"], topic, play), keys=sent[1]["msgId"])
    driver("send", group=f"producer_{play}", messages=[{**trace, **queue}])
    name = f"client_{play}"
    driver("consume", name=name, group=group, topics=[topic])
    wait_until(lambda: len(driver("consumed", name=name, count=6, timeoutMs=100)) == 6, what="read")
    driver("commit", name=name)
    with RawConnection(cluster.broker) as connection:
        for queue_id in (0, 1):
            place = {"consumerGroup": f"{group}_behind", "topic": topic, "queueId": queue_id}
            assert connection.ask(UPDATE_OFFSET, place | {"commitOffset": 1}).code == 0
    [client] = driver("consumers", group=group)["connectionSet"]
    names = {
        "play": play,
        "topic": topic,
        "group": group,
        "account": f"account_{play}",
        "client": client["clientId"],
        "broker": cluster.broker,
        "folder": str(folder),
        "id": sent[1]["msgId"],
        "offset_id": sent[1]["offsetMsgId"],
        "new_offset_id": unread["offsetMsgId"],
    }
    stage = Stage(play, cluster, folder, names)
    for words in (f"queryMsgByKey -t {topic} -k key1", f"QueryMsgTraceById -i {names['id']}"):
        wait_until(partial(_is_found, words, cluster), what="indexed")
    progress = f"consumerProgress -g {group}"
    wait_until(partial(_has_consumed, progress, cluster), what="committed")
    producer = {"clientID": "c1", "producerDataSet": [{"groupName": f"online_{play}"}]}
    try:
        with RawConnection(cluster.broker, language="JAVA", version=399) as connection:
            assert connection.ask(HEARTBEAT, body=json.dumps(producer).encode()).code == 0
            yield stage
    finally:
        driver("stopConsuming", name=name)
        for each in (topic, f"{topic}_unread"):
            wakelog_admin(["deleteTopic", "-c", "DefaultCluster", "-t", each], cluster)
        for each in (group, f"{group}_behind", f"{group}_clone"):
            wakelog_admin(["deleteSubGroup", "-c", "DefaultCluster", "-g", each], cluster)


def _is_found(words: str, cluster: Cluster) -> bool:
    try:
        return len(wakelog_admin(words.split(), cluster)) > 1
    except ClientError:
        return False


def _has_consumed(words: str, cluster: Cluster) -> bool:
    """Whether the group has nothing left to consume, and has committed its retry topic as well."""
    said = wakelog_admin(words.split(), cluster)
    return "Diff Total: 0" in said and any(line.startswith(RETRY_PREFIX) for line in said)


def _trace(message_id: str, topic: str, play: str) -> bytes:
    """Return the trace of one send and of one consumption."""
    send = ["Pub", "1700000000000", "region", f"producer_{play}", topic, message_id, "red", "key1"]
    send += ["127.0.0.1:10911", "4", "7", "0", "ID", "true", "127.0.0.1"]
    read = ["SubAfter", "request", message_id, "5", "true", "key1", "0", "1700000000001"]
    return "\x02".join("\x01".join(each) for each in (send, [*read, f"group_{play}"])).encode()


def perform(stage: Stage, tool: Tool) -> Said:
    """Return the words that each line of the play says, without what is bound to differ."""
    found = {}
    for number, text in enumerate(PLAY):
        lines = tool(stage.line(text))
        for line in list(lines):
            if match := re.search(r"Message Body Path: +(\S+)", line):
                Path(match[1]).unlink(missing_ok=True)
            if match := re.match(r"export (\S+) success", line):
                exported = _of_play(json.loads(Path(match[1]).read_text()), stage.play)
                lines.append(json.dumps(exported, sort_keys=True))
        said = "\n".join(plain(line, stage) for line in lines)
        found[f"{number}: {text}"] = words_of(said.splitlines())
    shutil.rmtree(stage.folder, ignore_errors=True)
    return found


def _of_play(value: Any, play: str) -> Any:
    """Leave out what other plays have made: names that end with their name."""
    if not isinstance(value, dict):
        return value
    return {
        key: _of_play(each, play)
        for key, each in value.items()
        if "_play" not in key or play in key
    }


def plain(line: str, stage: Stage) -> str:
    """Return a line with a word in the place of what is bound to differ.

    mqadmin leaves out the line break after some texts that end with a bracket.
    """
    line = re.sub(r"\](?=[A-Za-z])", "]\n", line.replace(str(stage.folder), "FOLDER"))
    for pattern, word in WORDS:
        line = re.sub(pattern, word, line)
    return line.replace(stage.play, "PLAY")


def words_of(lines: list[str]) -> list[list[str]]:
    """Return the words of the lines that have any; of JSON, which has other breaks, all as one."""
    if lines[:1] == ["{"]:
        return [["".join("".join(lines).split())]]
    return sorted(line.split() for line in lines if line.strip())
