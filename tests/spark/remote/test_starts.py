"""Offsets, times and groups as bounds of queues."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.records import STORE_MS
from tests.spark.remote.clusters import FakeCluster, Queue, messages, options
from wakelog.spark.errors import DataLost, OptionError, SourceError
from wakelog.spark.remote.cluster import look
from wakelog.spark.remote.starts import select_queues

A0, A1, B0 = ("a", "T", 0), ("a", "T", 1), ("b", "T", 0)
LATER = str(STORE_MS + 60_000)


def cluster() -> FakeCluster:
    """Return queues of offsets 5 to 10, 0 to 20, and none; a second lies between messages."""
    found = FakeCluster({A0: messages(5, first=5), A1: messages(20, queue_id=1), B0: []})
    found.first[A0] = 5
    found.committed = {("g", *A0): 7, ("g", *A1): 3, ("old", *A0): 2}
    return found


def bounds(given: dict[str, str], *, stream: bool = False) -> dict[Queue, tuple[int, int]]:
    async def run() -> dict[Queue, tuple[int, int]]:
        calls, read = cluster().calls(), options(**{"topic": "T", **given})
        found = await select_queues(calls, read, await look(calls, read), stream=stream)
        return {key: (x.queue_begin, x.queue_end) for key, x in found.queues.items()}

    return asyncio.run(run())


SECOND_8 = str(STORE_MS + 8000)
CASES: list[tuple[dict[str, str], tuple[int, int], tuple[int, int]]] = [
    ({}, (5, 10), (0, 20)),
    ({"startingOffsets": "latest"}, (10, 10), (20, 20)),
    ({"startingOffsets": '{"T":{"a":{"0":6}}}'}, (6, 10), (0, 20)),
    ({"startingOffsets": '{"T":{"a":{"0":-1,"1":-2}}}'}, (10, 10), (0, 20)),
    ({"endingOffsets": '{"T":{"a":{"0":6,"1":-1}}}'}, (5, 6), (0, 20)),
    ({"endingOffsets": '{"T":{"a":{"0":3}}}'}, (5, 5), (0, 20)),
    ({"startingTimestamp": SECOND_8}, (8, 10), (8, 20)),
    ({"endingTimestamp": SECOND_8}, (5, 8), (0, 8)),
    ({"startingOffsetsByTimestamp": f'{{"T":{{"a":{{"1":{SECOND_8}}}}}}}'}, (5, 10), (8, 20)),
    ({"endingOffsetsByTimestamp": f'{{"T":{{"a":{{"1":{LATER}}}}}}}'}, (5, 10), (0, 20)),
    ({"startingOffsetsFromGroup": "g"}, (7, 10), (3, 20)),
    ({"startingOffsets": '{"T":{"a":{"0":2}}}', "failOnDataLoss": "false"}, (5, 10), (0, 20)),
    ({"startingOffsetsFromGroup": "old", "failOnDataLoss": "false"}, (5, 10), (0, 20)),
]


@pytest.mark.parametrize(("given", "first", "second"), CASES)
def test_bounds_of_queues(
    given: dict[str, str], first: tuple[int, int], second: tuple[int, int]
) -> None:
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert bounds(given | strategy) == {A0: first, A1: second, B0: (0, 0)}


def test_a_stream_begins_with_what_comes_next() -> None:
    assert bounds({}, stream=True) == {A0: (10, 10), A1: (20, 20), B0: (0, 0)}


WRONG: list[tuple[dict[str, str], type[SourceError], str]] = [
    ({"startingOffsets": '{"T":{"a":{"0":2}}}'}, DataLost, "offset 2 of queue 0 .* has expired"),
    ({"startingOffsets": '{"T":{"a":{"0":11}}}'}, DataLost, "is above its last, 10"),
    ({"startingOffsets": '{"T":{"a":{"7":1}}}'}, DataLost, "queue 7 of 'T' at a is not there"),
    ({"startingOffsets": '{"T":{"c":{"0":1}}}'}, OptionError, "no broker is called 'c'.* a, b"),
    ({"startingOffsets": '{"U":{"a":{"0":1}}}'}, OptionError, "which is not subscribed"),
    ({"startingOffsets": '{"T":{"a":{"0":-3}}}'}, OptionError, "-3 of T is no offset"),
    ({"endingOffsets": '{"T":{"a":{"0":-2}}}'}, OptionError, "-2 of T is no offset"),
    ({"endingOffsets": "earliest"}, OptionError, "nothing would be read"),
    ({"startingTimestamp": LATER}, OptionError, "a has no message of that time or later"),
    (
        {"startingOffsetsByTimestamp": f'{{"T":{{"a":{{"1":{LATER}}}}}}}'},
        OptionError,
        "queue 1 of 'T' at a has no message",
    ),
    ({"startingOffsetsFromGroup": "old"}, DataLost, "offset 2 of queue 0 .* has expired"),
    (
        {"startingOffsetsFromGroup": "g", "startingOffsets": "earliest"},
        OptionError,
        "exclude one another",
    ),
]


@pytest.mark.parametrize(("given", "error", "message"), WRONG)
def test_what_cannot_be(given: dict[str, str], error: type[SourceError], message: str) -> None:
    with pytest.raises(error, match=message):
        bounds(given)


def test_a_group_that_no_broker_knows() -> None:
    found = FakeCluster({A0: messages(5, first=5)})
    found.first[A0] = 5

    async def run() -> None:
        read = options(topic="T", startingOffsetsFromGroup="nobody")
        await select_queues(found.calls(), read, await look(found.calls(), read))

    with pytest.raises(OptionError, match="'nobody' has committed no offset of these topics"):
        asyncio.run(run())
