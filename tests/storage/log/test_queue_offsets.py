"""The next offset of each queue, and of the queues that multi dispatch names."""

import pytest

from wakelog.protocol.properties import decode_properties
from wakelog.storage.errors import IllegalName
from wakelog.storage.log.queue_offsets import QueueOffsets, TopicClosed, multi_dispatch_keys


def test_a_queue_starts_at_zero_and_advances() -> None:
    offsets = QueueOffsets({("T", 0): 7}, enable_lmq=False)
    assert offsets.get_or_add(("T", 0)) == 7
    assert offsets.get_or_add(("T", 1)) == 0
    offsets.advance(("T", 1), 3)
    assert offsets.get(("T", 1)) == 3
    assert offsets.get(("U", 0)) == 0
    assert list(map(offsets.find, [("T", 1), ("U", 0), ("T", 0)])) == [3, None, 7]
    offsets.grown.clear()
    offsets.advance_all([("T", 1), ("V", 0), ("T", 0)], [2, 0, 1])
    assert list(map(offsets.find, [("T", 1), ("V", 0), ("T", 0)])) == [5, None, 8]
    assert offsets.grown == {"T"}
    assert offsets.queues() == [("T", 0), ("T", 1)]


def test_a_closed_topic_gets_no_queue() -> None:
    offsets = QueueOffsets({("T", 0): 7, ("T", 1): 3, ("U", 0): 2, ("U", 1): 5}, enable_lmq=False)
    found = offsets.close(("T", "Never"), {("U", 0): 2, ("U", 1): 4, ("V", 0): 0})
    assert set(found) == {("T", 0), ("T", 1), ("U", 0)}
    assert [offsets.is_closed(topic) for topic in "TUV"] == [True, True, False]
    for key in (("T", 0), ("T", 9), ("U", 0)):
        with pytest.raises(TopicClosed):
            offsets.get_or_add(key)
    assert offsets.get_or_add(("U", 1)) == 5
    offsets.open(("T",), removed=True)
    offsets.open(("U",), removed=False)
    assert offsets.get_or_add(("T", 0)) == 0
    assert offsets.get_or_add(("U", 0)) == 2


def test_light_queues_are_counted() -> None:
    offsets = QueueOffsets({("%LMQ%a", 0): 7, ("T", 0): 3}, enable_lmq=True)
    for name in ("%LMQ%b", "%LMQ%b", "U"):
        offsets.get_or_add((name, 0))
    assert offsets.light_count == 2
    offsets.close(("%LMQ%a", "%LMQ%b"), {})
    assert offsets.light_count == 0
    offsets.open(("%LMQ%a",), removed=True)
    offsets.open(("%LMQ%b",), removed=False)
    assert offsets.light_count == 1


@pytest.mark.parametrize("key", [("../etc", 0), ("T", -1), ("", 0)])
def test_a_name_that_must_not_be_a_path_opens_no_queue(key: tuple[str, int]) -> None:
    table: dict[tuple[str, int], int] = {}
    with pytest.raises(IllegalName):
        QueueOffsets(table, enable_lmq=False).get_or_add(key)
    assert table == {}


@pytest.mark.parametrize(
    ("names", "enable_lmq", "keys"),
    [
        ("%LMQ%a,%LMQ%b", True, [("%LMQ%a", 0), ("%LMQ%b", 0)]),
        ("%LMQ%a,other", True, [("%LMQ%a", 0), ("other", 3)]),
        ("%LMQ%a", False, [("%LMQ%a", 3)]),
        ("a,,b,,", True, [("a", 3), ("", 3), ("b", 3)]),
    ],
)
def test_only_light_queues_have_queue_zero(
    names: str, enable_lmq: bool, keys: list[tuple[str, int]]
) -> None:
    assert multi_dispatch_keys(names, 3, enable_lmq=enable_lmq) == keys


def test_offsets_are_noted_in_the_order_of_the_names() -> None:
    offsets = QueueOffsets({("%LMQ%a", 0): 5, ("%LMQ%b", 0): 11}, enable_lmq=True)
    text = "WAIT\x01true\x02INNER_MULTI_DISPATCH\x01%LMQ%b,%LMQ%new,%LMQ%a\x02TAGS\x01t"
    stored, keys = offsets.add_further_offsets(text, 2)
    assert decode_properties(stored) == {
        "INNER_MULTI_DISPATCH": "%LMQ%b,%LMQ%new,%LMQ%a",
        "INNER_MULTI_QUEUE_OFFSET": "11,0,5",
        "TAGS": "t",
    }
    assert keys == {("%LMQ%a", 0), ("%LMQ%b", 0), ("%LMQ%new", 0)}
    assert offsets.get(("%LMQ%a", 0)) == 5  # placing the message moves it, not this


@pytest.mark.parametrize("text", ["", "TAGS\x01INNER_MULTI_DISPATCH", "INNER_MULTI_DISPATCH\x01 "])
def test_a_message_without_further_queues_is_left_alone(text: str) -> None:
    assert QueueOffsets({}, enable_lmq=True).add_further_offsets(text, 0) == (text, set())


def test_an_illegal_further_queue_is_refused() -> None:
    with pytest.raises(IllegalName):
        QueueOffsets({}, enable_lmq=True).add_further_offsets("INNER_MULTI_DISPATCH\x01%LMQ%a/b", 0)


def test_topics_that_grow_are_noted() -> None:
    offsets = QueueOffsets({("T", 0): 7, ("U", 0): 2}, enable_lmq=False)
    offsets.get_or_add(("V", 0))
    assert offsets.grown == set()
    for key in (("T", 0), ("T", 1), ("V", 0)):
        offsets.get_or_add(key)
        offsets.advance(key)
    assert offsets.grown == {"T", "V"}
