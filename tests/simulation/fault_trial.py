"""Fail the nth call of a kind, for every n, until a run meets no failure any more.

A workload runs on with one failing call in it: what raises StoreError is a step that was refused,
and clients get an error. Anything else that is raised is a violation. Afterwards the disk is well
again, the broker is killed and started again over the page cache as it is, and then the machine
goes down: what was acknowledged, before and after, must be there.

Source: the I/O error tests of SQLite count the failing call up in the same way.
"""

import errno
from random import Random
from typing import NamedTuple

from tests.simulation.client import ClientView
from tests.simulation.disk import SimulatedDisk
from tests.simulation.faults import WRITE_BACK, Failure, SyncFailure
from tests.simulation.images import Model, Platter, digest
from tests.simulation.journal import Mark
from tests.simulation.machine import BEGIN_MS, Machine
from tests.simulation.oracle import Violation, check_image
from tests.simulation.trial import RECOVERED_LATER_MS, Tally, Trial
from tests.simulation.workloads import INDEX_CUT, apply
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError

FAULT_WORKLOAD = (
    "put", "flush", "dispatch", "derive", "commit", "batch", "put", "flush", "dispatch",
    "roll", "flush", "put", "put", "flush", "dispatch", "derive", "commit", "trim", "put", "flush",
    "stop", "put", "flush", "dispatch", "derive",
)  # fmt: skip
LATER_STEPS = ("put", "flush", "dispatch", "derive", "put", "flush")
LOWERED_STEPS = ("put", "put", "put", "flush", "dispatch", "put", "flush", "derive")
NAMED_STEPS = ("put", "flush", "roll", "roll", "flush", "put", "flush", "dispatch")
NTH_MAX = 2_000
IMAGES_AT_END = 4


class Fault(NamedTuple):
    """Which calls are made to fail, and how."""

    call: str
    failure: Failure


FAULTS = (
    *(
        Fault(call, Failure(number))
        for call, number in (
            ("open", errno.EMFILE),
            ("open", errno.EIO),
            ("open", errno.ENOSPC),
            ("pread", errno.EIO),
            ("pwrite", errno.EIO),
            ("pwrite", errno.ENOSPC),
            ("allocate", errno.ENOSPC),
            ("reserve", errno.ENOSPC),
            ("truncate", errno.EIO),
            ("rename", errno.EIO),
            ("rename_new", errno.ENOSPC),
            ("unlink", errno.EIO),
            ("mkdir", errno.ENOSPC),
            ("list_directory", errno.EMFILE),
            ("sync_directory", errno.EIO),
        )
    ),
    Fault("pwrite", Failure(errno.ENOSPC, is_short=True)),
    Fault("pwrite", Failure(errno.EIO, is_short=True)),
    *(
        Fault(call, Failure(sync_failure=model))
        for call in ("datasync", "sync")
        for model in SyncFailure
    ),
    *(
        Fault(WRITE_BACK, Failure(sync_failure=model))
        for model in (SyncFailure.CLEAN_NEW, SyncFailure.CLEAN_OLD)
    ),
)


def run_fault(
    fault: Fault,
    nth: int,
    config: StoreConfig,
    model: Model,
    tally: Tally,
    *,
    machine_type: type[Machine] = Machine,
    disk_type: type[SimulatedDisk] = SimulatedDisk,
) -> bool:
    """Run the workload with one failing call; False if it was never reached. Raises: Violation."""
    disk = disk_type()
    disk.faults.fail(fault.call, fault.failure, nth=nth)
    machine, now_ms = _run(disk, None, FAULT_WORKLOAD, config, machine_type, BEGIN_MS)
    struck = disk.faults.struck_count > 0
    disk.faults.heal()
    if machine is not None:
        machine.abandon()
    now_ms += RECOVERED_LATER_MS
    # A start may be refused by an error that was not reported yet; the next one is not.
    machine, now_ms = _run(disk, None, LATER_STEPS, config, machine_type, now_ms)
    if machine is None:
        raise Violation("I9", f"{fault} {nth}: the store does not open any more")
    machine.abandon()
    _crash_at_end(disk, config, model, tally, now_ms, machine_type)
    return struck


def run_failed_name(nth: int, config: StoreConfig, model: Model, tally: Tally) -> bool:
    """Let a sync of names fail, and the machine go down before a start makes that good.

    Returns: False if the sync was never reached. Raises: Violation.
    """
    disk = SimulatedDisk()
    disk.faults.fail("sync_directory", Failure(), nth=nth)
    machine, now_ms = _run(disk, None, NAMED_STEPS, config, Machine, BEGIN_MS)
    struck = disk.faults.struck_count > 0
    if machine is not None:
        machine.abandon()
    _crash_at_end(disk, config, model, tally, now_ms, Machine)
    return struck


def run_failed_lowering(
    nth: int, config: StoreConfig, model: Model, tally: Tally, *, lives_on: bool = False
) -> bool:
    """Let a sync fail of a start that finds the log shorter than what is known to be durable.

    The next start comes without a reboot, the log grows over the place again, and all of that is
    crashed. Returns: False if the sync was never reached. Raises: Violation.
    """
    disk = SimulatedDisk()
    machine, now_ms = _run(disk, None, INDEX_CUT[0], config, Machine, BEGIN_MS)
    assert machine is not None
    machine.abandon()
    platter = Platter(disk.origin, model)
    for operation in disk.journal:
        platter.take(operation)
    view = disk.view.copy()
    view.lose_cache(synchronous=config.synchronous_flush)
    left = SimulatedDisk(platter.image(frozenset()))
    left.view = view.copy()
    left.faults.fail("datasync", Failure(), nth=nth)
    now_ms += RECOVERED_LATER_MS
    machine, now_ms = _run(left, None, (), config, Machine, now_ms)
    struck = left.faults.struck_count > 0
    left.faults.heal()
    machine, now_ms = _run(left, machine, LOWERED_STEPS, config, Machine, now_ms)
    if machine is None:
        raise Violation("I9", f"sync {nth}: the store does not open any more")
    machine.abandon()
    trial = Trial(config, model, nth, tally)
    trial.crash(left, view, now_ms + RECOVERED_LATER_MS, lives_on=lives_on)
    return struck


def _run(
    disk: SimulatedDisk,
    machine: Machine | None,
    steps: tuple[str, ...],
    config: StoreConfig,
    machine_type: type[Machine],
    now_ms: int,
) -> tuple[Machine | None, int]:
    """Run steps; a broker that will not start, or stops taking messages, is started again."""
    for step in ("start", *steps):
        try:
            if machine is None:
                machine = machine_type(disk, config, now_ms)
            if step != "start":
                machine = apply(machine, step, config)
            if not machine.store.writable:
                machine.abandon()
                machine = machine_type(disk, config, machine.now_ms)
        except StoreError:
            if machine is not None and (step in ("stop", "kill") or machine.fs.is_dead):
                machine.fs.kill()
                machine = None
        except Exception as error:
            raise Violation("I9", f"{step}: {type(error).__name__}: {error}") from error
        now_ms = max(now_ms, machine.now_ms if machine is not None else 0)
    return machine, now_ms


def _crash_at_end(
    disk: SimulatedDisk,
    config: StoreConfig,
    model: Model,
    tally: Tally,
    now_ms: int,
    machine_type: type[Machine],
) -> None:
    platter = Platter(disk.origin, model)
    view = ClientView()
    for operation in disk.journal:
        platter.take(operation)
        if isinstance(operation, Mark):
            view.take(operation.event)
    rng = Random(len(disk.journal))
    for chosen in list(platter.candidates(rng))[:IMAGES_AT_END]:
        image = platter.image(chosen)
        tally.seen.setdefault(digest(image), 1)
        tally.checks_count += 1
        check_image(
            image,
            view,
            config,
            now_ms + RECOVERED_LATER_MS,
            whole=False,
            machine_type=machine_type,
        ).abandon()
