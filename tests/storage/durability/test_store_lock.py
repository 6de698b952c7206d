"""One broker to a store, of ours or of 4.9.3, and bytes of their own for helpers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.store_lock import (
    BROKER_BYTE,
    StoreLock,
    holder_pid,
    was_another_brokers,
)
from wakelog.storage.errors import StoreFailed, StoreLocked
from wakelog.storage.file_system import FileSystem

PATH = "/store/lock"


def test_the_text_is_another_brokers_until_it_is_signed() -> None:
    fs = MemoryFileSystem()
    assert not was_another_brokers(fs, PATH)
    StoreLock(fs, PATH).release()
    assert read_file(fs, PATH) == b"wake"
    write_file(fs, PATH, b"lock")
    assert was_another_brokers(fs, PATH)
    lock = StoreLock(fs, PATH)
    assert was_another_brokers(fs, PATH)
    lock.sign()
    synced = fs.calls["sync"]
    assert synced > 0
    lock.sign()
    assert fs.calls["sync"] == synced
    assert not was_another_brokers(fs, PATH)
    with pytest.raises(StoreLocked):
        StoreLock(fs.other_process(), PATH)  # looking has not let go of it
    assert not was_another_brokers(fs.other_process(), PATH)
    lock.release()
    assert fs.descriptor_count == 0


def test_a_lock_that_cannot_be_signed_says_so() -> None:
    fs = MemoryFileSystem()
    write_file(fs, PATH, b"lock")
    lock = StoreLock(fs, PATH)
    fs.fail("sync")
    with pytest.raises(StoreFailed):
        lock.sign()
    lock.release()


def test_the_second_broker_is_refused_and_writes_nothing() -> None:
    fs = MemoryFileSystem()
    lock = StoreLock(fs, PATH)
    second = fs.other_process()
    with pytest.raises(StoreLocked) as caught:
        StoreLock(second, PATH)
    assert (caught.value.path, caught.value.holder_pid) == (PATH, fs.pid)
    assert second.calls["pwrite"] == 0 and second.descriptor_count == 0
    lock.release()
    StoreLock(second, PATH).release()


def test_helpers_lock_bytes_of_their_own() -> None:
    fs = MemoryFileSystem()
    broker = StoreLock(fs, PATH)
    helper_fs = fs.other_process()
    helper = StoreLock(helper_fs, PATH, 3)
    assert helper_fs.calls["pwrite"] == 0
    with pytest.raises(StoreLocked):
        StoreLock(fs.other_process(), PATH, 3)
    assert holder_pid(fs.other_process(), PATH, 3) == helper_fs.pid
    assert holder_pid(fs.other_process(), PATH, 4) is None
    helper.release()
    broker.release()


def test_locks_of_one_process_share_a_descriptor() -> None:
    """Closing any descriptor of the file would drop them all."""
    fs = MemoryFileSystem()
    broker, helper = StoreLock(fs, PATH), StoreLock(fs, PATH, 1)
    assert fs.descriptor_count == 1
    with pytest.raises(StoreLocked):
        StoreLock(fs, PATH)
    helper.release()
    with pytest.raises(StoreLocked):
        StoreLock(fs.other_process(), PATH)
    broker.release()
    assert fs.descriptor_count == 0


def test_a_lock_that_cannot_be_written_is_not_held() -> None:
    fs = MemoryFileSystem()
    fs.fail("pwrite")
    with pytest.raises(StoreFailed):
        StoreLock(fs, PATH)
    assert fs.descriptor_count == 0
    StoreLock(fs.other_process(), PATH).release()


def test_a_missing_file_has_no_lock_holder() -> None:
    assert holder_pid(MemoryFileSystem(), PATH, BROKER_BYTE) is None


TRY = """
import sys
from wakelog.storage.errors import StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.storage.durability.store_lock import StoreLock
try:
    StoreLock(FileSystem(), sys.argv[1])
    print("held")
except StoreLocked as error:
    print(error.holder_pid)
"""


def test_two_real_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = StoreLock(FileSystem(), path)
    with pytest.raises(StoreLocked):
        StoreLock(FileSystem(), path)  # another view of the same disk, in this process
    modified = os.stat(path).st_mtime_ns
    command = [sys.executable, "-c", TRY, path]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert answer.strip() == str(os.getpid())
    assert os.stat(path).st_mtime_ns == modified
    lock.release()
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert answer.strip() == "held"
    StoreLock(FileSystem(), path).release()  # the kernel freed it when that process ended
