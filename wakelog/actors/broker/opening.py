"""Open the store of one broker: lock it, end earlier services, recover it, and claim it by name.

Runs in a thread, because a recovery may take long.

Source: org.apache.rocketmq.store.DefaultMessageStore.load, start (4.9.3).
"""

from __future__ import annotations

import os
import uuid
from typing import NamedTuple

from wakelog.actors.broker.store_holders import end_holders
from wakelog.actors.services.session import BROKER, open_logs
from wakelog.actors.services.table import lock_bytes
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.durability.store_identity import claim_identity, read_identity
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore
from wakelog.storage.store_parts import MakeSegmentSource, OpenOptions


class OpenedStore(NamedTuple):
    """A store that is locked and recovered, and its id."""

    store: MessageStore
    store_id: str


def open_store(
    fs: FileSystem,
    plan: ServicePlan,
    segment_source: MakeSegmentSource | None,
    *,
    expected_store_id: str | None,
) -> OpenedStore:
    """Lock and recover the store of a plan, and claim it for its broker.

    segment_source: where the log gets its segments; None makes them when they are needed.
    expected_store_id: the store that this broker ran on before; None if any may be opened.

    Raises: StoreError; nothing is left open then.
    """
    config = plan.settings.store
    identity = read_identity(fs, config.paths.store_identity)
    new_store_id = str(uuid.uuid4()) if identity is None else identity.store_id

    def after_lock() -> None:
        if not plan.in_one_process:
            open_logs(plan, BROKER, wall_ms())
        end_holders(fs, config.paths.lock, lock_bytes(plan))

    store = MessageStore.open(
        fs,
        config,
        wall_ms(),
        physical_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        options=OpenOptions(
            pool_directory=f"{plan.memory_directory}/wakelog-pool-{new_store_id}",
            segment_source=segment_source,
            start_guard=True,
            after_lock=after_lock,
        ),
    )
    try:
        claimed = claim_identity(
            fs,
            config.paths.store_identity,
            broker_name=plan.name,
            new_store_id=new_store_id,
            expected_store_id=expected_store_id,
        )
    except StoreError:
        store.close(dispatch_behind_bytes=1)
        raise
    return OpenedStore(store, claimed.store_id)
