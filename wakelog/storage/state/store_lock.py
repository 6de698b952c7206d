"""The lock that keeps a store for one broker, and its parts for one helper each.

4.9.3 holds a POSIX record lock on byte 0 of `<root>/lock` and writes "lock" into it. The Broker
takes the same byte, so that neither opens a store that the other runs; helper actors that write the
store take bytes 1 and up. The kernel frees a lock when its process dies. A broker that comes second
writes nothing: not into the store, and not into the lock file either.

Record locks belong to the process, and closing *any* descriptor of the file drops all of them. So
a process keeps one descriptor of each lock file, shared by its locks, and looks into its own
table first, where the kernel would say yes to a second lock of the same process.

Source: org.apache.rocketmq.store.DefaultMessageStore.start (4.9.3), which takes the lock only after
`load` has written to the store.
"""

from __future__ import annotations

from posixpath import dirname

from wakelog.storage.errors import StoreLocked, store_failure
from wakelog.storage.file_system import FileSystem

BROKER_BYTE = 0
LOCK_TEXT = b"lock"


class _LockFile:
    """One lock file of this process: its descriptor and the bytes locked through it."""

    __slots__ = ("bytes", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.bytes: set[int] = set()


# Process-wide, because the locks are.
_lock_files: dict[tuple[FileSystem, str], _LockFile] = {}


class StoreLock:
    """A held lock on one byte of a store's lock file; released by `release` or by death."""

    __slots__ = ("_fs", "_key", "_path", "byte")

    def __init__(self, fs: FileSystem, path: str, byte: int = BROKER_BYTE) -> None:
        """Take the lock without waiting; the Broker's also writes 4.9.3's text.

        Raises: StoreLocked when another process, or another lock of this one, has the byte;
        StoreFailed when the file cannot be opened or written.
        """
        self._fs = fs
        self._path = path
        self._key = (fs, path)
        self.byte = byte
        try:
            self._acquire()
        except OSError as error:
            raise store_failure(path, "lock", error) from error

    @property
    def fd(self) -> int:
        """The descriptor of the lock file, open as long as the lock is held."""
        return _lock_files[self._key].fd

    def release(self) -> None:
        """Give the lock back."""
        lock_file = _lock_files[self._key]
        lock_file.bytes.remove(self.byte)
        self._fs.unlock_byte(lock_file.fd, self.byte)
        self._close_unused(lock_file)

    def _acquire(self) -> None:
        lock_file = _lock_files.get(self._key)
        if lock_file is None:
            self._fs.make_directories(dirname(self._path))
            lock_file = _LockFile(self._fs.open(self._path, create=True))
            _lock_files[self._key] = lock_file
        try:
            if self.byte in lock_file.bytes:
                raise StoreLocked(self._path, None)
            if not self._fs.lock_byte(lock_file.fd, self.byte):
                raise StoreLocked(self._path, self._fs.lock_holder(lock_file.fd, self.byte))
            if self.byte == BROKER_BYTE:
                self._write_text(lock_file.fd)
            lock_file.bytes.add(self.byte)
        finally:
            self._close_unused(lock_file)

    def _write_text(self, fd: int) -> None:
        try:
            self._fs.pwrite(fd, LOCK_TEXT, 0)
        except OSError:
            self._fs.unlock_byte(fd, self.byte)
            raise

    def _close_unused(self, lock_file: _LockFile) -> None:
        if not lock_file.bytes:
            del _lock_files[self._key]
            self._fs.close(lock_file.fd)


def holder_pid(fs: FileSystem, path: str, byte: int) -> int | None:
    """Return the process that holds a byte of a lock file, None if none does or it is unknown.

    Not for a process that holds a byte itself: the kernel names only others, and the descriptor
    opened here would drop its locks on closing.
    """
    assert (fs, path) not in _lock_files
    try:
        fd = fs.open(path, read_only=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_failure(path, "open", error) from error
    try:
        return fs.lock_holder(fd, byte)
    except OSError as error:
        raise store_failure(path, "lock", error) from error
    finally:
        fs.close(fd)
