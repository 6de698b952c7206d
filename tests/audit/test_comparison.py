"""Queues and index against rebuilt ones: what is missing, and what a disk does not give."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.audit.test_verify import verify_golden
from tests.golden_stores import open_golden
from wakelog.storage.file_system import FileSystem

pytestmark = pytest.mark.golden


class BadSectors(FileSystem):
    """A disk that refuses to give one file, with an error number."""

    def __init__(self, path: Path, number: int) -> None:
        super().__init__()
        self.path, self.number = str(path), number
        self.fds: set[int] = set()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        fd = super().open(path, create=create, read_only=read_only)
        (self.fds.add if path == self.path else self.fds.discard)(fd)
        return fd

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self.refuse(fd)
        return super().pread(fd, length, position)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        self.refuse(fd)
        return super().pread_into(fd, buffer, position)

    def refuse(self, fd: int) -> None:
        if fd in self.fds:
            raise OSError(self.number, os.strerror(self.number))


def test_a_queue_that_is_gone_is_missed(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    shutil.rmtree(store / "consumequeue" / "GoldTopicA" / "0")
    kept = verify_golden("basic", store, tmp_path).findings.kept
    assert {(found.place, found.reason) for found in kept} == {
        ("consumequeue/GoldTopicA/0", "no entry")
    }


def test_an_index_that_is_not_kept_is_not_compared(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    for path in (store / "index").iterdir():
        path.unlink()
    report = verify_golden("basic", store, tmp_path, has_index=False)
    assert report.findings.is_sound
    assert (report.keys_count, report.entries_count > 0) == (0, True)


@pytest.mark.parametrize("kind", ["queue", "index"])
def test_a_file_that_the_disk_does_not_give_is_damage_and_the_rest_is_compared(
    kind: str, tmp_path: Path
) -> None:
    store, _ = open_golden("basic", tmp_path)
    sound = verify_golden("basic", store, tmp_path / "sound")
    folder = store / ("index" if kind == "index" else "consumequeue")
    path = min(file for file in folder.rglob("*") if file.is_file())
    report = verify_golden("basic", store, tmp_path / "bad", fs=BadSectors(path, errno.EIO))
    [found] = report.findings.kept
    assert (found.kind, found.place) == (kind, str(path.relative_to(store)))
    assert found.reason == "the disk does not give it: I/O error"
    assert (found.topic is None) == (kind == "index")
    assert report.queues_count == sound.queues_count
    assert report.keys_count + report.entries_count > 0


def test_a_file_that_this_process_may_not_read_says_nothing_of_the_store(tmp_path: Path) -> None:
    store, _ = open_golden("basic", tmp_path)
    path = min(file for file in (store / "consumequeue").rglob("*") if file.is_file())
    with pytest.raises(PermissionError, match=str(path)):
        verify_golden("basic", store, tmp_path, fs=BadSectors(path, errno.EACCES))


@pytest.mark.parametrize("folder", ["consumequeue/GoldTopicA/0", "index"])
def test_a_file_of_its_own_that_it_cannot_read_says_nothing_of_the_store(
    folder: str, tmp_path: Path
) -> None:
    store, _ = open_golden("basic", tmp_path)

    class Failing(BadSectors):
        def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
            fd = super().open(path, create=create, read_only=read_only)
            (self.fds.add if path.startswith(self.path) else self.fds.discard)(fd)
            return fd

        def pread(self, fd: int, length: int, position: int) -> bytes:
            return FileSystem.pread(self, fd, length, position)  # while it is made

    path = tmp_path / "rebuilt" / folder
    with pytest.raises(OSError, match=str(path)):
        verify_golden("basic", store, tmp_path, fs=Failing(path, errno.EIO))
