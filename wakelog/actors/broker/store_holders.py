"""End whoever still writes a store for a broker that died.

Each service that writes the store holds a byte of its lock file for as long as it does. A Broker
that starts has taken its own byte, so the holders of the others work for one that is gone, and
recovery must not begin before they stopped: it cuts the log and its queues. They were asked to
let go; who has not, because it hangs or was stopped by a signal, is killed, and Ray starts it
again.

Invariant: nobody is killed but who holds a byte of this store's lock file, which only our
services do.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from wakelog.actors.services.session import LockByte
from wakelog.storage.durability.store_lock import BROKER_BYTE, StoreLock
from wakelog.storage.errors import StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import Log, logger

RELEASE_SECONDS_MAX = 1.0
"""A service that was told that its Broker is gone lets go between two steps, some milliseconds."""

END_SECONDS_MAX = 10.0
"""A killed process may be in a write that the disk delays."""

LOOK_SECONDS = 0.01


def end_holders(fs: FileSystem, lock_path: str) -> list[int]:
    """Return once nobody but this process writes the store; return whom it had to kill.

    To be called with the Broker's byte held.

    Raises: StoreLocked, if who was killed is still there: it waits for its disk.
    """
    killed: list[int] = []
    for byte in LockByte:
        if byte == BROKER_BYTE:
            continue
        held = _wait_free(fs, lock_path, byte, RELEASE_SECONDS_MAX)
        if held is None:
            continue
        if held.holder_pid is None:
            raise held
        logger(Log.BROKER).warning("holder killed", service=byte.name, process=held.holder_pid)
        killed.append(held.holder_pid)
        with suppress(ProcessLookupError):
            os.kill(held.holder_pid, signal.SIGKILL)
        held = _wait_free(fs, lock_path, byte, END_SECONDS_MAX)
        if held is not None:
            raise held
    return killed


def _wait_free(fs: FileSystem, path: str, byte: int, seconds_max: float) -> StoreLocked | None:
    """Return None once a byte is free, or what was said last after `seconds_max`."""
    end = time.monotonic() + seconds_max
    while True:
        try:
            StoreLock(fs, path, byte).release()
        except StoreLocked as locked:
            if time.monotonic() >= end:
                return locked
            time.sleep(LOOK_SECONDS)
        else:
            return None
