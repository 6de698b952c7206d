"""Two folders of index files: which keys differ, and whether a query would find them."""

from posixpath import join

import pytest

from tests.fakes.logs import read_file, small_config, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, properties
from tests.fakes.stores import scan_log
from wakelog.audit.findings import FINDINGS_KEPT_MAX, Compared, Finding, Findings, Severity
from wakelog.audit.index_compare import compare_index
from wakelog.audit.queue_compare import Span
from wakelog.storage.config import StoreConfig
from wakelog.storage.index.index_service import index_names, index_shape
from wakelog.storage.index.index_writer import IndexWriter

NOW_MS = 1_700_000_000_000
LOG_BYTES = 4096
LOG = Span(0, LOG_BYTES)
FOUND = "/found/index"
ENTRY_BYTES = 20


def config(root: str) -> StoreConfig:
    return small_config(
        store_path_root=root,
        commit_log_file_bytes=LOG_BYTES,
        index_slot_count=20,
        index_entry_count=10,
    )


SHAPE = index_shape(config("/found"))


def indexes(found_count: int, expected_count: int) -> MemoryFileSystem:
    """Return two stores with the keys of so many records."""
    fs = MemoryFileSystem()
    for root, count in (("/found", found_count), ("/expected", expected_count)):
        settled = config(root)
        log = LogBytes(LOG_BYTES)
        for i in range(count):
            log.add(properties(KEYS=f"k{i}"))
        log.write(fs, settled)
        writer = IndexWriter(fs, settled)
        writer.load()
        for request in scan_log(fs, settled, 0, log.end):
            writer.put(request, NOW_MS)
        writer.write_back()
        writer.close()
    return fs


def compare(fs: MemoryFileSystem, *, log: Span = LOG) -> Compared:
    return compare_index(fs, FOUND, "/expected/index", SHAPE, log)


def differences(fs: MemoryFileSystem) -> list[tuple[str, int | None, str]]:
    """Return the place, the count and the reason of each difference."""
    found = compare(fs).findings
    assert all(finding.kind == "index" for finding in found)
    return [(finding.place, finding.affected_count, finding.reason) for finding in found]


def test_equal_over_several_files() -> None:
    fs = indexes(25, 25)
    assert len(index_names(fs, FOUND)) > 1
    assert compare(fs) == (25, [])


def test_keys_that_one_side_lacks() -> None:
    assert differences(indexes(5, 8)) == [("index", 3, "keys of records are missing")]
    assert differences(indexes(8, 5)) == [("index", 3, "keys of no record")]


def test_keys_of_a_log_that_was_deleted_are_left_alone() -> None:
    assert compare(indexes(5, 0), log=Span(LOG_BYTES, 2 * LOG_BYTES)) == (5, [])


class Changed:
    """Two equal indexes of five keys, and the bytes of the file that is compared."""

    def __init__(self) -> None:
        self.fs = indexes(5, 5)
        [name] = index_names(self.fs, FOUND)
        self.place, self._path = f"index/{name}", join(FOUND, name)
        self.data = bytearray(read_file(self.fs, self._path))

    def add(self, position: int, change: int, width: int = 8) -> None:
        """Add to a number of the file."""
        value = int.from_bytes(self.data[position : position + width]) + change
        self.data[position : position + width] = value.to_bytes(width)

    def differences(self) -> list[tuple[str, int | None, str]]:
        write_file(self.fs, self._path, bytes(self.data))
        return differences(self.fs)


def test_a_file_of_another_length_has_no_keys() -> None:
    changed = Changed()
    del changed.data[-1]
    assert changed.differences() == [("index", 5, "keys of records are missing")]


def test_slots_that_lead_nowhere() -> None:
    changed = Changed()
    changed.data[40 : 40 + 80] = bytes(80)
    [(place, _, reason)] = changed.differences()
    assert (place, reason) == (changed.place, "slots that do not lead to the newest entry")


def test_entries_out_of_order() -> None:
    changed = Changed()
    third = SHAPE.entries_position + 3 * ENTRY_BYTES
    changed.data[third + 16 : third + 20] = (9).to_bytes(4)
    assert changed.differences() == [(changed.place, 3, "entries out of order")]


@pytest.mark.parametrize(
    ("position", "change"), [(0, 10**6), (0, -(10**6)), (8, -(10**6)), (24, -100), (24, 100)]
)
def test_a_header_that_hides_its_keys(position: int, change: int) -> None:
    changed = Changed()
    changed.add(position, change)
    assert changed.differences() == [(changed.place, 5, "a header that is not of its keys")]


def test_a_file_that_begins_where_a_removed_one_ended() -> None:
    changed = Changed()
    changed.add(0, -5000)
    for number in range(1, 6):
        changed.add(SHAPE.entries_position + ENTRY_BYTES * number + 12, 5, width=4)
    assert changed.differences() == []


def test_an_error_says_which_file_it_is_of() -> None:
    fs = indexes(3, 5)
    for nth in (1, 2, 3):
        fs.fail("pread", nth=nth)
        with pytest.raises(OSError, match="/index/") as raised:
            compare(fs)
        assert join(FOUND, "") in raised.value.filename or "/expected" in raised.value.filename


def test_counts_go_on_where_the_list_ends() -> None:
    findings = Findings()
    findings.add(Finding(Severity.NOTE, "file", "commitlog/x", "unknown name"))
    assert findings.is_sound
    for i in range(FINDINGS_KEPT_MAX):
        findings.add(Finding(Severity.DAMAGE, "record", "commitlog", "bad", i))
    assert not findings.is_sound
    assert (findings.notes_count, findings.damages_count) == (1, FINDINGS_KEPT_MAX)
    assert len(findings.kept) == FINDINGS_KEPT_MAX
