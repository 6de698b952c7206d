"""The queues of a query, the position of a time in a queue, and the bounds of each queue."""

import asyncio

import pytest

from tests.client.clusters import FakeCluster, Queue, messages
from tests.fakes.records import STORE_MS
from tests.spark.remote.conftest import options
from wakelog.spark.errors import DataLost, OptionError, SourceError
from wakelog.spark.remote.queues import find_queues, find_spans


def seen(cluster: FakeCluster, **given: str) -> dict[Queue, tuple[int, int]]:
    view = asyncio.run(find_queues(cluster.calls(), options(**given)))
    return {key: (queue.range.begin, queue.range.end) for key, queue in view.items()}


def test_options_choose_topics_brokers_and_queues() -> None:
    queues: dict[Queue, list[bytes]] = {
        ("a", "T", 0): messages(3),
        ("a", "T", 1): [],
        ("b", "T", 0): messages(2, first=4),
        ("a", "U", 0): [],
        ("a", "%RETRY%g", 0): messages(1),
        ("a", "TBW102", 0): [],
    }
    cluster = FakeCluster(queues)
    cluster.first["b", "T", 0] = 4
    users = {("a", "T", 0): (0, 3), ("a", "T", 1): (0, 0), ("b", "T", 0): (4, 6)}
    users["a", "U", 0] = (0, 0)
    assert seen(cluster) == users
    assert seen(cluster, topic="U") == {("a", "U", 0): (0, 0)}
    assert seen(cluster, subscribePattern="T.*").keys() == users.keys() - {("a", "U", 0)}
    assert seen(cluster, assign='{"T":{"a":[1,7]}}').keys() == {("a", "T", 1)}
    both = {"includeRetry": "true", "includeSystemTopics": "true"}
    assert seen(cluster, **both).keys() == queues.keys()
    assert seen(FakeCluster(queues, perm=2)) == {}


def test_a_topic_that_is_not_there_is_data_lost() -> None:
    cluster = FakeCluster({("a", "orders", 0): []})
    with pytest.raises(DataLost, match=r"'order' is at no broker .* did you mean 'orders'"):
        seen(cluster, topic="orders,order")
    assert (
        seen(cluster, topic="orders,order", failOnDataLoss="false").keys() == cluster.queues.keys()
    )


A0, A1, B0 = ("a", "T", 0), ("a", "T", 1), ("b", "T", 0)
LATER = str(STORE_MS + 60_000)


def three_queues() -> FakeCluster:
    """Return queues of offsets 5 to 10, 0 to 20, and none; a second lies between messages."""
    found = FakeCluster({A0: messages(5, first=5), A1: messages(20, queue_id=1), B0: []})
    found.first[A0] = 5
    found.committed = {("g", *A0): 7, ("g", *A1): 3, ("old", *A0): 2}
    return found


def bounds(
    given: dict[str, str], cluster: FakeCluster | None = None
) -> dict[Queue, tuple[int, int]]:
    async def run() -> dict[Queue, tuple[int, int]]:
        calls, read = (cluster or three_queues()).calls(), options(**{"topic": "T", **given})
        return await find_spans(calls, read, await find_queues(calls, read))

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


WRONG: list[tuple[dict[str, str], type[SourceError], str]] = [
    ({"startingOffsets": '{"T":{"a":{"0":2}}}'}, DataLost, "offset 2 of queue 0 .* has expired"),
    ({"startingOffsets": '{"T":{"a":{"0":11}}}'}, DataLost, "is above its last, 10"),
    ({"startingOffsets": '{"T":{"a":{"7":1}}}'}, DataLost, "queue 7 of 'T' at a is not there"),
    ({"startingOffsets": '{"T":{"c":{"0":1}}}'}, OptionError, "no broker is called 'c'.* a, b"),
    ({"startingOffsets": '{"U":{"a":{"0":1}}}'}, OptionError, "which is not subscribed"),
    ({"startingOffsets": '{"T":{"a":{"0":-3}}}'}, OptionError, "-3 of T is none of these"),
    ({"endingOffsets": '{"T":{"a":{"0":-2}}}'}, OptionError, "-2 of T is none of these"),
    ({"endingOffsets": "earliest"}, OptionError, "no message would be read"),
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
def test_the_error_of_positions_that_cannot_be_read(
    given: dict[str, str], error: type[SourceError], message: str
) -> None:
    with pytest.raises(error, match=message):
        bounds(given)


def test_a_group_without_committed_offsets_is_an_error() -> None:
    found = FakeCluster({A0: messages(5, first=5)})
    found.first[A0] = 5
    with pytest.raises(OptionError, match="'unknown' has committed no offset of these topics"):
        bounds({"startingOffsetsFromGroup": "unknown"}, found)
