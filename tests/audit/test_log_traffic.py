"""Lag, dead letters and hot keys of a small log."""

from collections.abc import Iterator

import pytest

from tests.fakes.logs import draft, open_log, small_config
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.audit import log_traffic
from wakelog.audit.log_traffic import (
    DeadLetters,
    Lag,
    Place,
    committed_places,
    dead_letters,
    hot_keys,
    lags,
)
from wakelog.audit.operator import AuditRefused
from wakelog.dispatchers.log_cursor import BadStretch
from wakelog.protocol.properties import encode_properties
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.log.commit_log_reader import CommitLogReader

CONFIG = small_config()


def no_gap(stretch: BadStretch) -> None:
    pytest.fail(f"{stretch} is sound")


def keyed(topic: str, keys: str, queue_id: int = 0) -> MessageDraft:
    properties = encode_properties({"KEYS": keys} if keys else {})
    return draft(topic=topic, queue_id=queue_id, properties_text=properties)


def given_up(group: str, origin: str, retries: int) -> MessageDraft:
    properties = encode_properties({"RETRY_TOPIC": origin})
    topic = f"%DLQ%{group}"
    return draft(topic=topic, properties_text=properties, reconsume_times=retries)


@pytest.fixture
def log(fs: MemoryFileSystem) -> Iterator[CommitLogReader]:
    drafts = [
        *(keyed("orders", keys, queue_id) for keys, queue_id in [("a b", 0), ("a", 1), ("", 0)]),
        keyed("bills", "a"),
        keyed("%RETRY%g", "a"),
        keyed("orders", "a"),
        given_up("g", "orders", 16),
        given_up("g", "orders", 2),
        given_up("h", "bills", 17),
        given_up("g", "orders", 18),
    ]
    writer = open_log(fs, CONFIG)
    for number, each in enumerate(drafts):
        writer.append(each, 1_000 + number)
    writer.write_pending()
    reader = CommitLogReader(fs, CONFIG)
    yield reader
    reader.close()


def test_a_group_lags_by_what_follows_its_offset(log: CommitLogReader) -> None:
    places = [
        Place("g", "orders", 0, 1),
        Place("g", "orders", 1, 0),
        Place("g", "bills", 0, 1),
        Place("h", "orders", 0, 3),
    ]
    found = lags(log, places, no_gap)
    assert [row._replace(size_bytes=0) for row in found] == [
        Lag("g", "bills", 0, 0, 0),
        Lag("g", "orders", 3, 0, 1_001),
        Lag("h", "orders", 0, 0, 0),
    ]
    assert found[1].size_bytes > 3 * 91


def test_offsets_are_those_of_the_table(fs: MemoryFileSystem) -> None:
    assert committed_places(fs, CONFIG) == []
    path = CONFIG.paths.config("consumerOffset.json")
    fs.make_directories(CONFIG.paths.config_directory)
    fd = fs.open(path, create=True)
    fs.pwrite(fd, b'{"offsetTable":{"orders@g":{0:7,1:-1}}}', 0)
    fs.close(fd)
    assert committed_places(fs, CONFIG) == [Place("g", "orders", 0, 7)]


def test_dead_letters_are_counted_by_origin_and_reason(log: CommitLogReader) -> None:
    used_up = DeadLetters("g", "orders", "retries used up", 2, 18, 1_006, 1_009)
    given = DeadLetters("g", "orders", "given up by its consumer", 1, 2, 1_007, 1_007)
    other = DeadLetters("h", "bills", "retries used up", 1, 17, 1_008, 1_008)
    assert dead_letters(log, no_gap) == [given, used_up, other]
    assert dead_letters(log, no_gap, group="h", retries_max=18) == [
        other._replace(reason="given up by its consumer")
    ]


def test_keys_are_counted_without_the_topics_of_groups(
    log: CommitLogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = hot_keys(log, no_gap)
    counts = [(row.topic, row.key, row.messages_count, row.share) for row in found]
    assert counts == [("orders", "a", 3, 0.75), ("bills", "a", 1, 1.0), ("orders", "b", 1, 0.25)]
    monkeypatch.setattr(log_traffic, "KEYS_MAX", 2)
    with pytest.raises(AuditRefused, match="more than 2 keys"):
        hot_keys(log, no_gap)
