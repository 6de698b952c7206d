"""Ranges cut into tasks."""

from __future__ import annotations

import pytest

from wakelog.client.route import QueueAt
from wakelog.spark.remote.plan import PulledRange, cut

QUEUES = [QueueAt("a", "T", queue_id, "a:1") for queue_id in range(3)]


@pytest.mark.parametrize(
    ("records_max", "partitions_min", "sizes"),
    [
        (None, 1, [100, 10]),
        (None, 4, [28, 28, 28, 16, 10]),
        (30, 1, [30, 30, 30, 10, 10]),
        (1, 1, [1] * 110),
    ],
)
def test_pieces_cover_each_queue_once(
    records_max: int | None, partitions_min: int, sizes: list[int]
) -> None:
    spans = [(5, 105), (7, 7), (0, 10)]
    ranges = [PulledRange(at, *span) for at, span in zip(QUEUES, spans, strict=True)]
    pieces = cut(ranges, records_max=records_max, partitions_min=partitions_min)
    assert [piece.end - piece.begin for piece in pieces] == sizes
    for part in ranges:
        own = [x for piece in pieces if piece.queue == part.queue for x in range(*piece[1:])]
        assert own == list(range(*part[1:]))


def test_nothing_to_read_is_no_task() -> None:
    assert cut([PulledRange(QUEUES[0], 5, 5)], records_max=None, partitions_min=4) == []


def test_a_queue_knows_its_key() -> None:
    assert QUEUES[2].key == ("a", "T", 2)
