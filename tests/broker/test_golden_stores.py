"""Stores of the real broker, served by ours: the answers have to be those in the manifests.

This is the only test of the broker core over the real store. What a request means to either is
tested apart.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.broker.harness import FakeChannel, Waiting, begun, pull_fields
from tests.golden_stores import open_golden
from wakelog.broker.broker import Broker
from wakelog.broker.config_file import read_broker_conf
from wakelog.broker.decision import Outcome
from wakelog.broker.effects import FilterPlace, InPool
from wakelog.protocol.bodies import (
    ConsumeQueueData,
    ConsumerData,
    HeartbeatData,
    QueryConsumeQueueResponseBody,
    SubscriptionData,
    decode_body,
)
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.record import decode_record
from wakelog.protocol.steps import Steps, finish
from wakelog.storage.errors import LacksVerdicts
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore

NAMES = [
    "basic",
    "batch",
    "delay_tx_retry",
    "filter_ext",
    "index_heavy",
    "ipv6",
    "multi_dispatch",
    "transient",
]
NOW_MS = 1_800_000_000_000
PHYSICAL_MEMORY_BYTES = 1 << 34

# What the client calls these codes, as in the manifests.
PULL_STATUSES = {
    ResponseCode.SUCCESS: "FOUND",
    ResponseCode.PULL_NOT_FOUND: "NO_NEW_MSG",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "NO_MATCHED_MSG",
    ResponseCode.PULL_OFFSET_MOVED: "OFFSET_ILLEGAL",
}


class Served:
    """A broker over an unpacked fixture."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        directory, self.manifest = open_golden(name, tmp_path)
        keys = self.manifest["brokerConfig"] | {"storePathRootDir": str(directory)}
        # The pool was the writer's; what it wrote are ordinary files.
        keys["transientStorePoolEnable"] = "false"
        settings = read_broker_conf("", overrides=keys)
        self.store = MessageStore.open(
            FileSystem(), settings.store, NOW_MS, physical_memory_bytes=PHYSICAL_MEMORY_BYTES
        )
        self.store.set_dispatched(self.store.max_physical_offset)
        self.broker = Broker(settings, self.store, NOW_MS)
        for file_name in self.broker.tables:
            path = directory / "config" / f"{file_name}.json"
            if path.exists():
                self.broker.load(file_name, path.read_text())

    def ask(self, code: int, fields: dict[str, str]) -> RemotingCommand:
        request = make_request(code, fields, opaque=1)
        outcome = begun(self.broker.process(request, FakeChannel(1), NOW_MS))
        while isinstance(outcome, Waiting):
            outcome = begun(_go_on(outcome), NOW_MS)
        assert isinstance(outcome, RemotingCommand)
        return outcome

    def number(self, code: int, name: str, **fields: object) -> int:
        response = self.ask(code, {key: str(value) for key, value in fields.items()})
        assert response.code == ResponseCode.SUCCESS, response
        return int(response.ext_fields[name])

    def pull(self, topic: str, queue_id: int, expected: dict[str, Any], expression: str) -> object:
        """Pull as the manifest says, and return what it says of the answer."""
        response = self.ask(
            RequestCode.PULL_MESSAGE,
            pull_fields(
                topic=topic,
                queueId=queue_id,
                queueOffset=expected["offset"],
                maxMsgNums=expected["maxNum"],
                subscription=expression,
            ),
        )
        fields = response.ext_fields
        return {
            "offset": expected["offset"],
            "maxNum": expected["maxNum"],
            "status": PULL_STATUSES[ResponseCode(response.code)],
            "nextBeginOffset": int(fields["nextBeginOffset"]),
            "minOffset": int(fields["minOffset"]),
            "maxOffset": int(fields["maxOffset"]),
            "suggestWhichBrokerId": int(fields["suggestWhichBrokerId"]),
            "commitLogOffsets": physical_offsets(response.body),
        }

    def knows(self, topic: str) -> bool:
        """Say whether the topic can be pulled: that of op messages is in no table."""
        return self.broker.state.topics.get(topic) is not None


def physical_offsets(body: bytes) -> list[int]:
    found, position = [], 0
    while position < len(body):
        record = decode_record(body, position)
        found.append(record.physical_offset)
        position += record.size_bytes
    return found


def test_each_group_gets_what_its_expression_wants(tmp_path: Path) -> None:
    served = Served("filter_ext", tmp_path)
    extra = served.manifest["extra"]
    topic = extra["subscribedTopic"]
    judged = 0
    for group, expected in extra["receivedCommitLogOffsets"].items():
        kept = served.broker.state.filters.get(topic, group)
        assert kept is not None and kept.is_dead
        assert kept.compiled.text == extra["subscriptions"][group]
        beat = HeartbeatData(
            "c1",
            [],
            [
                ConsumerData(
                    group,
                    subscription_data_set=[
                        SubscriptionData(
                            topic=topic,
                            sub_string=kept.compiled.text,
                            sub_version=kept.version,
                            expression_type="SQL92",
                        )
                    ],
                )
            ],
        )
        request = make_request(RequestCode.HEART_BEAT, {}, encode_body(beat), opaque=1)
        finish(cast(Steps[object], served.broker.process(request, FakeChannel(1), NOW_MS)))
        assert served.broker.state.filters.get(topic, group) is kept
        found = []
        for queue_id in range(4):
            offset = 0
            while True:
                fields = {"sysFlag": 0, "subscription": "", "subVersion": kept.version}
                place = {"topic": topic, "queueId": queue_id, "queueOffset": offset}
                response = served.ask(
                    RequestCode.PULL_MESSAGE, pull_fields(consumerGroup=group, **place, **fields)
                )
                found += physical_offsets(response.body)
                if response.code == ResponseCode.PULL_NOT_FOUND:
                    break
                offset = int(response.ext_fields["nextBeginOffset"])
            judged += offset
        assert sorted(found) == expected
    assert judged == 3 * sum(
        queue["maxOffset"] for queue in served.manifest["queues"] if queue["topic"] == topic
    )
    served.store.close(dispatch_behind_bytes=0)


@pytest.fixture(scope="module", params=NAMES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    made = Served(request.param, tmp_path_factory.mktemp("golden"))
    yield made
    made.broker.state.validate()
    made.store.close(dispatch_behind_bytes=0)


def test_pulls_of_everything(served: Served) -> None:
    compared = 0
    for queue in served.manifest["queues"]:
        for expected in queue["pulls"] + queue["extraPulls"]:
            topic, queue_id = queue["topic"], queue["queueId"]
            if served.knows(topic):
                assert served.pull(topic, queue_id, expected, "*") == expected, topic
                compared += 1
    assert compared > 0


def test_pulls_by_tag(served: Served) -> None:
    for queue in served.manifest.get("tagPulls") or []:
        for expected in queue["pulls"]:
            found = served.pull(queue["topic"], queue["queueId"], expected, queue["expr"])
            assert found == expected, queue["expr"]


def test_queries_by_key(served: Served) -> None:
    for query in served.manifest["queries"]:
        fields = {
            "topic": query["topic"],
            "key": query["key"],
            "maxNum": str(query["maxNum"]),
            "beginTimestamp": str(query["begin"]),
            "endTimestamp": str(query["end"]),
        }
        if query["unique"]:
            fields["_UNIQUE_KEY_QUERY"] = "true"
        response = served.ask(RequestCode.QUERY_MESSAGE, fields)
        assert response.code == query["code"], query
        assert physical_offsets(response.body) == query["commitLogOffsets"], query
        index = (
            int(response.ext_fields["indexLastUpdateTimestamp"]),
            int(response.ext_fields["indexLastUpdatePhyoffset"]),
        )
        expected = (query["indexLastUpdateTimestamp"], query["indexLastUpdatePhyoffset"])
        assert index == expected, query


def test_entries_of_consume_queues(served: Served) -> None:
    for queue in served.manifest.get("consumeQueueEntries") or []:
        shown: list[ConsumeQueueData] = []
        while len(shown) < len(queue["entries"]):
            fields = {
                "topic": queue["topic"],
                "queueId": str(queue["queueId"]),
                "index": str(queue["minOffset"] + len(shown)),
                "count": "1000",
            }
            response = served.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
            body = decode_body(QueryConsumeQueueResponseBody, response.body)
            ends = (body.min_queue_index, body.max_queue_index)
            assert ends == (queue["minOffset"], queue["maxOffset"])
            assert body.queue_data
            shown += body.queue_data
        found = [[d.physic_offset, d.physic_size, d.tags_code] for d in shown]
        assert found == queue["entries"], queue["topic"]
        for data, unit in zip(shown, queue.get("ext") or [], strict=False):
            expected = {k: v for k, v in unit.items() if k != "bitMap"}
            assert json.loads(data.extend_data_json or "") == expected
            assert data.bit_map == unit["bitMap"]


def _go_on(waiting: Waiting) -> Outcome | Waiting:
    """Do what a request waits for, and go on with it."""
    match waiting.effect:
        case InPool(work):
            try:
                result = work()
            except LacksVerdicts as lacking:
                return waiting.resume(error=lacking)
        case FilterPlace():
            result = int
        case _:
            result = ""
    return waiting.resume(result)
