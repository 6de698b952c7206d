"""Checks the names, kinds and lengths of a store's files before any of them is read.

    found                                   verdict
    an unknown name                         note: 4.9.3 and wakelog ignore it
    a link that stays inside the store      note; it is followed
    a link that leads outside               damage: nothing of its folder is read
    a directory with the name of a file     damage
    another length than the configured one  damage; recovery mends a short or empty last segment
    files missing between others            damage
    a configuration that is no JSON         damage, unless its .bak is JSON
    queues of topics and no topics.json     note, if a broker had the store

Invariants: a link is followed only after it is known to stay inside. No content of the log, the
queues or the index is read.

Source: org.apache.rocketmq.store.MappedFileQueue#load (4.9.3), which refuses a wrong length and
does not notice a gap.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from posixpath import basename, join, relpath
from typing import Final

from wakelog.audit.findings import Finding, Findings, Severity
from wakelog.broker.names import SYSTEM_TOPICS
from wakelog.protocol.fastjson import FILE_ENTRIES_MAX, loads
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import CHECKPOINT_BYTES
from wakelog.storage.durability.start_guard import GUARDED
from wakelog.storage.durability.store_links import leads_out
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem, reading, size_of
from wakelog.storage.index.index_service import index_shape
from wakelog.storage.paths import is_index_name, parse_offset_name, parse_queue_id

# A million topics or offsets; a broker writes no longer file.
CONFIGURATION_BYTES_MAX: Final = 256 << 20
TABLE: Final = "table"
"""The kind of findings about a configuration, which no repair mends."""
TOPICS: Final = "topics.json"


@dataclass
class StoreFiles:
    """Checks every folder of one store, and adds to `findings`."""

    fs: FileSystem
    config: StoreConfig
    findings: Findings
    leads_outside: bool = False

    def check(self) -> None:
        """Check all files; after that, `leads_outside` states that reading them is not safe."""
        paths = self.config.paths
        logs = *paths.commit_log_directories, *self.config.read_only_directories
        self._check_sequence(logs, self.config.commit_log_file_bytes)
        for root, file_bytes in (
            (paths.consume_queue_root, self.config.consume_queue_bytes),
            (paths.consume_queue_extension_root, self.config.consume_queue_extension_file_bytes),
        ):
            for topic in self._folders(root):
                for queue in self._folders(topic, lambda name: parse_queue_id(name) is not None):
                    self._check_sequence([queue], file_bytes)
        self._check_index()
        self._check_checkpoint()
        self._check_configuration()
        for path in (paths.abort, paths.lock, paths.watermark, paths.dispatched):
            self._is_file(path)
        self._is_plain(paths.sums_directory)

    def _check_sequence(self, directories: Sequence[str], file_bytes: int) -> None:
        """Check a sequence of files, in one directory or spread over several."""
        starts: list[tuple[int, str]] = []
        for directory in directories:
            starts += self._check_lengths(directory, file_bytes)
        starts.sort()
        for (before, _), (start, path) in pairwise(starts):
            expected = before + file_bytes
            if start > expected:
                self._damage(path, f"files from {expected} to {start} are missing before it")

    def _check_lengths(self, directory: str, file_bytes: int) -> list[tuple[int, str]]:
        """Return the begins of a directory's files, with their paths."""
        paths = list(self._files(directory, lambda name: parse_offset_name(name) is not None))
        starts = [(int(basename(path)), path) for path in paths]
        for start, path in starts:
            size = self._size(path)
            if size is None:
                continue
            if start % file_bytes:
                self._damage(path, f"its name is no multiple of {file_bytes}")
            if size < file_bytes and path == paths[-1]:
                self._damage(path, f"{size} of {file_bytes} bytes; a start of the broker mends it")
            elif size != file_bytes:
                self._damage(path, f"{size} bytes, configured are {file_bytes}")
        return starts

    def _check_index(self) -> None:
        file_bytes = index_shape(self.config).file_bytes
        for path in self._files(self.config.paths.index_directory, is_index_name):
            size = self._size(path)
            if size not in (None, file_bytes):
                self._damage(path, f"{size} bytes, configured are {file_bytes}")

    def _check_checkpoint(self) -> None:
        path = self.config.paths.checkpoint
        if self._is_file(path):
            size = size_of(self.fs, path)
            if size != CHECKPOINT_BYTES:
                self._note(path, f"{size} of {CHECKPOINT_BYTES} bytes; recovery begins early")

    def _check_configuration(self) -> None:
        directory = self.config.paths.config_directory
        for name in self._names(directory):
            path = join(directory, name)
            if name.removesuffix(".bak") == GUARDED and self.fs.read_link(path) is not None:
                continue  # of a wakelog broker that runs or was killed; it is never followed
            if self._is_file(path) and name.endswith(".json") and not self._is_json(path):
                if self.fs.is_file(path + ".bak") and self._is_json(path + ".bak"):
                    self._note(path, "no JSON; its .bak holds")
                else:
                    self._add(Severity.DAMAGE, TABLE, path, "no JSON, and no .bak that is")
        topics_path = self.config.paths.config(TOPICS)
        if self.fs.exists(self.config.paths.lock) and not any(
            self.fs.exists(path) for path in (topics_path, topics_path + ".bak")
        ):
            self._report_forgotten(topics_path)

    def _report_forgotten(self, topics_path: str) -> None:
        root = self.config.paths.consume_queue_root
        topics = [name for name in self._names(root) if name not in SYSTEM_TOPICS]
        if topics:
            reason = f"missing: a start forgets the settings of {len(topics)} topics"
            self._add(Severity.NOTE, TABLE, topics_path, reason)

    def _is_json(self, path: str) -> bool:
        with reading(self.fs, path) as fd:
            size = self.fs.size(fd)
            if size > CONFIGURATION_BYTES_MAX:
                return False
            try:
                loads(self.fs.pread(fd, size, 0), entries_max=FILE_ENTRIES_MAX)
            except ValueError:
                return False
        return True

    def _folders(self, root: str, fits: Callable[[str], bool] = lambda name: True) -> list[str]:
        found = []
        for name in self._names(root):
            path = join(root, name)
            if not self._is_plain(path):
                continue
            if self.fs.is_file(path):
                self._note(path, "a file where a folder belongs")
            elif not fits(name):
                self._note(path, "unknown name")
            else:
                found.append(path)
        return found

    def _files(self, directory: str, fits: Callable[[str], bool]) -> Iterator[str]:
        for name in self._names(directory):
            path = join(directory, name)
            if fits(name):
                if self._is_file(path):
                    yield path
            else:
                self._is_plain(path)
                self._note(path, "unknown name")

    def _names(self, directory: str) -> list[str]:
        if not self._is_plain(directory):
            return []
        try:
            return self.fs.list_directory(directory)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            self._damage(directory, "a file where a folder belongs")
            return []

    def _is_plain(self, path: str) -> bool:
        """Return whether a path may be read: no link leads out. Add a finding for any link."""
        target = self.fs.read_link(path)
        if target is None:
            return True
        if not leads_out(self.fs, self.config.paths.root, path):
            self._add(Severity.NOTE, "link", path, f"a link to {target}")
            return True
        self.leads_outside = True
        self._add(Severity.DAMAGE, "link", path, f"a link out of the store, to {target}")
        return False

    def _is_file(self, path: str) -> bool:
        """Return whether a path may be read as a file; add a finding for what else is there."""
        if not self._is_plain(path):
            return False
        is_file = self.fs.is_file(path)
        if not is_file and self.fs.exists(path):
            self._damage(path, "no regular file")
        return is_file

    def _size(self, path: str) -> int | None:
        """Return a file's length, None if a running broker removed it since the listing."""
        try:
            return size_of(self.fs, path)
        except FileNotFoundError:
            return None

    def _note(self, path: str, reason: str) -> None:
        self._add(Severity.NOTE, "file", path, reason)

    def _damage(self, path: str, reason: str) -> None:
        self._add(Severity.DAMAGE, "file", path, reason)

    def _add(self, severity: Severity, kind: str, path: str, reason: str) -> None:
        self.findings.add(Finding(severity, kind, relpath(path, self.config.paths.root), reason))


def check_files(fs: FileSystem, config: StoreConfig) -> tuple[Findings, bool]:
    """Check names, kinds and lengths; False if no file may be read after that."""
    findings = Findings()
    files = StoreFiles(fs, config, findings)
    files.check()
    return findings, not files.leads_outside


def refuse_links(fs: FileSystem, config: StoreConfig) -> None:
    """Refuse a store of which a link leads outside. Raises: DamagedStore."""
    findings, may_read = check_files(fs, config)
    if not may_read:
        [first, *_] = [finding for finding in findings.kept if finding.kind == "link"]
        raise DamagedStore(
            join(config.paths.root, first.place), first.reason, "replace it by what it leads to"
        )
