"""Committed offsets and their file (facts 38 and 39)."""

from collections.abc import Callable, Iterator
from random import Random

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


OFFSETS_MAX, BYTES_MAX = 9, 5 * (PAIR_BYTES + len("g0T0"))


class PlainOffsets:
    """Offsets by group and topic in plain tables, with the same limits."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, str], dict[int, int]] = {}
        self.light: dict[tuple[str, str], int] = {}
        self.counts = {"commit_count": 0, "backward_count": 0, "refused_count": 0}

    def count(self) -> int:
        return sum(map(len, self.table.values()))

    def has_room(self, count: int, new: tuple[str, str] | None) -> bool:
        pairs = [*self.table, *self.light, *([new] if new else [])]
        size_bytes = sum(PAIR_BYTES + len(group) + len(topic) for group, topic in pairs)
        has_room = count <= OFFSETS_MAX and (new is None or size_bytes <= BYTES_MAX)
        self.counts["refused_count"] += not has_room
        return has_room

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether there was room."""
        self.counts["commit_count"] += 1
        pair = group, topic
        if group == "%LMQ%g":
            if pair not in self.light and not self.has_room(len(self.light) + 1, pair):
                return False
            self.light[pair] = offset
            return True
        queues = self.table.get(pair, {})
        if queue_id not in queues:
            if not self.has_room(self.count() + 1, None if queues else pair):
                return False
        else:
            self.counts["backward_count"] += offset < queues[queue_id]
        self.table.setdefault(pair, {})[queue_id] = offset
        return True

    def clone(self, group: str, to_group: str, topic: str) -> bool:
        """Return whether there was room, or nothing to do."""
        queues, replaced = self.table.get((group, topic), {}), self.table.get((to_group, topic), {})
        more, new = len(queues) - len(replaced), None if replaced else (to_group, topic)
        if more > 0 and not self.has_room(self.count() + more, new):
            return False
        if queues:
            self.table[to_group, topic] = dict(queues)
        return True

    def restore(self, group: str, topic: str, ours: dict[int, int], before: dict[int, int]) -> None:
        for queue_id in sorted(ours.keys() | before.keys()):
            now = self.table.get((group, topic), {})
            if now.get(queue_id, NO_OFFSET) != ours.get(queue_id, NO_OFFSET):
                continue
            if queue_id in before:
                self.commit(group, topic, queue_id, before[queue_id])
            else:
                del now[queue_id]
                self.table = {pair: queues for pair, queues in self.table.items() if queues}

    def remove(self, group: str) -> dict[str, dict[int, int]]:
        removed = {topic: queues for (name, topic), queues in self.table.items() if name == group}
        self.table = {pair: queues for pair, queues in self.table.items() if pair[0] != group}
        return removed


class Twins:
    """Offsets beside plain ones."""

    def __init__(self, seed: int) -> None:
        self.random, self.plain = Random(seed), PlainOffsets()
        limits = TableLimits(committed_offsets=OFFSETS_MAX, committed_pair_bytes=BYTES_MAX)
        self.offsets = ConsumerOffsets(lmq=True, limits=limits)

    def group(self, *more: str) -> str:
        return self.random.choice(["g0", "g1", "g2", *more])

    def topic(self) -> str:
        return self.random.choice(["T0", "T1", "T2", "T" * 80])

    def some(self) -> dict[int, int]:
        return {n: self.random.randrange(5) for n in range(4) if self.random.random() < 0.6}

    def ask(self, work: Callable[[], object], *, fits: bool) -> object:
        if fits:
            return work()
        with pytest.raises(LimitReached):
            work()
        return None

    def commit(self) -> None:
        group, topic = self.group("%LMQ%g"), self.topic()
        queue_id, offset = self.random.randrange(4), self.random.randrange(5)
        before = self.offsets.query(group, topic, queue_id)
        self.offsets.snapshot()
        fits = self.plain.commit(group, topic, queue_id, offset)
        self.ask(lambda: self.offsets.commit(group, topic, queue_id, offset), fits=fits)
        assert self.offsets.dirty == (fits and (group == "%LMQ%g" or before != offset))

    def clone(self) -> None:
        group, to_group, topic = self.group(), self.group(), self.topic()
        queues, before = (dict(self.plain.table.get((one, topic), {})) for one in (group, to_group))
        self.offsets.snapshot()
        fits = self.plain.clone(group, to_group, topic)
        found = self.ask(lambda: self.offsets.clone(group, to_group, topic), fits=fits)
        assert found == ((queues, before) if fits and queues else None)
        assert self.offsets.dirty == (found is not None)

    def restore(self) -> None:
        group, topic, before = self.group(), self.topic(), self.some()
        now = self.plain.table.get((group, topic), {})
        # Of most queues what was committed last is ours, of the others another commit came after.
        ours = {n: at if self.random.random() < 0.8 else at + 1 for n, at in now.items()}
        self.plain.restore(group, topic, ours, before)
        self.offsets.restore(group, topic, ours, before)

    def remove(self) -> None:
        group = self.group()
        self.offsets.snapshot()
        removed = self.plain.remove(group)
        assert finish(self.offsets.remove(group)) == removed
        assert self.offsets.dirty == bool(removed)

    def load(self) -> None:
        self.offsets.load(self.offsets.snapshot()())
        assert not self.offsets.dirty

    def compare(self) -> None:
        offsets, table, light = self.offsets, self.plain.table, self.plain.light
        offsets.validate()
        assert {(group, topic): queues for group, topic, queues in offsets.committed()} == table
        for group in ("g0", "g1", "g2", "%LMQ%g"):
            mine = {topic for name, topic in table if name == group}
            assert sorted(offsets.topics_of(group)) == sorted(mine)
            for topic in ("T0", "T1", "T2", "T" * 80):
                queues = dict(table.get((group, topic), {}))
                if (group, topic) in light:
                    queues = {0: light[group, topic]}
                assert offsets.queues(group, topic) == queues
                assert offsets.query(group, topic, 0) == queues.get(0, NO_OFFSET)
        for topic in ("T0", "T1", "T2"):
            groups = [group for group, name in table if name == topic]
            assert sorted(finish(offsets.groups_of(topic))) == sorted(groups)
        sizes = {"group_topic_count": len(table) + len(light), "queue_count": self.plain.count()}
        assert offsets.statistics() == self.plain.counts | sizes
        assert offsets.queue_count == sizes["queue_count"]


@pytest.mark.parametrize("seed", range(8))
def test_offsets_are_kept_as_plain_tables_keep_them(seed: int) -> None:
    both = Twins(seed)
    steps = [*[both.commit] * 5, both.clone, both.restore, both.remove, both.load]
    for _ in range(200):
        both.random.choice(steps)()
        both.compare()
    assert all(both.plain.counts.values())
