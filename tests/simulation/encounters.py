"""What is not a crash: a second broker at the door, and bits that change below what is durable.

Each experiment raises Violation if a promise is broken.
"""

from __future__ import annotations

from random import Random

from tests.simulation.disk import SimulatedDisk
from tests.simulation.journal import Synced, SyncedDirectory
from tests.simulation.machine import BEGIN_MS, Machine
from tests.simulation.oracle import Violation
from tests.simulation.trial import RECOVERED_LATER_MS
from tests.simulation.workloads import apply
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreLocked

STEPS = ("put", "put", "flush", "batch", "flush", "dispatch", "derive", "put", "flush", "dispatch")
LATER_RECORDS_MIN = 2
"""Damage is told from a torn tail by a record behind it that the checkpoint knows to be durable."""


def second_broker(config: StoreConfig) -> None:
    """Start a broker on the store of a running one: it must write nothing and be refused."""
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    machine = apply(machine, "put", config)
    noted_count = len(disk.journal)
    try:
        second = Machine(disk, config, machine.now_ms)
    except StoreLocked:
        pass
    else:
        second.abandon()
        raise Violation("F16", "two brokers run on one store")
    finally:
        machine.abandon()
    noted = disk.journal[noted_count:]
    written = [one for one in noted if not isinstance(one, (Synced, SyncedDirectory))]
    if written:
        raise Violation("F16", f"a refused broker did {written}")


def foreign_broker(config: StoreConfig) -> None:
    """Start a broker on a store that a 4.9.3 broker runs: its record lock must be seen."""
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    machine.abandon()
    foreign = disk.process()
    disk.files[config.paths.lock].locks[0] = foreign.pid
    try:
        Machine(disk, config, machine.now_ms).abandon()
    except StoreLocked:
        return
    raise Violation("F16", "the lock of a 4.9.3 broker was not seen")


def flipped_bit(config: StoreConfig, seed: int) -> None:
    """Change a bit of an acknowledged record: all others stay, whatever recovery makes of it."""
    rng = Random(seed)
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    view = disk.view.copy()
    machine.abandon()
    records = [record for record in view.sent.values() if record.end <= view.acknowledged]
    victim = rng.choice(records[:-LATER_RECORDS_MIN])
    segment = victim.physical_offset - victim.physical_offset % config.commit_log_file_bytes
    path = f"{config.paths.commit_log_directories[0]}/{segment:020d}"
    bit = rng.randrange(8 * len(victim.record))
    disk.flip(path, 8 * (victim.physical_offset - segment) + bit)
    machine = Machine(disk, config, BEGIN_MS + RECOVERED_LATER_MS)
    try:
        for record in records:
            if record is victim:
                continue
            found = machine.store.record_bytes(record.physical_offset, len(record.record))
            if found != record.record:
                place = record.physical_offset
                raise Violation("I8", f"bit {bit} at {victim.physical_offset} took {place} away")
    finally:
        machine.abandon()


def _lived(disk: SimulatedDisk, config: StoreConfig) -> Machine:
    machine = Machine(disk, config, BEGIN_MS)
    for step in STEPS:
        machine = apply(machine, step, config)
    return machine
