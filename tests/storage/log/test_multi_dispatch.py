"""Further queues of a message."""

import pytest

from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.multi_dispatch import MultiTarget, multi_targets


@pytest.mark.parametrize(
    ("names", "offsets", "expected"),
    [
        (None, None, []),
        ("a", None, []),
        (" ", "1", []),
        ("a", "1", [("a", 7, 1)]),
        ("%LMQ%a,b", "1,2", [("%LMQ%a", 0, 1), ("b", 7, 2)]),
        ("a,b,,", "1,2,", [("a", 7, 1), ("b", 7, 2)]),
        ("a,b", "1", []),
        ("a,b", "1,2,3", []),
        ("a", "x", []),
        ("a", "9223372036854775808", []),
        ("a", "-3", [("a", 7, -3)]),
    ],
)
def test_table(names: str | None, offsets: str | None, expected: list[MultiTarget]) -> None:
    properties = {}
    if names is not None:
        properties["INNER_MULTI_DISPATCH"] = names
    if offsets is not None:
        properties["INNER_MULTI_QUEUE_OFFSET"] = offsets
    assert multi_targets(properties, 7, enable_lmq=True) == expected


def test_light_queues_are_queue_0_only_where_they_are_enabled() -> None:
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "1"}
    assert multi_targets(properties, 7, enable_lmq=False) == [("%LMQ%a", 7, 1)]


def test_a_put_ends_after_its_record() -> None:
    request = DispatchRequest("T", 1, 2, 1000, 91, 0, 0, 0, 0, None, None, {})
    assert request.physical_offset_end == 1091
