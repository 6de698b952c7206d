"""RecentEntries: the queue entries of the log's last records, before Reput has put them into files.

The Broker knows at once what it has written and what may be read of it. Reput needs another process
and some milliseconds. A pull of the last messages is answered with these entries meanwhile.

    end of the queue's file    entries here         a pull from `queue_offset` gets
    above it                   any                  what the file has
    at or below it             from there on        these entries
    at or below it             none, or later ones  what it gets without them

Records are scanned as they become readable, as Reput scans them. Where many become readable at
once, pace matters and not delay. Then all are left to Reput until it has caught up.

Invariants:
    - entries of a queue are successive, and none is of a record that ends above what is readable.
    - after `shows_all` has returned True, each readable record is dispatched or has entries here.
    - there are at most ENTRIES_MAX entries, and none while something readable is missing.

Source: none; 4.9.3 answers a pull when its ReputMessageService has dispatched the message.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from wakelog.protocol.record import MAGIC_OFFSET
from wakelog.protocol.sys_flag import CONSUMED_TYPES, transaction_type
from wakelog.storage.config import StoreConfig
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.multi_dispatch import multi_targets
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.log.record_check import CheckKind
from wakelog.storage.log.scan import scan_plain
from wakelog.storage.queue.entries import ENTRY, Arrival

SCAN_BYTES_MAX: Final = 2_048
"""Of the log, in one step: some 10 records of 200 bytes, and 0.05 ms of the loop."""

RECORD_BYTES_MAX: Final = 65_536
"""Of a record that comes alone."""

ENTRIES_MAX: Final = 4_096
"""Of all queues. Reput is 20 ms behind a broker that it keeps up with."""


class RecentQueue(NamedTuple):
    """Entries of one queue from the queue offset `begin` on, as they will be in its file."""

    begin: int
    entries: bytes

    @property
    def end(self) -> int:
        """The queue offset after the last one."""
        return self.begin + len(self.entries) // ENTRY.size

    def cut(self, queue_offset: int, count_max: int) -> bytes:
        """Return up to `count_max` entries from a queue offset on."""
        at = (queue_offset - self.begin) * ENTRY.size
        return self.entries[at : at + count_max * ENTRY.size]


ReadLog = Callable[[int, int], bytes | None]
"""(physical offset, bytes) -> these bytes of one segment; None if that needs the disk."""


class RecentEntries:
    """See the module. One thread."""

    def __init__(self, config: StoreConfig, read: ReadLog, dispatched: Callable[[], int]) -> None:
        """Begin without entries.

        dispatched: returns how far the files of the queues reach.
        """
        self._config = config
        self._delays_ms = config.delays_ms  # parsed once: they need a restart
        self._read = read
        self._queues: dict[QueueKey, tuple[int, bytearray]] = {}
        self._arrivals: list[Arrival] = []
        self._count = 0
        self._dispatched = dispatched
        self._scanned = self._whole_from = dispatched()

    def shows_all(self, readable: int) -> bool:
        """Scan what has become readable; return whether pulls see all of it.

        readable: how far consumers may see.
        """
        dispatched = self._dispatched()
        if dispatched >= readable:
            return True
        if not self._config.appends:
            return False
        self._arrivals = []
        if dispatched >= self._scanned:
            self._forget(dispatched)
        if readable > self._scanned:
            begin, self._scanned = self._scanned, readable
            if self._count >= ENTRIES_MAX:
                self._drop_below(dispatched)
            if (
                dispatched < self._whole_from
                or self._count >= ENTRIES_MAX
                or not (self._are_few(begin, readable) and self._scan(begin, readable))
            ):
                self._forget(readable)
        return dispatched >= self._whole_from

    def arrivals(self, readable: int) -> list[Arrival] | None:
        """Return the messages that became readable since the last call of this or `shows_all`.

        They are in the order of the log. None if some of them are left to Reput.
        """
        self._arrivals = []
        return self._arrivals if self.shows_all(readable) else None

    def forget_until(self, physical_offset: int) -> None:
        """Forget all entries, and make none of records below: their queues are being removed."""
        self._forget(max(physical_offset, self._scanned))

    def find(self, topic: str, queue_id: int) -> RecentQueue | None:
        """Return the entries of a queue, None if there are none that its files lack."""
        if self._dispatched() >= self._scanned:
            return None
        found = self._queues.get((topic, queue_id))
        return None if found is None else RecentQueue(found[0], bytes(found[1]))

    def _forget(self, scanned: int) -> None:
        self._queues.clear()
        self._arrivals.clear()
        self._count = 0
        self._scanned = self._whole_from = scanned

    def _are_few(self, begin: int, end: int) -> bool:
        """Return whether the records of a stretch can be scanned in one step."""
        if end - begin <= SCAN_BYTES_MAX:
            return True
        if end - begin > RECORD_BYTES_MAX:
            return False
        return int.from_bytes(self._read(begin, MAGIC_OFFSET) or b"", "big") == end - begin

    def _scan(self, begin: int, end: int) -> bool:
        """Scan readable records; False if they cannot be read now."""
        file_bytes = self._config.commit_log_file_bytes
        while begin < end:
            segment_end = begin - begin % file_bytes + file_bytes
            data = self._read(begin, min(end, segment_end) - begin)
            if data is None:
                return False
            scan = scan_plain(data, begin, segment_end, self._delays_ms)
            for request in scan.requests:
                self._place(request)
            begin = scan.next_physical_offset
            if scan.stopped_by is not None:
                if scan.stopped_by.kind is not CheckKind.END_OF_FILE:
                    return False
                begin = segment_end
        return True

    def _place(self, request: DispatchRequest) -> None:
        """Add the entries that `dispatchers/queue_entries.py` puts, without extension units."""
        if transaction_type(request.sys_flag) not in CONSUMED_TYPES:
            return
        self._add((request.topic, request.queue_id), request.queue_offset, request)
        if self._config.enable_multi_dispatch:
            for target in multi_targets(
                request.properties, request.queue_id, enable_lmq=self._config.enable_lmq
            ):
                self._add((target.topic, target.queue_id), target.queue_offset, request)

    def _add(self, key: QueueKey, queue_offset: int, request: DispatchRequest) -> None:
        begin, entries = self._queues.get(key, (queue_offset, bytearray()))
        if queue_offset != begin + len(entries) // ENTRY.size:
            self._count -= len(entries) // ENTRY.size
            begin, entries = queue_offset, bytearray()
        entries += ENTRY.pack(request.physical_offset, request.size_bytes, request.tags_code)
        self._queues[key] = begin, entries
        self._count += 1
        self._arrivals.append(Arrival(*key, queue_offset + 1, request.tags_code))

    def _drop_below(self, dispatched: int) -> None:
        """Drop the entries that the files of the queues have."""
        queues, self._queues, self._count = self._queues, {}, 0
        for key, (begin, entries) in queues.items():
            offsets = [offset for offset, _, _ in ENTRY.iter_unpack(entries)]
            done = sum(offset < dispatched for offset in offsets)
            if done < len(offsets):
                self._queues[key] = begin + done, entries[done * ENTRY.size :]
                self._count += len(offsets) - done
