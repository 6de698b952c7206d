"""What is not a crash: another broker on the store, and bits that change.

Each experiment raises Violation if a promise is broken.
"""

from random import Random
from typing import NamedTuple

from tests.simulation.client import ClientView, Sent
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.faults import SECTOR_BYTES
from tests.simulation.images import Model
from tests.simulation.journal import Synced, SyncedDirectory
from tests.simulation.machine import BEGIN_MS, Machine
from tests.simulation.oracle import Violation, check_machine
from tests.simulation.trial import RECOVERED_LATER_MS, Tally, Trial
from tests.simulation.workloads import apply
from wakelog.protocol.record import STORE_TIMESTAMP_OFFSET_V4
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import FOREIGN_TEXT
from wakelog.storage.durability.sum_keeper import ChangedBlock, compare_sums
from wakelog.storage.errors import StoreLocked

STEPS = ("put", "put", "flush", "batch", "flush", "dispatch", "derive", "put", "flush", "dispatch")
AFTERWARDS = ("flush", "dispatch", "put", "flush", "dispatch", "derive", "put", "flush")
DISPATCHED_AGAIN_STEPS = ("dispatch", "derive")


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


class Left(NamedTuple):
    """What a killed broker left on the disk, of which each experiment gets a copy."""

    config: StoreConfig
    image: Image
    view: ClientView


def left_behind(config: StoreConfig, *more_steps: str) -> Left:
    """Run a broker through `STEPS` and then more, and kill it."""
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    for step in more_steps:
        machine = apply(machine, step, config)
    machine.abandon()
    return Left(config, disk.image(), disk.view)


def flipped_bit(left: Left, seed: int, *, is_expected: bool = False) -> None:
    """Change a bit of an acknowledged record: all others stay, whatever recovery makes of it.

    is_expected: without the position of what is dispatched recovery checks whole segments.
    """
    rng = Random(seed)
    disk = SimulatedDisk(left.image)
    config, view = left.config, left.view
    records = [record for record in view.sent.values() if record.end <= view.acknowledged]
    victim = rng.choice(records)
    bit = _flip(disk, config, victim, rng)
    if is_expected:
        del disk.files[config.paths.dispatched]
    machine = Machine(disk, config, BEGIN_MS + RECOVERED_LATER_MS)
    try:
        recovery = machine.store.recovery
        if recovery.log_end < view.acknowledged or recovery.quarantined:
            raise Violation("I8", f"bit {bit} at {victim.physical_offset} cut the log: {recovery}")
        for stretch in recovery.damaged:
            if (stretch.begin, stretch.end) != (victim.physical_offset, victim.end):
                raise Violation("I8", f"bit {bit} at {victim.physical_offset} hides {stretch}")
        for record in records:
            if record is victim:
                continue
            found = machine.store.record_bytes(record.physical_offset, len(record.record))
            if found != record.record:
                place = record.physical_offset
                raise Violation("I8", f"bit {bit} at {victim.physical_offset} took {place} away")
    finally:
        machine.abandon()


def summed_bit(config: StoreConfig, seed: int) -> None:
    """Change a bit of what has a sum, be it of a header: the sums tell in which block."""
    rng = Random(seed)
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    machine.sum_durable()
    end = sum(
        compared for compared in compare_sums(machine.fs, config) if isinstance(compared, int)
    )
    if not end:
        raise Violation("I8", "nothing has a sum")
    position = rng.randrange(min(end, config.commit_log_file_bytes))
    path = f"{config.paths.commit_log_directories[0]}/{0:020d}"
    disk.flip(path, 8 * position + rng.randrange(8))
    found = [one for one in compare_sums(machine.fs, config) if isinstance(one, ChangedBlock)]
    machine.abandon()
    if len(found) != 1 or not found[0].begin <= position < found[0].end:
        raise Violation("I8", f"a bit at {position} changed, and the sums say {found}")


def torn_bit(left: Left, seed: int) -> None:
    """Change a bit of what was never synced: that is a torn tail, and all before it stays."""
    rng = Random(seed)
    disk = SimulatedDisk(left.image)
    config, view = left.config, left.view
    victim = rng.choice([one for one in view.sent.values() if one.end > view.acknowledged])
    bit = _flip(disk, config, victim, rng)
    machine = Machine(disk, config, BEGIN_MS + RECOVERED_LATER_MS)
    try:
        recovery = machine.store.recovery
        where = f"bit {bit} at {victim.physical_offset}"
        if recovery.damaged:
            raise Violation("I9", f"{where} is taken for damage: {recovery.damaged}")
        if recovery.log_end not in (victim.physical_offset, max(view.sent.values()).end):
            raise Violation("I8", f"{where} ends the log at {recovery.log_end}")
    finally:
        machine.abandon()


def misdirected_write(config: StoreConfig, seed: int) -> None:
    """Let a message's write land elsewhere in its segment, or nowhere: nothing else is missing.

    With an odd seed recovery checks whole segments, and lists the place.
    """
    rng = Random(seed)
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    for _ in range(seed % 3):
        machine = apply(machine, "put", config)
    before = set(disk.view.sent)
    by = rng.choice(_landings(machine.store.log.appended_offset, config.commit_log_file_bytes))
    disk.faults.misdirect(nth=1, by=by)
    machine = apply(machine, "put", config)
    (place,) = disk.view.sent.keys() - before
    victim = disk.view.sent[place]
    for step in AFTERWARDS:
        machine = apply(machine, step, config)
    view = disk.view.copy()
    machine.abandon()
    hit = range(0) if by is None else range(victim.physical_offset + by, victim.end + by)
    if seed % 2:
        del disk.files[config.paths.dispatched]
    machine = Machine(disk, config, machine.now_ms + RECOVERED_LATER_MS)
    try:
        recovery = machine.store.recovery
        listed = any(one.begin <= place < one.end for one in recovery.damaged)
        if recovery.log_end < view.acknowledged or listed < seed % 2:
            raise Violation("I8", f"{place} was not written, by {by}: {recovery}")
        for record in view.sent.values():
            is_hit = record.physical_offset < hit.stop and hit.start < record.end
            found = machine.store.record_bytes(record.physical_offset, len(record.record))
            if record is not victim and not is_hit and found != record.record:
                raise Violation("I8", f"{place}, by {by}, took {record.physical_offset} away")
            if record is victim and found is not None:
                raise Violation("I8", f"{place} is served, and was never written")
    finally:
        machine.abandon()


def _landings(position: int, segment_bytes: int) -> list[int | None]:
    """Return by how much a write may miss and stay in its segment; None for nowhere."""
    at = position % segment_bytes
    inside = range(segment_bytes - SECTOR_BYTES + 1)
    return [None, *(by for by in (-1024, -512, 512) if at + by in inside)]


def lost_tail(config: StoreConfig, seed: int) -> None:
    """Take the last records from a disk that had called them durable: that is damage, not the end.

    Queues, index and their position are as they were: only the log tells.
    """
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    if seed % 2:
        machine = apply(machine, "derive", config)
    view = disk.view.copy()
    machine.abandon()
    records = [record for record in view.sent.values() if record.end <= view.acknowledged]
    first = Random(seed).choice(records)
    fs = disk.process()
    for record in records:
        if record.physical_offset >= first.physical_offset:
            segment = record.physical_offset - record.physical_offset % config.commit_log_file_bytes
            fd = fs.open(f"{config.paths.commit_log_directories[0]}/{segment:020d}")
            fs.pwrite(fd, bytes(len(record.record)), record.physical_offset - segment)
            fs.close(fd)
    fs.kill()
    machine = Machine(disk, config, BEGIN_MS + RECOVERED_LATER_MS)
    try:
        recovery = machine.store.recovery
        lost = [(first.physical_offset, view.acknowledged)]
        if [(one.begin, one.end) for one in recovery.damaged] != lost:
            raise Violation("I8", f"lost is {lost}, found {recovery.damaged}")
        if recovery.log_end != view.acknowledged or recovery.quarantined:
            raise Violation("I8", f"the log was cut: {recovery}")
    finally:
        machine.abandon()


def lost_entries(config: StoreConfig, seed: int) -> None:
    """Take all entries from a queue that was durable, its only one or some: nothing else goes.

    No message gets their queue offsets again, however far in front their records lie.
    """
    _check_next(_entries_gone(config, seed))


def lost_again(config: StoreConfig, seed: int, model: Model, tally: Tally) -> None:
    """Crash everywhere while entries that were lost are made again, and those starts as well."""
    left = _entries_gone(config, seed, is_all=seed % 3 == 2)
    disk = SimulatedDisk(left.image)
    disk.view = left.view.copy()
    now_ms = BEGIN_MS + RECOVERED_LATER_MS
    machine = Machine(disk, config, now_ms)
    for step in DISPATCHED_AGAIN_STEPS:
        machine = apply(machine, step, config)
    machine.abandon()
    trial = Trial(config, model, seed, tally)
    trial.crash(disk, left.view.copy(), machine.now_ms + RECOVERED_LATER_MS, lives_on=True)


def lost_folders(config: StoreConfig, seed: int, folders: tuple[str, ...]) -> None:
    """Take all files of queues, of the index or of both: a start makes them again."""
    disk, view, _ = _dispatched(config, seed)
    for path in list(disk.files):
        if path.startswith(folders):
            del disk.files[path]
    _check_next(Left(config, disk.image(), view))


def _check_next(left: Left) -> None:
    """Start on what is left: every message is served, queues and index are what the log gives."""
    disk = SimulatedDisk(left.image)
    disk.view = left.view.copy()
    machine = Machine(disk, left.config, BEGIN_MS + RECOVERED_LATER_MS)
    try:
        machine.dispatch_step()
        check_machine(machine, left.view, whole=True)
    finally:
        machine.abandon()


def _dispatched(config: StoreConfig, seed: int) -> tuple[SimulatedDisk, ClientView, Random]:
    """Return a store all of whose log was dispatched, its broker stopped or killed."""
    rng = Random(seed)
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    for _ in range(seed % 6):
        machine = apply(machine, "roll", config)
    machine = apply(machine, "flush", config)
    machine = apply(machine, "dispatch", config)
    if seed % 4 == 3:
        machine = apply(machine, "trim", config)
    if rng.random() < 0.5:
        machine = apply(machine, "derive", config)
    view = disk.view.copy()
    if rng.random() < 0.5:
        machine.stop()
        machine.fs.kill()
    else:
        machine.abandon()
    return disk, view, rng


def _entries_gone(config: StoreConfig, seed: int, *, is_all: bool = False) -> Left:
    """Return a store in which a queue has files and no entry, or no queue has a file."""
    disk, view, rng = _dispatched(config, seed)
    records = list(view.sent.values())
    victim = rng.choice(records)
    directory = config.paths.consume_queue(victim.topic, victim.queue_id) + "/"
    begin = rng.choice((0, 8, 10))
    all_queues = config.paths.consume_queue_root + "/"
    for path, inode in list(disk.files.items()):
        if is_all and path.startswith(all_queues):
            del disk.files[path]
        elif path.startswith(directory):
            for at in range(0, len(inode.data), 20):
                inode.data[at + begin : at + 20] = bytes(20 - begin)
    return Left(config, disk.image(), view)


def another_owner(config: StoreConfig, seed: int) -> None:
    """Let a broker that knows no watermark cut below it and write on: nothing old comes back.

    Like 4.9.3 it ends the log at damage, in memory only, writes over what lies there, and is killed
    before it writes its checkpoint.
    """
    disk = SimulatedDisk()
    machine = _lived(disk, config)
    machine.sum_durable()
    view = disk.view.copy()
    machine.abandon()
    victim = Random(seed).choice(list(view.sent.values())[:4])
    fs = disk.process()
    lock_fd = fs.open(config.paths.lock)
    fs.pwrite(lock_fd, FOREIGN_TEXT, 0)
    fs.close(lock_fd)
    segment = victim.physical_offset - victim.physical_offset % config.commit_log_file_bytes
    path = f"{config.paths.commit_log_directories[0]}/{segment:020d}"
    fd = fs.open(path)
    later_ms = BEGIN_MS + RECOVERED_LATER_MS
    record = bytearray(victim.record)
    record[STORE_TIMESTAMP_OFFSET_V4 : STORE_TIMESTAMP_OFFSET_V4 + 8] = later_ms.to_bytes(8, "big")
    fs.pwrite(fd, bytes(record), victim.physical_offset - segment)
    # The next one is torn, and followed by earlier ones.
    fs.pwrite(fd, bytes(20), victim.end - segment)
    fs.close(fd)
    fs.set_modified_ms(path, later_ms)
    fs.kill()
    machine = Machine(disk, config, later_ms + RECOVERED_LATER_MS)
    try:
        if machine.store.recovery.watermark:
            raise Violation("I8", f"trusted after another broker: {machine.store.recovery}")
        if machine.store.recovery.log_end != victim.end:
            raise Violation("I2", f"after {victim.end} old messages came back")
        if any(isinstance(compared, ChangedBlock) for compared in compare_sums(machine.fs, config)):
            raise Violation("I9", "what another broker wrote is taken for damage")
    finally:
        machine.abandon()


def _flip(disk: SimulatedDisk, config: StoreConfig, victim: Sent, rng: Random) -> int:
    segment = victim.physical_offset - victim.physical_offset % config.commit_log_file_bytes
    path = f"{config.paths.commit_log_directories[0]}/{segment:020d}"
    bit = rng.randrange(8 * len(victim.record))
    disk.flip(path, 8 * (victim.physical_offset - segment) + bit)
    return bit


def _lived(disk: SimulatedDisk, config: StoreConfig) -> Machine:
    machine = Machine(disk, config, BEGIN_MS)
    for step in STEPS:
        machine = apply(machine, step, config)
    return machine
