"""Open the store of one broker: lock it, end earlier services, recover it, and claim it by name.

Runs in a thread, because a recovery may take long.

A service that writes the store holds a byte of its lock file. A Broker that starts has its own byte
already, so the holders of the other bytes work for a Broker that is gone. Recovery cuts the log and
its queues, so it must not begin before they stopped. They were asked to release the store. One that
did not, because it hangs or was stopped by a signal, is killed, and Ray starts it again.

Invariant: only a process that holds a byte of this store's lock file is killed; only our services
hold one.

Source: org.apache.rocketmq.store.DefaultMessageStore.load, start (4.9.3).
"""

import os
import signal
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from wakelog.actors.services.segment_source import SegmentSource
from wakelog.actors.services.session import BROKER, open_logs
from wakelog.actors.services.table import lock_bytes
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_identity import claim_identity, read_identity
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreError, StoreLocked
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.allocate import InlineSegments
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.message_store import MessageStore
from wakelog.storage.store_parts import BROKER_OWNER, OpenOptions
from wakelog.telemetry.logs import Log, logger

RELEASE_SECONDS_MAX = 1.0
"""A service that was asked to release the store does so between two steps, some milliseconds."""

END_SECONDS_MAX = 10.0
"""A killed process may be in a write that the disk delays."""

POLL_SECONDS = 0.01


class OpenedStore(NamedTuple):
    """A store that is locked and recovered, its id, and where its log gets its segments."""

    store: MessageStore
    store_id: str
    segments: SegmentSource


def open_store(
    fs: FileSystem,
    plan: ServicePlan,
    expected_store_id: str | None,
    log_begin: int = 0,
) -> OpenedStore:
    """Lock and recover the store of a plan, and claim it for its broker.

    expected_store_id: the store that this broker ran on before; None if any may be opened.
    log_begin: where an empty log begins: for a slave, where its master's does.

    Raises: StoreError; nothing is left open then.
    """
    config = plan.settings.store
    identity = read_identity(fs, config.paths.store_identity)
    new_store_id = str(uuid.uuid4()) if identity is None else identity.store_id
    sources: list[SegmentSource] = []

    def make_source(files: MappedFileQueue) -> SegmentSource:
        sources.append(SegmentSource(files, InlineSegments(fs, config.paths, files, BROKER_OWNER)))
        if config.appends:
            sources[0].make_first()
        return sources[0]

    def after_lock() -> None:
        if not plan.in_one_process:
            open_logs(plan, BROKER, wall_ms(), plan.name)
        end_holders(fs, config.paths.lock, lock_bytes(plan))
        if log_begin and is_log_empty(fs, config):
            files = commit_log_files(fs, config)
            InlineSegments(fs, config.paths, files, BROKER_OWNER).take_segment(log_begin)

    store = MessageStore.open(
        fs,
        config,
        wall_ms(),
        physical_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        options=OpenOptions(
            pool_directory=f"{plan.memory_directory}/wakelog-pool-{new_store_id}",
            segment_source=make_source,
            start_guard=True,
            after_lock=after_lock,
        ),
    )
    try:
        claimed = claim_identity(
            fs,
            config.paths.store_identity,
            broker_name=plan.settings.broker.broker_name,
            new_store_id=new_store_id,
            expected_store_id=expected_store_id,
        )
    except StoreError:
        store.close(dispatch_behind_bytes=1)
        raise
    return OpenedStore(store, claimed.store_id, sources[0])


def is_log_empty(fs: FileSystem, config: StoreConfig) -> bool:
    """Tell whether a store has no segment."""
    files = commit_log_files(fs, config, read_only=True)
    files.refresh()
    return files.last is None


def end_holders(fs: FileSystem, lock_path: str, lock_bytes: Mapping[str, int]) -> None:
    """Return when no other process writes the store.

    To be called with the Broker's byte held.

    lock_bytes: the byte of each service.

    Raises: StoreLocked, if a killed process is still there because it waits for its disk.
    """
    for service, byte in lock_bytes.items():
        held = _wait_free(fs, lock_path, byte, RELEASE_SECONDS_MAX)
        if held is None:
            continue
        if held.holder_pid is None:
            raise held
        logger(Log.BROKER).warning("holder killed", service=service, process=held.holder_pid)
        with suppress(ProcessLookupError):
            os.kill(held.holder_pid, signal.SIGKILL)
        held = _wait_free(fs, lock_path, byte, END_SECONDS_MAX)
        if held is not None:
            raise held


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
