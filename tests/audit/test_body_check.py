"""Bodies whose CRC differs are named, in either form of a batch."""

from typing import Any

import pytest

from tests.dispatchers.stores import batch_of, dispatch_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes
from wakelog.audit.body_check import DAMAGED_BODIES_KEPT_MAX, BodyCheck
from wakelog.compiled.columns import ScanFunctions
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.log.commit_log_reader import CommitLogReader

CONFIG = dispatch_config(commit_log_file_bytes=4096)


def checked(log: LogBytes, functions: ScanFunctions | None) -> BodyCheck:
    fs = MemoryFileSystem()
    log.write(fs, CONFIG)
    check = BodyCheck(CommitLogReader(fs, CONFIG))
    check.dispatch(batch_of(log, functions))
    return check


@pytest.mark.parametrize(
    "hosts",
    [
        {},
        {"born_host": ("::1", 1)},
        {"store_host": ("::1", 1)},
        {"born_host": ("::1", 1), "store_host": ("::1", 1)},
    ],
)
def test_a_changed_body(hosts: dict[str, Any], functions: ScanFunctions | None) -> None:
    log = LogBytes(4096)
    log.add(body=b"", **hosts)
    log.add(body=b"sound", **hosts)
    at = log.add(body=b"changed", queue_id=3, queue_offset=7, **hosts)
    assert checked(log, functions).damaged == []
    log.damage(log.data.index(b"changed"), b"C")
    check = checked(log, functions)
    [found] = check.damaged
    assert (found.physical_offset, found.physical_offset_end) == (at, log.end)
    assert (found.topic, found.queue_id, found.queue_offset) == ("T", 3, 7)
    assert check.statistics() == {"damaged_count": 1}


def test_a_record_that_retention_took_is_passed_over() -> None:
    log = LogBytes(4096)
    log.add(body=b"removed")
    check = BodyCheck(CommitLogReader(MemoryFileSystem(), CONFIG))
    check.dispatch(batch_of(log, None))
    assert check.damaged_count == 0


def test_of_very_many_some_are_named(functions: ScanFunctions | None) -> None:
    log = LogBytes(4096)
    log.add(body=b"changed")
    log.damage(log.data.index(b"changed"), b"C")
    check = checked(log, functions)
    while check.damaged_count <= DAMAGED_BODIES_KEPT_MAX:
        check.dispatch(batch_of(log, functions))
    assert len(check.damaged) == DAMAGED_BODIES_KEPT_MAX


def test_it_derives_no_file(functions: ScanFunctions | None) -> None:
    check = checked(LogBytes(4096), None)
    assert (check.recover(100), check.truncate(100)) == (0, 0)
    assert check.prepare_flush().paths == []
    assert check.remove_before(100) == check.remove_queues(QueueRemoval((), (), 0)) == 0
    check.close()
