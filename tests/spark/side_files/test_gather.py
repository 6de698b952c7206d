"""Ranges of a log as tables by topic: the rows of the source, within the limits."""

import zlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.fakes.logs import small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes
from tests.spark.logs import MESSAGES, query_rows, rows_of, write_segments
from tests.spark.side_files import stores
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED, TRANSACTION_PREPARED
from wakelog.spark.side_files import gather
from wakelog.spark.side_files.gather import SCHEMA, Gatherer, LogShort, by_topic
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.paths import offset_name

CONFIG = small_config()


def gatherer(fs: MemoryFileSystem, log: LogBytes, bytes_max: int = 1 << 20) -> Gatherer:
    log.write(fs, CONFIG)
    return Gatherer(CommitLogReader(fs, CONFIG), "b", bytes_max=bytes_max)


def rows(tables: dict[str, pa.Table]) -> list[dict[str, object]]:
    found = [
        row for table in tables.values() for part in table.to_batches() for row in rows_of(part)
    ]
    return sorted(found, key=lambda row: row["commitLogOffset"])


def test_rows_are_those_of_the_source(fs: MemoryFileSystem, tmp_path: Path) -> None:
    log = stores.log_of()
    log.add(topic="packed", body=zlib.compress(b"plain"), sys_flag=MESSAGE_COMPRESSED)
    log.add(topic="half", sys_flag=TRANSACTION_PREPARED)
    log.add(topic="%RETRY%g")
    log.add(topic="SCHEDULE_TOPIC_XXXX")
    found = gatherer(fs, log).gather(0, log.end)
    assert all(table.schema.equals(SCHEMA) for table in found.tables.values())
    assert SCHEMA.equals(MESSAGES)
    expected = query_rows(storePath=f"b={write_segments(tmp_path / 'log', log)}")
    assert rows(found.tables) == expected
    assert found.tables.keys() == {*stores.TOPICS, "packed"}
    assert found.counts["rows"] == found.counts.total() == 61


def test_rows_above_the_limit_come_with_the_next_call(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stores.log_of(40)
    reader = gatherer(fs, log, bytes_max=1)
    end, offsets = 0, []
    while end < log.end:
        found = reader.gather(end, log.end)
        assert found.end > end
        offsets += [row["commitLogOffset"] for row in rows(found.tables)]
        end = found.end
    assert offsets == log.offsets
    monkeypatch.setattr(gather, "ROWS_MAX", 1)
    # A batch is the least that is taken, and a walk's step gives one.
    assert gatherer(fs, log).gather(0, log.end).end < log.end


def test_parts_without_a_message_are_counted(fs: MemoryFileSystem) -> None:
    log = stores.log_of(20)
    log.add(topic="a/../../b")
    log.damage(log.offsets[3] + 4, b"\0\0\0\0")
    found = gatherer(fs, log).gather(0, log.end)
    assert found.counts == Counter(rows=19, damaged_stretches=1, unnamed_rows=1)


def test_a_log_that_retention_shortened_begins_later(fs: MemoryFileSystem) -> None:
    log = stores.log_of()
    reader = gatherer(fs, log)
    fs.unlink(f"{CONFIG.paths.commit_log_directories[0]}/{offset_name(0)}")
    found = reader.gather(log.offsets[1], log.end)
    begin = log.segment_bytes
    assert found.counts["missed_bytes"] == begin - log.offsets[1]
    assert [row["commitLogOffset"] for row in rows(found.tables)] == [
        each for each in log.offsets if each >= begin
    ]


def test_a_log_below_its_known_end_is_an_error(fs: MemoryFileSystem) -> None:
    log = stores.log_of()
    reader = gatherer(fs, log)
    with pytest.raises(LogShort, match="below its known end"):
        reader.gather(0, 10 * log.end)


def test_nothing_gives_no_table() -> None:
    assert list(by_topic([])) == []
