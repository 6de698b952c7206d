"""Find the log's end from where the plan says; after a crash from further below, if need be.

Positions (`plan.py`) let a recovery begin where the log was durable. That is not believed in two
cases, and then all is checked that the checkpoint's times lead to:

- What stands just below is not sound, or ends elsewhere (`segments.py`).
- Something that was durable is damaged behind it: more may be below.

However the stop before was, a queue with files and no entry has lost what it had, unless its first
record is among those that are checked: then all of the log is checked, and dispatched again.

Invariants: what is found damaged below the watermark is listed, and never the end of the log.

Source: org.apache.rocketmq.store.CommitLog.recoverNormally, recoverAbnormally (4.9.3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import CheckpointTimes
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.recovery.log_end import LogEnd, LogEndSearch
from wakelog.storage.recovery.plan import (
    DurablePositions,
    Plan,
    plan_after_clean_exit,
    plan_after_crash,
)
from wakelog.storage.recovery.queue_ends import QueueEnds
from wakelog.storage.recovery.queue_repair import QueueRepair
from wakelog.storage.recovery.segments import reread_from_disk, store_time_below

LOST_NAMED_MAX: Final = 3


class SearchedStore(NamedTuple):
    """What is recovered; cut_at_damage: end the log at damage that was durable once, as 4.9.3."""

    fs: FileSystem
    config: StoreConfig
    files: MappedFileQueue
    queues: QueueRepair
    times: CheckpointTimes
    cut_at_damage: bool


class Searched(NamedTuple):
    """Where the log ends by which plan, and what its records say of their queues.

    doubt: why positions that were known were not believed; None if they were, or were not known.
    """

    plan: Plan
    end: LogEnd
    ends: QueueEnds
    doubt: str | None = None


def search_after_clean_exit(store: SearchedStore, watermark: int) -> Searched:
    """Check the last segments. Raises: StoreFailed."""
    plan = plan_after_clean_exit(store.files, store.queues.max_physical_offset)
    found = _search(store, plan, watermark, may_be_torn=False)
    lost = _queues_lost(store, found)
    if not lost:
        return found
    plan = _of_all(store, plan)
    return _search(store, plan, watermark, may_be_torn=False)._replace(doubt=lost)


def search_after_crash(store: SearchedStore, durable: DurablePositions) -> Searched:
    """Check what may not be durable, by positions or by times. Raises: StoreFailed."""
    found = _search_after_crash(store, durable)
    lost = _queues_lost(store, found)
    if not lost:
        return found
    plan = _of_all(store, found.plan)
    return _search_anew(store, plan, durable.watermark)._replace(doubt=lost)


def _queues_lost(store: SearchedStore, found: Searched) -> str | None:
    """Say which queues have lost all of their entries, None if none has.

    A Reput that is killed while it makes a queue leaves one without entries, too: then its first
    record is one that is dispatched again.
    """
    lost = []
    for (topic, queue_id), begin in store.queues.blank.items():
        first, place = found.ends.first((topic, queue_id)) or (None, 0)
        if first != begin or place < found.plan.dispatch_from:
            lost.append(f"{topic}/{queue_id}")
    if not lost or found.plan.dispatch_from <= store.files.min_offset:
        return None
    return f"queues have files and no entries: {', '.join(sorted(lost)[:LOST_NAMED_MAX])}"


def _of_all(store: SearchedStore, plan: Plan) -> Plan:
    begin = store.files.min_offset
    return plan._replace(dispatch_from=begin, checked_from=begin, by_position=False)


def _search_after_crash(store: SearchedStore, durable: DurablePositions) -> Searched:
    plan = _plan(store, durable)
    if not plan.by_position:
        return _search_anew(store, plan, durable.watermark)
    doubt = f"the records in front of {plan.checked_from} are not what they were"
    last_ms = store_time_below(store.fs, store.files, plan.checked_from)
    if last_ms is not None:
        found = _search_anew(store, plan, durable.watermark, last_ms=last_ms)
        if not found.end.damaged:
            return found
        doubt = f"what was durable is damaged at {found.end.damaged[0].begin}"
    by_times = _plan(store, durable._replace(dispatched=0))
    return _search_anew(store, by_times, durable.watermark)._replace(doubt=doubt)


def _plan(store: SearchedStore, durable: DurablePositions) -> Plan:
    queues_end = store.queues.max_physical_offset
    return plan_after_crash(store.config, store.files, store.times, queues_end, durable)


def _search_anew(store: SearchedStore, plan: Plan, watermark: int, *, last_ms: int = 0) -> Searched:
    """Search what the disk holds, whatever the page cache shows."""
    if store.config.enable_consume_queue_extension:
        # A unit may be torn where its entry is not: both are made anew.
        store.queues.cut_at(plan.dispatch_from)
    reread_from_disk(store.fs, store.files, plan.checked_from)
    return _search(store, plan, watermark, may_be_torn=True, last_ms=last_ms)


def _search(
    store: SearchedStore, plan: Plan, watermark: int, *, may_be_torn: bool, last_ms: int = 0
) -> Searched:
    config = store.config
    ends = QueueEnds(
        enable_multi_dispatch=config.enable_multi_dispatch, enable_lmq=config.enable_lmq
    )
    search = LogEndSearch(
        store.fs,
        store.files,
        ends,
        cut_from=plan.cut_from,
        # A slave of 4.9.3 notes it at dispatch; and its master sends again what is cut.
        durable_ms=store.times.physic_ms if config.appends else 0,
        check_body=config.check_crc_on_recover,
        cut_at_damage=store.cut_at_damage,
        may_be_torn=may_be_torn,
        watermark=watermark,
        last_ms=last_ms,
    )
    return Searched(plan, search.run(plan.checked_from), ends)
