"""The lock that gives a store to one broker, with a byte for each service that writes the store.

4.9.3 holds a POSIX record lock on byte 0 of `<root>/lock`, and writes "lock" into it durably before
it appends anything. Our Broker locks the same byte, so that neither opens a store that the other
runs. Services that write the store lock bytes 1 and up. The kernel frees a lock when its process
dies. A broker that does not get the lock writes nothing, not even into the lock file.

The text shows which broker had the store last. After recovery the Broker writes a text of its own,
which a later 4.9.3 broker overwrites. The text stays, however that broker ended. If it is 4.9.3's,
recovery does not trust the watermark (`recovery/watermark_trust.py`).

Record locks belong to the process, and closing *any* descriptor of the file drops all of them. So a
process keeps one descriptor for each lock file, shared by its locks. It checks its own table first,
because the kernel would grant a second lock to the same process.

A name server locks the folder of its files by the same rule, with a lock file of its own there.

Source: org.apache.rocketmq.store.DefaultMessageStore.start (4.9.3), which takes the lock only after
`load` has written to the store.
"""

from posixpath import dirname
from typing import Final, NamedTuple

from wakelog.storage.errors import StoreLocked, store_errors
from wakelog.storage.file_system import FileSystem, opened

BROKER_BYTE = 0
FOREIGN_TEXT: Final = b"lock"
"""What 4.9.3 writes; early versions of wakelog wrote it as well."""
OUR_TEXT: Final = b"wake"

assert len(OUR_TEXT) == len(FOREIGN_TEXT)


class _LockFile(NamedTuple):
    """One lock file of this process: its descriptor and the bytes locked through it."""

    fd: int
    bytes: set[int]


# Process-wide, because the locks are.
_lock_files: dict[tuple[FileSystem, str], _LockFile] = {}


class StoreLock:
    """A held lock on one byte of a store's lock file; released by `release` or by death."""

    __slots__ = ("_fs", "_key", "_path", "byte")

    def __init__(self, fs: FileSystem, path: str, byte: int = BROKER_BYTE) -> None:
        """Take the lock without waiting; the Broker writes a text into an empty file.

        Raises: StoreLocked when another process, or another lock of this one, has the byte;
        StoreFailed when the file cannot be opened or written.
        """
        self._fs = fs
        self._path = path
        self._key = (fs, path)
        self.byte = byte
        with store_errors(path, "lock"):
            self._acquire()

    @property
    def fd(self) -> int:
        """The descriptor of the lock file, open as long as the lock is held."""
        return _lock_files[self._key].fd

    def sign(self) -> None:
        """Record durably that the store is ours from here on; call when it is recovered.

        Raises: StoreFailed, StoreFull.
        """
        with store_errors(self._path, "write"):
            if self._fs.pread(self.fd, len(OUR_TEXT), 0) != OUR_TEXT:
                self._fs.pwrite(self.fd, OUR_TEXT, 0)
                self._fs.sync(self.fd)

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
            lock_file = _LockFile(self._fs.open(self._path, create=True), set())
            _lock_files[self._key] = lock_file
        try:
            if self.byte in lock_file.bytes:
                raise StoreLocked(self._path, None)
            if not self._fs.lock_byte(lock_file.fd, self.byte):
                raise StoreLocked(self._path, self._fs.lock_holder(lock_file.fd, self.byte))
            try:
                if self.byte == BROKER_BYTE and self._fs.size(lock_file.fd) == 0:
                    self._fs.pwrite(lock_file.fd, OUR_TEXT, 0)
            except OSError:
                self._fs.unlock_byte(lock_file.fd, self.byte)
                raise
            lock_file.bytes.add(self.byte)
        finally:
            self._close_unused(lock_file)

    def _close_unused(self, lock_file: _LockFile) -> None:
        if not lock_file.bytes:
            del _lock_files[self._key]
            self._fs.close(lock_file.fd)


def was_another_brokers(fs: FileSystem, path: str) -> bool:
    """Tell whether the lock file has the text of a 4.9.3 broker. Raises: OSError."""
    held = _lock_files.get((fs, path))
    if held is not None:
        return fs.pread(held.fd, len(FOREIGN_TEXT), 0) == FOREIGN_TEXT
    try:
        with opened(fs, path, read_only=True) as fd:
            return fs.pread(fd, len(FOREIGN_TEXT), 0) == FOREIGN_TEXT
    except FileNotFoundError:
        return False


def holder_pid(fs: FileSystem, path: str, byte: int) -> int | None:
    """Return the process that holds a byte of a lock file, None if none does or it is unknown.

    Not for a process that holds a byte itself: the kernel names only others, and the descriptor
    opened here would drop its locks on closing.
    """
    assert (fs, path) not in _lock_files
    with store_errors(path, "open"):
        try:
            fd = fs.open(path)
        except FileNotFoundError:
            return None
    try:
        with store_errors(path, "lock"):
            return fs.lock_holder(fd, byte)
    finally:
        fs.close(fd)
