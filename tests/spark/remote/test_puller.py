"""One range of a queue, pull after pull, of brokers that behave and that do not."""

import asyncio
import re
from typing import Any

import pytest

from tests.client.clusters import FakeCluster, messages
from tests.fakes.records import properties
from wakelog.client.route import QueueAt
from wakelog.compiled.layout import QUEUE_OFFSET
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.spark.errors import DataLost
from wakelog.spark.options import ReadOptions
from wakelog.spark.records.column_walk import RowOptions
from wakelog.spark.remote.pulled_walk import PulledWalk
from wakelog.spark.remote.puller import Puller
from wakelog.spark.remote.query import PulledRange

KEY = ("a", "T", 0)
AT = QueueAt(*KEY, "a:10911")
SMALL = ReadOptions(rows=RowOptions(batch_rows=50, batch_bytes=1 << 20), pull_count=1024)


class Reading:
    """The result of a range: offsets by batch, and the reported offsets."""

    def __init__(self, cluster: FakeCluster, begin: int, end: int, **values: Any) -> None:
        self.batches: list[list[int]] = []
        self.reported: list[int] = []
        options = SMALL._replace(**values)
        asyncio.run(self._run(cluster, PulledRange(AT, begin, end), options))

    async def _run(self, cluster: FakeCluster, part: PulledRange, options: ReadOptions) -> None:
        walk = PulledWalk()
        puller = Puller(cluster.calls(), part, options, report=self._report)
        try:
            while await puller.fill(walk):
                self.batches.append(walk.numbers[: walk.count, QUEUE_OFFSET].tolist())
        finally:
            await puller.close()

    def _report(self, queue_offset: int, reason: str) -> None:
        self.reported.append(queue_offset)

    @property
    def offsets(self) -> list[int]:
        return [offset for batch in self.batches for offset in batch]


def cluster(count: int = 200, *, first: int = 0, tags: str = "") -> FakeCluster:
    text = properties(TAGS=tags) if tags else b""
    found = FakeCluster({KEY: messages(count, first=first, properties=text)})
    found.first[KEY] = first
    return found


@pytest.mark.parametrize("span", [(0, 200), (0, 1), (33, 34), (10, 190), (200, 200)])
def test_a_range_is_pulled_whole_in_batches(span: tuple[int, int]) -> None:
    found = Reading(cluster(), *span)
    # The broker gives what it likes; rows behind the range are left out by its bounds.
    assert [x for x in found.offsets if x < span[1]] == list(range(*span))
    assert all(len(batch) >= SMALL.rows.batch_rows for batch in found.batches[:-1])


def test_a_batch_ends_with_its_bytes() -> None:
    size = len(messages(1)[0])
    rows = SMALL.rows._replace(batch_bytes=3 * size)
    reading = Reading(cluster(10), 0, 10, rows=rows, pull_count=2)
    assert [len(batch) for batch in reading.batches] == [4, 4, 2]


def test_tags_are_left_to_the_broker_and_offsets_without_a_message_passed_over() -> None:
    found = cluster(0)
    plain, tagged = messages(100), messages(200, properties=properties(TAGS="x"))
    found.queues[KEY] = plain + tagged[100:103] + messages(97, first=103)
    assert Reading(found, 0, 200, tags=("x", "y")).offsets == [100, 101, 102]
    assert Reading(found, 101, 102, tags=("x",)).offsets[:1] == [101]
    assert Reading(found, 110, 200, tags=("x",)).offsets == []


def test_the_next_pull_is_under_way_while_rows_are_made() -> None:
    found = cluster()

    async def run() -> int:
        puller = Puller(found.calls(), PulledRange(AT, 0, 200), SMALL, report=print)
        await puller.fill(PulledWalk())
        pulls = [code for _, code in found.asked].count(RequestCode.PULL_MESSAGE)
        await puller.close()
        return pulls

    assert asyncio.run(run()) == 3  # two for a batch of 64, and one ahead


LOST: list[tuple[str, int, int, str, list[int]]] = [
    ("expired", 3, 20, "offsets 3 to 10 of queue 0 of 'T' at a have expired", [*range(10, 20)]),
    ("all expired", 3, 8, "offsets 3 to 8 .* have expired", []),
    (
        "cut off",
        15,
        40,
        "offsets 30 to 40 .* are above its last, 30: the log was cut",
        [*range(15, 30)],
    ),
    ("far above", 35, 40, "offsets 35 to 40 .* are above its last, 30: the log was cut", []),
]


@pytest.mark.parametrize(
    ("name", "begin", "end", "message", "left"), LOST, ids=[x[0] for x in LOST]
)
def test_offsets_that_are_not_there(
    name: str, begin: int, end: int, message: str, left: list[int]
) -> None:
    found = cluster(20, first=10)
    with pytest.raises(DataLost, match=message):
        Reading(found, begin, end)
    offsets = Reading(found, begin, end, fail_on_data_loss=False).offsets
    assert [x for x in offsets if x < end] == left


def test_a_topic_that_was_deleted() -> None:
    found = cluster()
    found.queues = {("a", "U", 0): []}
    with pytest.raises(DataLost, match=r"offsets 0 to 9 .* are gone with their topic"):
        Reading(found, 0, 9)
    assert Reading(found, 0, 9, fail_on_data_loss=False).offsets == []


def removing(remark: str, offset: int, next_offset: int) -> RemotingCommand:
    places = {"nextBeginOffset": next_offset, "minOffset": 0, "maxOffset": 200}
    fields = {"suggestWhichBrokerId": "0", **{k: str(v) for k, v in places.items()}}
    request = RemotingCommand(int(RequestCode.PULL_MESSAGE))
    return answer(request, ResponseCode.PULL_RETRY_IMMEDIATELY, remark, ext_fields=fields)


def test_messages_that_are_being_removed_are_lost() -> None:
    found = cluster()
    found.fail = lambda address, command: (
        removing("MESSAGE_WAS_REMOVING", 0, 40)
        if command.ext_fields.get("queueOffset") == "0"
        else None
    )
    with pytest.raises(DataLost, match=r"offsets 0 to 40 .* have expired"):
        Reading(found, 0, 200)
    assert Reading(found, 0, 200, fail_on_data_loss=False).offsets == list(range(40, 200))


def test_messages_that_are_missing_among_others_are_lost() -> None:
    found = cluster()

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.ext_fields.get("queueOffset") != "0":
            return None
        places = {"nextBeginOffset": 32, "minOffset": 0, "maxOffset": 200}
        fields = {"suggestWhichBrokerId": "0", **{k: str(v) for k, v in places.items()}}
        body = b"".join(messages(22, first=10))
        return answer(command, ResponseCode.SUCCESS, "FOUND", ext_fields=fields, body=body)

    found.fail = fail
    with pytest.raises(DataLost, match=r"10 of the messages from offset 0 to 64 .* have expired"):
        Reading(found, 0, 200)
    assert Reading(found, 0, 200, fail_on_data_loss=False).offsets == list(range(10, 200))


@pytest.mark.parametrize("bad", [0, 31, 32, 70, 199])
@pytest.mark.parametrize("tags", [(), ("x",)])
def test_a_damaged_record_is_passed_over_with_a_word(bad: int, tags: tuple[str, ...]) -> None:
    found = cluster(tags="x")
    broken = bytearray(found.queues[KEY][bad])
    broken[0:8] = b"damaged!"
    found.queues[KEY][bad] = bytes(broken)
    reading = Reading(found, 0, 200, tags=tags)
    assert reading.offsets == [x for x in range(200) if x != bad]
    assert reading.reported == [bad]


def test_an_answer_that_leads_nowhere_does_not_hang() -> None:
    found = cluster()
    found.fail = lambda address, command: removing("NO_MATCHED_MESSAGE", 0, 0)
    with pytest.raises(DataLost, match=re.escape("offsets 0 to 1 of queue 0")):
        Reading(found, 0, 5)
