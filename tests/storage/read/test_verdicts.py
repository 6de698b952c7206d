"""Records that a pull filters several at a time: the batch is the same, whatever comes ahead."""

from typing import Any

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import place_of
from tests.storage.read.test_reader import SEGMENT_BYTES, TOPIC, bodies, filled, get, numbered
from wakelog.storage.errors import LacksVerdicts
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.message_store import MessageStore
from wakelog.storage.read import reader
from wakelog.storage.read.reader import GetResult


class Filtered:
    """Gets again and again with verdicts of what was asked, and keeps how many these were."""

    def __init__(self, *wanted: int) -> None:
        self.passes = numbered(*wanted)
        self.counts: list[int] = []

    def get(
        self,
        store: MessageStore,
        offset: int,
        count_max: int = 32,
        codes: frozenset[int] | None = None,
    ) -> GetResult:
        verdicts: dict[int, bool] = {}
        while True:
            try:
                return get(store, offset, count_max, codes=codes, verdicts=verdicts)
            except LacksVerdicts as lacking:
                records = lacking.records
            assert not records.keys() & verdicts.keys()
            self.counts.append(len(records))
            verdicts |= {place: self.passes(record) for place, record in records.items()}


def test_records_that_are_filtered_together_make_the_same_batch(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TOGETHER_COUNT_MAX", 4)
    store = filled(fs, 50)
    for wanted in ((), (0,), (3, 4, 5), tuple(range(50)), tuple(range(1, 50, 3))):
        for offset, count_max in ((0, 32), (2, 3), (49, 1)):
            filtered_pull = Filtered(*wanted)
            found = filtered_pull.get(store, offset, count_max)
            assert found == get(store, offset, count_max, match_record=numbered(*wanted))
            assert max(filtered_pull.counts) <= 4
            assert sum(filtered_pull.counts) < found.next_begin_offset - offset + 4
    none = Filtered()
    none.get(store, 0, codes=frozenset({1}))
    assert none.counts == [], "no entry passed"


def test_few_large_records_are_filtered_together(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "TOGETHER_BYTES_MAX", 3_000)
    store = filled(fs, 9, body_bytes=1_000)
    filtered_pull = Filtered(8)
    assert bodies(filtered_pull.get(store, 0)) == [8]
    assert filtered_pull.counts == [3, 3, 3]


def test_records_of_segments_that_are_gone_are_not_filtered_with_the_others(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(fs, 30, body_bytes=SEGMENT_BYTES // 5)
    view = CommitLogReader.view
    gone = {place_of(store, TOPIC, 0, number) for number in range(8)}

    def without(self: CommitLogReader, offset: int, size: int, *, blocking: bool) -> Any:
        return None if offset in gone else view(self, offset, size, blocking=blocking)

    monkeypatch.setattr(CommitLogReader, "view", without)
    wanted = 2, 9, 11
    found = Filtered(*wanted).get(store, 0)
    assert found == get(store, 0, match_record=numbered(*wanted))
    assert bodies(found) == [9, 11]


def test_what_lacks_verdicts_is_no_get_that_is_counted(fs: MemoryFileSystem) -> None:
    store = filled(fs, 3)
    before = store.statistics()
    with pytest.raises(LacksVerdicts, match="3 records have no verdict"):
        get(store, 0, verdicts={})
    assert store.statistics() == before
