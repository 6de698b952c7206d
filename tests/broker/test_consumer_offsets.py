"""Committed offsets and their file (facts 38 and 39)."""

from collections.abc import Iterator

import pytest

from tests.calls import count_calls
from wakelog.broker.consumer_offsets import NO_OFFSET, PAIR_BYTES, ConsumerOffsets
from wakelog.broker.copy_on_write_map import BLOCK_ENTRIES
from wakelog.broker.error_response import LimitReached
from wakelog.broker.table_limits import TableLimits
from wakelog.protocol.steps import finish


@pytest.fixture
def offsets() -> Iterator[ConsumerOffsets]:
    table = ConsumerOffsets()
    yield table
    table.validate()


def test_an_offset_is_kept_by_group_topic_and_queue(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 10)
    offsets.commit("g", "T", 1, 20)
    offsets.commit("h", "T", 0, 30)
    assert sorted(offsets.committed()) == [("g", "T", {0: 10, 1: 20}), ("h", "T", {0: 30})]
    assert offsets.query("h", "T", 0) == 30


@pytest.mark.parametrize(
    ("group", "topic", "queue_id"), [("h", "T", 0), ("g", "U", 0), ("g", "T", 1)]
)
def test_there_is_no_offset_elsewhere(
    offsets: ConsumerOffsets, group: str, topic: str, queue_id: int
) -> None:
    offsets.commit("g", "T", 0, 10)
    assert offsets.query(group, topic, queue_id) == NO_OFFSET


def test_the_last_writer_wins_even_with_less(offsets: ConsumerOffsets) -> None:
    """Fact 38."""
    offsets.commit("g", "T", 0, 10)
    offsets.commit("g", "T", 0, 3)
    assert offsets.query("g", "T", 0) == 3
    assert offsets.statistics()["backward_count"] == 1


def test_the_go_clients_minus_one_counts_as_no_offset(offsets: ConsumerOffsets) -> None:
    """Section 12: after code 22 the Go client may commit -1."""
    offsets.commit("g", "T", 0, -1)
    assert offsets.query("g", "T", 0) == NO_OFFSET


def test_the_same_offset_again_needs_no_write(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 10)
    offsets.snapshot()
    assert not offsets.dirty
    offsets.commit("g", "T", 0, 10)
    assert not offsets.dirty
    offsets.commit("g", "T", 0, 11)
    assert offsets.dirty


def test_the_file_is_laid_out_as_upstream_writes_it(offsets: ConsumerOffsets) -> None:
    offsets.commit("retry_group", "RetryTopic", 0, 6)
    offsets.commit("retry_group", "RetryTopic", 1, 15)
    offsets.commit("retry_group", "%RETRY%retry_group", 0, 51)
    assert offsets.snapshot()() == (
        '{\n\t"offsetTable":{\n'
        '\t\t"RetryTopic@retry_group":{0:6,1:15\n\t\t},\n'
        '\t\t"%RETRY%retry_group@retry_group":{0:51\n\t\t}\n'
        "\t}\n}"
    )


def test_a_file_is_read_back(offsets: ConsumerOffsets) -> None:
    offsets.commit("g", "T", 0, 6)
    offsets.commit("g", "U", 3, 7)
    read = ConsumerOffsets()
    read.load(offsets.snapshot()())
    assert read.snapshot()() == offsets.snapshot()()
    assert not read.dirty
    read.validate()


def test_quoted_queue_ids_are_read_too(offsets: ConsumerOffsets) -> None:
    offsets.load('{"offsetTable":{"T@g":{"0":6}}}')
    assert offsets.query("g", "T", 0) == 6


def test_copies_share_offsets_and_none_sees_a_later_commit(offsets: ConsumerOffsets) -> None:
    expected = []
    copies = []
    for number in range(4):
        offsets.commit("g", "T", 0, number)
        offsets.commit("g", "T", number, number)
        offsets.commit(f"g{number}", "U", 0, number)
        offsets.clone("g", "cloned", "T")
        expected.append(offsets.snapshot()())
        copies += [offsets.snapshot(), offsets.snapshot()]
        offsets.commit("cloned", "T", 0, 100 + number)
        if number == 2:
            finish(offsets.remove("g"))
    assert [encode() for encode in copies[::2]] == expected
    assert [encode() for encode in copies[1::2]] == expected


def test_many_offsets_of_a_group_are_removed_in_steps_of_two_requests(
    offsets: ConsumerOffsets,
) -> None:
    for number in range(1_000):
        offsets.commit("g", f"T{number}", 0, 1)
    first, second = offsets.remove("g"), offsets.remove("g")
    next(first)
    next(second)
    offsets.validate()
    assert 0 < offsets.queue_count < 1_000
    offsets.commit("g", "T0", 1, 1)
    finish(second)
    finish(first)
    assert offsets.topics_of("g") == ["T0"]
    offsets.commit("g", "T1", 0, 1)


def test_a_copy_of_many_offsets_copies_none_of_them(offsets: ConsumerOffsets) -> None:
    for queue_id in range(1_000):
        offsets.commit("g", "T", queue_id, 1)
    _, _, before = next(offsets.committed())
    offsets.snapshot()
    _, _, shared = next(offsets.committed())
    assert shared is before
    offsets.commit("g", "T", 0, 2)
    _, _, own = next(offsets.committed())
    offsets.commit("g", "T", 1, 2)
    _, _, again = next(offsets.committed())
    assert shared is not own is again, "the first commit after it copies those of one pair"
    assert shared[0] == 1


def test_a_save_of_many_pairs_copies_a_list_of_their_blocks(offsets: ConsumerOffsets) -> None:
    for number in range(4 * BLOCK_ENTRIES):
        offsets.commit(f"g{number}", "T", 0, number)
    calls = count_calls(offsets.snapshot)
    assert calls < 30, "none for each pair"
    assert count_calls(lambda: offsets.commit("g7", "T", 0, 9)) < 30


def test_the_groups_of_a_topic_are_found_in_steps(offsets: ConsumerOffsets) -> None:
    for number in range(8 * BLOCK_ENTRIES):
        offsets.commit(f"g{number}", f"T{number % 2}", 0, number)
    steps = offsets.groups_of("T1")
    assert sum(1 for _ in steps) == 7
    assert len(finish(offsets.groups_of("T1"))) == 4 * BLOCK_ENTRIES


def test_a_snapshot_has_the_offsets_of_then(
    offsets: ConsumerOffsets,
) -> None:
    """A later one may count messages that are not durable yet."""
    offsets.commit("g", "T", 0, 6)
    encode = offsets.snapshot()
    offsets.commit("g", "T", 0, 7)
    offsets.commit("other", "T", 0, 1)
    text = encode()
    assert ":{0:6" in text and "other" not in text
    assert offsets.dirty, "the next file has it all"


def test_an_empty_table_is_a_file_too(offsets: ConsumerOffsets) -> None:
    assert offsets.snapshot()() == '{\n\t"offsetTable":{}\n}'
    offsets.load("{}")
    assert offsets.statistics()["queue_count"] == 0


def test_a_queue_above_the_limit_is_refused() -> None:
    offsets = ConsumerOffsets(limits=TableLimits(committed_offsets=1))
    offsets.commit("g", "T", 0, 1)
    with pytest.raises(LimitReached, match="at most 1 queues"):
        offsets.commit("g", "T", 1, 1)
    offsets.commit("g", "T", 0, 2)
    assert list(offsets.committed()) == [("g", "T", {0: 2})]
    assert offsets.statistics()["refused_count"] == 1


@pytest.mark.parametrize("prefix", ["", "%LMQ%"])
def test_names_above_the_limit_are_refused(prefix: str) -> None:
    """A million pairs of the longest names took a GB, and their file was 400 MB every 5 s."""
    bytes_max = 2 * (PAIR_BYTES + len(f"{prefix}g{prefix}T"))
    offsets = ConsumerOffsets(lmq=True, limits=TableLimits(committed_pair_bytes=bytes_max))
    offsets.commit(f"{prefix}g", f"{prefix}T", 0, 1)
    with pytest.raises(LimitReached, match=f"at most {bytes_max} bytes of topics and groups"):
        offsets.commit(f"{prefix}g", f"{prefix}T" + "x" * 50, 0, 1)
    offsets.commit(f"{prefix}g", f"{prefix}T", 1, 2)
    offsets.commit(f"{prefix}g", f"{prefix}U", 0, 1)
    offsets.validate()
    assert offsets.statistics()["group_topic_count"] == 2
    if not prefix:
        with pytest.raises(LimitReached):
            offsets.clone("g", "other", "T")
        finish(offsets.remove("g"))
        offsets.commit("g", "T" + "x" * 50, 0, 1)
        offsets.validate()


def test_light_groups_have_one_offset_and_a_file_of_their_own() -> None:
    offsets = ConsumerOffsets(lmq=True)
    offsets.commit("%LMQ%g", "%LMQ%q", 0, 9)
    offsets.commit("g", "T", 0, 4)
    assert offsets.query("%LMQ%g", "%LMQ%q", 7) == 9
    assert list(offsets.committed()) == [("g", "T", {0: 4})]
    assert offsets.file_name == "lmqConsumerOffset"
    text = offsets.snapshot()()
    assert '"lmqOffsetTable":{\n\t\t"%LMQ%q@%LMQ%g":9' in text
    read = ConsumerOffsets(lmq=True)
    read.load(text)
    assert read.snapshot()() == text
    read.validate()
