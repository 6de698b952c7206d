"""What must hold after a recovery and its dispatch, whatever was left of the disk.

    I1  every acknowledged message is there, byte for byte, at its place in log and queue
    I2  no ghost: every record was sent, and none that a recovery found gone comes back
    I3  the log is contiguous: every record where it says it is, one blank at a segment's end
    I4  queues and index are what the log gives, entry for entry
    I5  a queue offset once shown to a consumer always is the same message
    I6  consumer offsets are the last saved text or one being saved, never gone, never past the end
    I7  recovering again changes nothing
    I9  nothing but StoreError is ever raised, and a crash alone raises nothing; recovery is bounded
    I10 what a recovery cuts from the log is in the quarantine

I8, no truncation below what was durable, is I1 where there is no damage; damage is tested apart.

The log is parsed here by the eight bytes of each record that say how long it is, and compared with
the bytes the client sent: nothing of production's parsing is trusted.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.fakes.stores import place_of
from tests.simulation.client import ClientView, QueueKey, Sent
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.kept_aside import Cut, cut_from, missing_of
from tests.simulation.machine import Machine, java_hash
from tests.simulation.units import is_address, unit_at, unit_of
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import read_deleted_topics
from wakelog.storage.durability.sum_keeper import ChangedBlock, compare_sums

_HEAD: Final = struct.Struct(">ii")
_ENTRY: Final = struct.Struct(">qiq")
_INDEX_HEADER: Final = struct.Struct(">qqqqii")
_INDEX_ENTRY: Final = struct.Struct(">iqii")
_SLOT: Final = struct.Struct(">i")
_MESSAGE_MAGIC: Final = -626843481
_BLANK_MAGIC: Final = -875286124
_PADDING: Final = (0, 0x7FFFFFFF, 0)

CALLS_FIXED_MAX: Final = 2_000
CALLS_PER_KIB_MAX: Final = 16
"""Recovery and dispatch of a store of n KiB may ask the disk so often."""


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        self.invariant = invariant
        super().__init__(invariant, text)  # as given: it goes from process to process

    def __str__(self) -> str:
        """Return both."""
        return ": ".join(self.args)


def check_image(
    image: Image,
    view: ClientView,
    config: StoreConfig,
    now_ms: int,
    *,
    whole: bool,
    records: bool = False,
    numbers: dict[str, int] | None = None,
    machine_type: type[Machine] = Machine,
) -> Machine:
    """Recover an image, dispatch and check all of it; return the machine, still running.

    whole: nothing that was written is missing, as after the death of a process alone.
    records, numbers: as of `SimulatedDisk`, for crashes of the recovery itself.
    """
    disk = SimulatedDisk(image, records=records, numbers=numbers)
    disk.view = view.copy()
    try:
        machine = machine_type(disk, config, now_ms)
    except Exception as error:
        raise Violation("I9", f"recovery failed: {type(error).__name__}: {error}") from error
    try:
        check_kept(machine.disk.image(), cut_by(machine), config)
        machine.dispatch_step()
        check_machine(machine, view, whole=whole)
    except Violation:
        machine.abandon()
        raise
    except Exception as error:
        machine.abandon()
        raise Violation("I9", f"{type(error).__name__}: {error}") from error
    size_kib = sum(map(len, image.files.values())) / 1024
    if disk.calls_count > CALLS_FIXED_MAX + CALLS_PER_KIB_MAX * size_kib:
        machine.abandon()
        raise Violation("I9", f"recovery made {disk.calls_count} calls for {size_kib:.0f} KiB")
    return machine


def cut_by(machine: Machine) -> list[Cut]:
    """Return what the recovery of a machine has cut of the image that it began with."""
    return cut_from(machine.disk.origin, machine.config, machine.store.recovery.log_end)


def check_kept(image: Image, cuts: Sequence[Cut], config: StoreConfig) -> None:
    """Check I10: what is cut is still there, or kept aside. Raises: Violation."""
    missing = missing_of(cuts, image.files, config)
    if missing is not None:
        size_bytes = len(missing.data)
        raise Violation("I10", f"{size_bytes} bytes cut at {missing.physical_offset} are gone")


def check_machine(machine: Machine, view: ClientView, *, whole: bool) -> None:
    """Check a machine that has recovered and dispatched. Raises: Violation."""
    if view.lied_about is not None:
        _check_kept(machine, view, view.lied_about)
        return
    log = read_log(machine)
    recovery = machine.store.recovery
    if recovery.damaged:
        raise Violation("I9", f"a crash taken for damage: {recovery.damaged}")
    if recovery.watermark_doubt is not None:
        raise Violation("I9", f"a crash taken for another broker: {recovery.watermark_doubt}")
    begin, end = machine.store.min_physical_offset, recovery.log_end
    _check_promises(machine, view, log, begin, end, whole=whole)
    _check_queues(machine, _in_queues(machine, view, log))
    if machine.config.message_index_enable:
        _check_index(machine, log)
    _check_offsets(machine, view, whole=whole)
    _check_sums(machine)


def _check_sums(machine: Machine) -> None:
    """Check that no sum that outlived a crash tells of damage where there is none."""
    if machine.fs.exists(machine.config.paths.sums_directory):
        for compared in compare_sums(machine.fs, machine.config):
            if isinstance(compared, ChangedBlock):
                raise Violation("I9", f"a sum takes [{compared.begin}, {compared.end}) for damaged")


def _check_kept(machine: Machine, view: ClientView, lied_about: range) -> None:
    """Check I1 alone: a disk that lied may have holes, which recovery takes for damage."""
    for place, record in view.sent.items():
        if place in lied_about or record.end > view.acknowledged:
            continue
        if machine.store.min_physical_offset <= place:
            found = machine.store.record_bytes(place, len(record.record))
            if found != record.record:
                raise Violation("I1", f"the acknowledged message at {place} is gone")


def read_log(machine: Machine) -> list[Sent]:
    """Parse the log's files as they are on the disk. Raises: Violation for I2, I3."""
    disk, config = machine.disk, machine.config
    sent = machine.disk.view.sent
    directory = config.paths.commit_log_directories[0] + "/"
    names = sorted(name for name in disk.files if name.startswith(directory))
    end = machine.store.log.appended_offset
    found: list[Sent] = []
    expected = machine.store.min_physical_offset
    for name in names:
        data = disk.files[name].data
        start = int(name.rpartition("/")[2])
        if start != expected or len(data) != config.commit_log_file_bytes:
            raise Violation("I3", f"{name} has {len(data)} bytes, expected at {expected}")
        expected = start + len(data)
        at = 0
        while start + at < end and at < len(data):
            size, magic = _HEAD.unpack_from(data, at)
            if magic == _BLANK_MAGIC and size == len(data) - at:
                break
            record = sent.get(start + at)
            if magic != _MESSAGE_MAGIC or record is None:
                raise Violation("I2", f"at {start + at} are bytes that were never sent")
            if data[at : at + size] != record.record:
                raise Violation("I2", f"the record at {start + at} is not the one sent there")
            found.append(record)
            at += size
        if start + at >= end and data[at:].strip(b"\0"):
            raise Violation("I2", f"after the log's end at {end} are bytes")
    return found


def _check_promises(
    machine: Machine,
    view: ClientView,
    log: list[Sent],
    begin: int,
    end: int,
    *,
    whole: bool,
) -> None:
    promised = view.acknowledged_in_cache if whole else view.acknowledged
    if end < promised:
        raise Violation("I1", f"acknowledged up to {promised}, recovered up to {end}")
    if begin > view.trimmed:
        raise Violation("I1", f"trimmed up to {view.trimmed}, the log begins at {begin}")
    places = {record.physical_offset for record in log}
    for place, record in view.sent.items():
        if begin <= place and record.end <= promised and place not in places:
            raise Violation("I1", f"the acknowledged message at {place} is gone")
    if machine.config.synchronous_flush or whole:
        for (topic, queue_id), (queue_offset, place) in view.shown.items():
            if place < begin:
                continue
            found = place_of(machine.store, topic, queue_id, queue_offset)
            if found != place or place not in places:
                key = f"{topic}/{queue_id}/{queue_offset}"
                raise Violation("I5", f"{key} was shown as {place} and is {found}")


def _in_queues(machine: Machine, view: ClientView, log: list[Sent]) -> list[Sent]:
    """Leave out what belongs to a topic that was deleted, or may have been and is."""
    found = read_deleted_topics(machine.fs, machine.config.paths)
    cut = machine.store.recovery.log_end
    begun = view.deleting.items()
    done = {topic: end for topic, end in begun if found.get(topic, 0) >= min(end, cut)}
    ends = view.deleted | done
    return [record for record in log if record.physical_offset >= ends.get(record.topic, 0)]


def _check_queues(machine: Machine, log: list[Sent]) -> None:
    expected: dict[QueueKey, dict[int, Sent]] = {}
    for record in log:
        own = (record.topic, record.queue_id), record.queue_offset
        for queue, queue_offset in (own, *record.further):
            expected.setdefault(queue, {})[queue_offset] = record
    begin = machine.store.min_physical_offset
    for key in {*expected, *_queue_keys(machine)}:
        entries = _queue_entries(machine, key)
        found = {
            place: entry
            for place, entry in entries.items()
            if entry != _PADDING and entry[0] >= begin
        }
        if machine.config.enable_consume_queue_extension:
            found = _with_units(machine, key, found, expected.get(key, {}))
        wanted = {
            queue_offset: (record.physical_offset, len(record.record), record.tags_code)
            for queue_offset, record in expected.get(key, {}).items()
        }
        if found != wanted:
            differing = sorted(found.items() ^ wanted.items())[:4]
            raise Violation("I4", f"queue {key} differs from the log: {differing}")
        end = machine.store.max_queue_offset(*key)
        if wanted and end != max(wanted) + 1:
            raise Violation("I4", f"queue {key} ends at {end}, not {max(wanted) + 1}")
        following = machine.store.log.queue_offsets.get(key)
        if wanted and following != max(wanted) + 1:
            raise Violation("I5", f"the next message of {key} gets queue offset {following}")


def _with_units(
    machine: Machine,
    key: QueueKey,
    entries: dict[int, tuple[int, int, int]],
    records: dict[int, Sent],
) -> dict[int, tuple[int, int, int]]:
    """Put the tags codes of units in the place of their addresses. Raises: Violation for I4."""
    directory = machine.config.paths.consume_queue_extension(*key)
    files = {path: inode.data for path, inode in machine.disk.files.items()}
    addresses = [entry[2] for entry in entries.values() if is_address(entry[2])]
    if addresses != sorted(set(addresses)):
        raise Violation("I4", f"units of queue {key} have the addresses {addresses}")
    found = {}
    for place, (physical_offset, size_bytes, tags_code) in entries.items():
        record = records.get(place)
        has_unit = record is not None and (record.topic, record.queue_id) == key
        if has_unit != is_address(tags_code):
            raise Violation("I4", f"entry {place} of queue {key} has {tags_code} for its unit")
        if record is not None and has_unit:
            unit = unit_at(files, directory, tags_code)
            if unit != unit_of(record):
                raise Violation("I4", f"entry {place} of queue {key} leads to {unit}")
            tags_code = unit[0]
        found[place] = physical_offset, size_bytes, tags_code
    return found


def _queue_keys(machine: Machine) -> list[QueueKey]:
    return [(topic, queue_id) for topic, ids in machine.store.queues().items() for queue_id in ids]


def _queue_entries(machine: Machine, key: QueueKey) -> dict[int, tuple[int, int, int]]:
    directory = machine.config.paths.consume_queue(*key) + "/"
    entries = {}
    for path, inode in machine.disk.files.items():
        if path.startswith(directory):
            first = int(path.rpartition("/")[2]) // _ENTRY.size
            if len(inode.data) != machine.config.consume_queue_bytes:
                raise Violation("I4", f"{path} has {len(inode.data)} bytes")
            for i, entry in enumerate(_ENTRY.iter_unpack(inode.data)):
                if any(entry):
                    entries[first + i] = entry
    return entries


def _check_index(machine: Machine, log: list[Sent]) -> None:
    begin = machine.store.min_physical_offset
    wanted = sorted(
        (_key_hash(record.topic, key), record.physical_offset)
        for record in log
        for key in record.keys
    )
    found = sorted(entry for entry in _index_entries(machine) if entry[1] >= begin)
    if found != wanted:
        differing = sorted(set(found) ^ set(wanted))[:4]
        raise Violation("I4", f"the index differs from the log: {differing or 'repeated keys'}")
    for record in log[-2:]:
        for key in record.keys:
            answer = machine.store.query_message(record.topic, key, 32, 0, 1 << 60)
            if record.physical_offset not in answer.physical_offsets:
                raise Violation("I4", f"{key} at {record.physical_offset} is not found by key")


def _index_entries(machine: Machine) -> list[tuple[int, int]]:
    config = machine.config
    entries = []
    directory = config.paths.index_directory + "/"
    for path, inode in sorted(machine.disk.files.items()):
        if path.startswith(directory):
            *_, count = _INDEX_HEADER.unpack_from(inode.data)
            at = _INDEX_HEADER.size + 4 * config.index_slot_count
            if reached(inode.data, at) != max(count - 1, 0):
                raise Violation("I4", f"{path} has entries that no slot leads to")
            for number in range(1, count):
                key_hash, place, *_ = _INDEX_ENTRY.unpack_from(
                    inode.data, at + _INDEX_ENTRY.size * number
                )
                entries.append((key_hash, place))
    return entries


def reached(data: bytes | bytearray, entries_position: int) -> int:
    """Return how many entries of an index file can be found by the chains of its slots."""
    found_count = 0
    for (slot,) in _SLOT.iter_unpack(data[_INDEX_HEADER.size : entries_position]):
        number = slot
        while number > 0:
            found_count += 1
            place = entries_position + _INDEX_ENTRY.size * number
            *_, number = _INDEX_ENTRY.unpack_from(data, place)
    return found_count


def _key_hash(topic: str, key: str) -> int:
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value >= 1 << 31 else value


def _check_offsets(machine: Machine, view: ClientView, *, whole: bool) -> None:
    text = machine.load_offsets()
    if view.offsets_done is None and not view.offsets_tried:
        return
    allowed = {view.offsets_done, *view.offsets_tried}
    if text not in allowed:
        raise Violation("I6", f"consumer offsets are {text!r}, saved were {allowed}")
    is_kept = machine.config.synchronous_flush or (whole and not view.has_lost)
    if text is None or not is_kept:
        return
    for name, offset in msgspec.json.decode(text)["offsetTable"].items():
        topic, _, queue_id = name.partition("@")
        end = machine.store.max_queue_offset(topic, int(queue_id))
        if offset > end:
            raise Violation("I6", f"{name} was consumed to {offset} and ends at {end}")
