"""LockedFile: a register in a folder of this machine, `file:///FOLDER`.

    FOLDER/KEY.json     {"version": "...", "value": "..."}, replaced by rename
    FOLDER/KEY.lock     its lock; empty

It is for brokers of one machine and for tests. It survives the death of any process, and a power
cut. It does not survive the machine, and a network file system may lie about locks.

Rules:
- A file is whole: it is written beside, synced, renamed, and the folder is synced.
- Reads take the lock, too: what a power cut may still undo is not shown.
- A file keeps its mode. What root makes belongs to the folder's owner, who is the broker's user.
- A read makes no folder.
- A version is random, so a file that was removed and made again has no version of before.
"""

import fcntl
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote

import msgspec

from wakelog.actors.registers.register import (
    CALL_SECONDS_MAX,
    NO_VERSION,
    NOTHING,
    AnswerLost,
    Held,
    RegisterAddress,
    RegisterRefused,
    RegisterUnreachable,
    StaleVersion,
    check_key,
    watch_by,
)
from wakelog.typed_values import decode_json

POLL_SECONDS: Final = 0.05
"""How often a watch looks: one `stat` each."""

LOCK_POLL_SECONDS: Final = 0.01
FILE_BYTES_MAX: Final = 1 << 20
NAME_BYTES_MAX: Final = 255
"""Of one file, on every file system of Linux."""


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    value: str


class LockedFile:
    """The register of one folder, which is made when it is first needed."""

    def __init__(self, address: RegisterAddress) -> None:
        """Touch nothing yet. Raises: RegisterRefused for a path that is not absolute."""
        address.checked_options()
        if not os.path.isabs(address.place):
            raise RegisterRefused(
                f"{address.text} names no absolute path", "Give file:///PATH, with three slashes."
            )
        self._folder = os.path.normpath(address.place)
        self._is_folder_durable = False

    def read(self, key: str) -> Held:
        """Return the value and its version."""
        path = self._path(key)
        try:
            os.stat(self._folder)
        except FileNotFoundError:
            return NOTHING
        except OSError as error:  # it may be there
            raise _unreachable(error) from error
        with self._locked(key, fcntl.LOCK_SH):
            return self._read(path)

    def replace(self, key: str, value: bytes, version: str) -> str:
        """Replace the value if it still has this version; return the new one."""
        path = self._path(key)
        try:
            self._make_folder()
        except OSError as error:
            raise _unreachable(error) from error
        with self._locked(key, fcntl.LOCK_EX):
            held = self._read(path)
            if held.version != version:
                raise StaleVersion(f"{path} has version {held.version!r} and not {version!r}")
            content = _Content(secrets.token_hex(8), value.decode())
            scratch = self._write(msgspec.json.encode(content), path)
            try:
                os.rename(scratch, path)
                _sync_folder(self._folder)
            except OSError as error:
                raise AnswerLost(f"{path} was replaced, but not for certain: {error}") from error
            return content.version

    def watch(self, key: str, version: str, seconds_max: float) -> Held:
        """Return what is held as soon as it has another version, at the latest in time."""
        seen = self._identity(key)

        def wait_change(_held: Held, seconds: float) -> bool:
            nonlocal seen
            end = time.monotonic() + seconds
            while (now := self._identity(key)) == seen and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            seen = now
            return True

        return watch_by(lambda: self.read(key), wait_change, version, seconds_max)

    def close(self) -> None:
        """Nothing is open between calls."""

    def _make_folder(self) -> None:
        """Make the folder, durably: a power cut must not take it with what was promised in it.

        Another process may have made it, and died before it was durable. So the first replace
        syncs the folder above, too, if it may. Raises: OSError.
        """
        folder, missing = self._folder, []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        if missing:
            os.makedirs(self._folder, exist_ok=True)
            for made in missing:
                _sync_folder(os.path.dirname(made))
        elif not self._is_folder_durable:
            with suppress(PermissionError):
                _sync_folder(os.path.dirname(self._folder))
        self._is_folder_durable = True

    def _path(self, key: str) -> str:
        check_key(key)
        name = quote(key, safe="") + ".json"
        if len(name) > NAME_BYTES_MAX:
            cause = f"{key!r} is too long for the name of a file, {len(name)} bytes with escapes"
            raise RegisterRefused(cause, "Give the cluster or the broker a shorter name.")
        return os.path.join(self._folder, name)

    def _identity(self, key: str) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path(key))
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read(self, path: str) -> Held:
        try:
            with open(path, "rb") as file:
                text = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return NOTHING
        except OSError as error:
            raise _unreachable(error) from error
        try:
            content = decode_json(text, _Content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            remedy = "Something else has written it: move it away, or name another folder."
            raise RegisterRefused(f"{path} is no file of a register: {error}", remedy) from None
        if content.version == NO_VERSION:
            raise RegisterRefused(f"{path} has an empty version", "Move it away.")
        return Held(content.value.encode(), content.version)

    def _write(self, text: bytes, replaced: str) -> str:
        """Return the path of a new file with the text, synced, with the mode of the replaced."""
        path = ""
        try:
            descriptor, path = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with open(descriptor, "wb") as file:
                _give_to_owner(descriptor, self._folder)
                with suppress(FileNotFoundError):
                    os.fchmod(descriptor, stat.S_IMODE(os.stat(replaced).st_mode))
                file.write(text)
                file.flush()
                os.fsync(descriptor)
        except OSError as error:
            if path:
                with suppress(OSError):
                    os.unlink(path)
            raise _unreachable(error) from error
        return path

    @contextmanager
    def _locked(self, key: str, how: int) -> Iterator[None]:
        """Hold the lock of a key. Raises: RegisterUnreachable if it is not free in time."""
        lock_path = self._path(key).removesuffix(".json") + ".lock"
        try:
            descriptor = _open_lock(lock_path, self._folder)
        except OSError as error:
            raise _unreachable(error) from error
        try:
            end = time.monotonic() + CALL_SECONDS_MAX
            while not _try_lock(descriptor, how):
                if time.monotonic() >= end:
                    cause = f"{lock_path} is held by another process for {CALL_SECONDS_MAX:.0f} s"
                    raise RegisterUnreachable(cause, "Look for a process that was stopped.")
                time.sleep(LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _open_lock(path: str, folder: str) -> int:
    """Return the lock's file, which is made if it is not there. Raises: OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        # Only what this call has made gets another owner: a link could lead anywhere.
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)
    try:
        _give_to_owner(descriptor, folder)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _give_to_owner(descriptor: int, folder: str) -> None:
    """Give a new file of root's to the folder's owner. Raises: OSError."""
    if os.geteuid() == 0:
        found = os.stat(folder)
        os.fchown(descriptor, found.st_uid, found.st_gid)


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unreachable(error) from error
    return True


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unreachable(error: OSError) -> RegisterUnreachable:
    return RegisterUnreachable(
        f"the register's file: {error}", "Look at the folder, its rights and the disk's free space."
    )
