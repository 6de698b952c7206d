"""A queue that is read for a person: merged by time, and filtered by the broker if it can."""

import asyncio
from typing import Any

import pytest

from tests.fakes.records import STORE_MS, record
from wakelog.client.admin import open_admin
from wakelog.client.broker_calls import Pulled
from wakelog.client.message_filter import make_filter
from wakelog.client.queue_puller import PULL_MAX, QueuePuller, merged
from wakelog.client.received import ReceivedMessage
from wakelog.client.route import QueueAt
from wakelog.client.sync import Producer
from wakelog.protocol.codes import ResponseCode
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_queues_are_merged_by_time_and_the_tag_is_checked() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("merged", queues=3)
        with Producer(broker.name_server, group="merging") as producer:
            for n in range(70):
                producer.send("merged", b"%d" % n, tags="even" if n % 2 == 0 else "odd")
        broker.wait_for_messages("merged", count=70)

        async def main() -> list[ReceivedMessage]:
            async with open_admin(broker.name_server) as admin:
                pullers = []
                for queue in await admin.queues("merged"):
                    begin, end = await admin.calls.range_of(queue)
                    accepts = make_filter("even", "")
                    pullers.append(QueuePuller(admin.calls, queue, begin, end, "even", accepts))
                return [each async for each in merged(pullers)]

        found = asyncio.run(main())
    assert sorted(int(each.body) for each in found) == list(range(0, 70, 2))
    times = [each.record.store_timestamp_ms for each in found]
    assert times == sorted(times) and times[0] < times[-1]


QUEUE = QueueAt("a", "T", 0, "a:10911")


class PulledQueue:
    """A broker with one queue, whose messages were stored at these ms; what it was asked."""

    def __init__(self, times_ms: list[int], first: int = 0, at_most: int = PULL_MAX) -> None:
        self.records = [
            record(0, queue_offset=first + n, store_timestamp_ms=at, body=b"%d" % (first + n))
            for n, at in enumerate(times_ms)
        ]
        self.first, self.at_most = first, at_most
        self.asked: list[tuple[int, int, str, str, int]] = []

    async def pull(
        self,
        queue: QueueAt,
        queue_offset: int,
        messages_max: int,
        expression: str = "*",
        *,
        hold_ms: int = 0,
        expression_type: str = "TAG",
    ) -> Pulled:
        assert queue == QUEUE
        self.asked.append((queue_offset, messages_max, expression, expression_type, hold_ms))
        end = self.first + len(self.records)
        if queue_offset < self.first:
            return Pulled(ResponseCode.PULL_OFFSET_MOVED, "", b"", self.first, self.first, end)
        begin = queue_offset - self.first
        found = self.records[begin : begin + min(messages_max, self.at_most)]
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_NOT_FOUND
        return Pulled(code, "", b"".join(found), queue_offset + len(found), self.first, end)


def puller(broker: Any, offset: int, end: int, **more: Any) -> QueuePuller:
    fields = {"tags": "", "accepts": lambda _: True, **more}
    return QueuePuller(broker, QUEUE, offset, end, **fields)


def offsets_of(found: list[ReceivedMessage]) -> list[int]:
    return [int(each.body) for each in found]


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({}, ("*", "TAG")),
        ({"tags": "a || b"}, ("a || b", "TAG")),
        ({"sql": "x > 1"}, ("x > 1", "SQL92")),
        ({"sql": "x > 1", "tags": "a"}, ("x > 1", "SQL92")),
    ],
)
def test_a_broker_is_asked_for_no_more_than_is_read(
    fields: dict[str, str], expression: tuple[str, str]
) -> None:
    async def main() -> None:
        broker = PulledQueue([STORE_MS] * 50)
        made, found = puller(broker, 3, 40, **fields), list[ReceivedMessage]()
        while await made.fill():
            found += made.messages
            made.messages.clear()
        assert offsets_of(found) == list(range(3, 40))
        assert broker.asked == [(3, PULL_MAX, *expression, 0), (35, 5, *expression, 0)]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "length", "offset", "end", "expected", "asked"),
    [
        (0, 4, 0, 4, [0, 1, 2, 3], [0]),
        (0, 4, 1, 3, [1, 2], [1]),
        (0, 4, 4, 4, [], []),
        (7, 2, 0, 9, [7, 8], [0, 7]),
        (9, 2, 0, 9, [], [0]),
        (0, 2, 0, 9, [0, 1], [0, 2]),
        (0, 0, 5, 9, [], [5]),
    ],
)
def test_a_queue_whose_ends_have_moved_is_read_to_what_is_left(
    first: int, length: int, offset: int, end: int, expected: list[int], asked: list[int]
) -> None:
    async def main() -> None:
        broker = PulledQueue([STORE_MS] * length, first)
        made = puller(broker, offset, end)
        assert offsets_of([each async for each in merged([made])]) == expected
        assert [each[0] for each in broker.asked] == asked
        assert made.offset >= end and not await made.fill()

    asyncio.run(main())


@pytest.mark.parametrize("hold_ms", [0, 1, 2_000])
def test_a_queue_without_a_new_message_is_waited_at(hold_ms: int) -> None:
    async def main() -> None:
        broker = PulledQueue([STORE_MS] * 2)
        made = puller(broker, 2, 1 << 62)
        assert await made.pull(hold_ms=hold_ms) == []
        assert broker.asked == [(2, PULL_MAX, "*", "TAG", hold_ms)]
        assert made.offset == (2 if hold_ms else 1 << 62)

    asyncio.run(main())


def test_only_messages_of_the_time_that_are_accepted_are_returned() -> None:
    async def main() -> None:
        broker = PulledQueue([STORE_MS + n for n in range(5)])
        fields = {"since_ms": STORE_MS + 2, "accepts": lambda each: each.body != b"3"}
        assert offsets_of(await puller(broker, 0, 5, **fields).pull()) == [2, 4]

    asyncio.run(main())


@pytest.mark.parametrize(
    "queues",
    [
        [[0, 3, 6], [1, 4], [2, 5, 7, 8, 9]],
        [[5, 6], [0, 1]],
        [[], [0, 1, 2]],
        [[0, 0, 1], [0, 1, 1]],
        [],
    ],
)
@pytest.mark.parametrize("at_most", [1, 2, PULL_MAX])
def test_messages_of_queues_come_by_their_time(queues: list[list[int]], at_most: int) -> None:
    async def main() -> None:
        brokers = [PulledQueue([STORE_MS + n for n in times], 0, at_most) for times in queues]
        pullers = [puller(each, 0, len(each.records)) for each in brokers]
        found = [each.record.store_timestamp_ms - STORE_MS async for each in merged(pullers)]
        assert found == sorted(n for times in queues for n in times)

    asyncio.run(main())
