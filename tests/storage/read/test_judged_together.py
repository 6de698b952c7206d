"""Records that a pull judges several at a time: the batch is the same, whatever is read ahead."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import place_of
from tests.storage.read.test_reader import SEGMENT_BYTES, TOPIC, bodies, filled, get, numbered
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.read import reader


class Together:
    """A filter that is asked about several records at once, and keeps how many these were."""

    def __init__(self, *wanted: int) -> None:
        self.passes = numbered(*wanted)
        self.counts: list[int] = []

    def __call__(self, records: Sequence[bytes]) -> list[bool]:
        self.counts.append(len(records))
        return [self.passes(record) for record in records]


def test_records_that_are_judged_together_make_the_same_batch(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TOGETHER_COUNT_MAX", 4)
    store = filled(fs, 50)
    for wanted in ((), (0,), (3, 4, 5), tuple(range(50)), tuple(range(1, 50, 3))):
        for offset, count_max in ((0, 32), (2, 3), (49, 1)):
            together = Together(*wanted)
            found = get(store, offset, count_max, match_records=together)
            assert found == get(store, offset, count_max, match_record=numbered(*wanted))
            assert max(together.counts) <= 4
            assert sum(together.counts) < found.next_begin_offset - offset + 4
    none = Together()
    get(store, 0, codes=frozenset({1}), match_records=none)
    assert none.counts == [], "no entry passed"


def test_few_large_records_are_judged_together(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TOGETHER_BYTES_MAX", 3_000)
    store = filled(fs, 9, body_bytes=1_000)
    together = Together(8)
    assert bodies(get(store, 0, match_records=together)) == [8]
    assert together.counts == [3, 3, 3]


def test_records_of_segments_that_are_gone_are_not_judged_with_the_others(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(fs, 30, body_bytes=SEGMENT_BYTES // 5)
    view = CommitLogReader.view
    gone = {place_of(store, TOPIC, 0, number) for number in range(8)}

    def without(self: CommitLogReader, offset: int, size: int, *, blocking: bool) -> Any:
        return None if offset in gone else view(self, offset, size, blocking=blocking)

    monkeypatch.setattr(CommitLogReader, "view", without)
    wanted = 2, 9, 11
    found = get(store, 0, match_records=Together(*wanted))
    assert found == get(store, 0, match_record=numbered(*wanted))
    assert bodies(found) == [9, 11]
