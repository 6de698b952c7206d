"""End the services that still write a store for a broker that died.

A service that writes the store holds a byte of its lock file. A Broker that starts has its own byte
already, so the holders of the other bytes work for a Broker that is gone. Recovery cuts the log and
its queues, so it must not begin before they stopped. They were asked to release the store. One that
did not, because it hangs or was stopped by a signal, is killed, and Ray starts it again.

Invariant: only a process that holds a byte of this store's lock file is killed; only our services
hold one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress

from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import Log, logger

RELEASE_SECONDS_MAX = 1.0
"""A service that was asked to release the store does so between two steps, some milliseconds."""

END_SECONDS_MAX = 10.0
"""A killed process may be in a write that the disk delays."""

POLL_SECONDS = 0.01


def end_holders(fs: FileSystem, lock_path: str, lock_bytes: Mapping[str, int]) -> list[int]:
    """Return when no other process writes the store; return the processes that were killed.

    To be called with the Broker's byte held.

    lock_bytes: the byte of each service.

    Raises: StoreLocked, if a killed process is still there because it waits for its disk.
    """
    killed: list[int] = []
    for service, byte in lock_bytes.items():
        held = _wait_free(fs, lock_path, byte, RELEASE_SECONDS_MAX)
        if held is None:
            continue
        if held.holder_pid is None:
            raise held
        logger(Log.BROKER).warning("holder killed", service=service, process=held.holder_pid)
        killed.append(held.holder_pid)
        with suppress(ProcessLookupError):
            os.kill(held.holder_pid, signal.SIGKILL)
        held = _wait_free(fs, lock_path, byte, END_SECONDS_MAX)
        if held is not None:
            raise held
    return killed


def _wait_free(fs: FileSystem, path: str, byte: int, seconds_max: float) -> StoreLocked | None:
    """Return None when a byte is free, or the last error after `seconds_max`."""
    end = time.monotonic() + seconds_max
    while True:
        try:
            StoreLock(fs, path, byte).release()
        except StoreLocked as locked:
            if time.monotonic() >= end:
                return locked
            time.sleep(POLL_SECONDS)
        else:
            return None
