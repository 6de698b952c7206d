"""Queue entries and logs in which something is wrong, and what both twins send of them."""

from array import array
from functools import cache
from random import Random
from typing import Any, Final, cast

from tests.fakes.records import record
from tests.fakes.stores import store_config
from wakelog.protocol.record import RECORD_BYTES_MIN
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_COMPRESSED
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.read.frames import GAP_BYTES_MAX, read_frames
from wakelog.storage.read.reader import GetRequest, LogView, Reader

SEGMENT_BYTES: Final = 40_000
LOG_BYTES: Final = 2 * SEGMENT_BYTES
CONFIG: Final = store_config(
    commit_log_file_bytes=SEGMENT_BYTES, transfer_bytes_in_memory_max=5_000
)
LOGS_COUNT: Final = 12
ODD_NUMBERS: Final = (0, 1, -1, 90, 91, 1 << 31, (1 << 63) - 1, -(1 << 63), LOG_BYTES)


class Log:
    """A log in memory; what it returns has exactly the length that was asked for."""

    file_bytes = SEGMENT_BYTES

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.reads = 0

    def segment_end(self, physical_offset: int) -> int:
        return physical_offset - physical_offset % SEGMENT_BYTES + SEGMENT_BYTES

    def view(
        self, begin: int, size: int, *, blocking: bool = True, into: memoryview | None = None
    ) -> memoryview | None:
        self.reads += 1
        found = memoryview(array("B", self._data[begin : begin + size]))
        if into is None:
            return found
        into[:] = found
        return into


@cache
def log_and_entries(seed: int) -> tuple[bytes, list[list[int]]]:
    """Return a log, and the entries of its records."""
    random = Random(seed)
    data, entries, at = bytearray(), list[list[int]](), 0
    gaps = random.choice(((0,), (0, 300, 1_200), (0, GAP_BYTES_MAX, GAP_BYTES_MAX + 1)))
    while True:
        sys_flag, host = 0, "1.2.3.4"
        if random.random() < 0.01:
            sys_flag = random.choice((MESSAGE_COMPRESSED, MESSAGE_BORN_HOST_V6))
            host = "::1" if sys_flag & MESSAGE_BORN_HOST_V6 else host
        made = record(
            at,
            body=random.randbytes(random.choice((1, 50, 100, 1_000))),
            topic=random.choice(("T", "topic")),
            sys_flag=sys_flag,
            born_host=(host, 5),
        )
        if at // SEGMENT_BYTES != (at + len(made)) // SEGMENT_BYTES:
            data += bytes(SEGMENT_BYTES - at % SEGMENT_BYTES)
            at = len(data)
            if at >= LOG_BYTES:
                return bytes(data), entries
            continue
        entries.append([at, len(made), random.randrange(-5, 5)])
        gap = min(random.choice(gaps), SEGMENT_BYTES - (at + len(made)) % SEGMENT_BYTES)
        data += made + bytes(gap)
        at = len(data)
        if at >= LOG_BYTES:
            return bytes(data), entries


def damaged(random: Random, data: bytes, entries: list[list[int]]) -> tuple[bytes, bytes]:
    """Return the bytes of a log and of entries, at times with something wrong in them."""
    if random.random() < 0.2:
        changed = bytearray(data)
        begin, size, _ = random.choice(entries)
        at = begin + random.choice((0, 3, 4, 30, 36, 39, 84, 87, size - 1, random.randrange(size)))
        changed[at] ^= 1 << random.randrange(8)
        data = bytes(changed)
    if random.random() < 0.2:
        random.choice(entries)[random.randrange(2)] = random.choice(ODD_NUMBERS)
    packed = [
        begin.to_bytes(8, "big", signed=True)
        + (size & 0xFFFFFFFF).to_bytes(4, "big")
        + tags.to_bytes(8, "big", signed=True)
        for begin, size, tags in entries
    ]
    return data, b"".join(packed)


def compare(seed: int) -> int:
    """Assert that what the compiled twin sends is what the other one does; return how many."""
    random = Random(seed)
    data, entries = log_and_entries(seed % LOGS_COUNT)
    first = random.randrange(len(entries))
    entries = [list(each) for each in entries[first : first + random.choice((1, 2, 9, 33))]]
    data, packed = damaged(random, data, entries)
    log = Log(data)
    memory_bytes = random.choice((1 << 30, 1 << 30, SEGMENT_BYTES))
    real = cast(CommitLogReader, log)
    reader = Reader(CONFIG, real, cast(Any, None), memory_bytes=memory_bytes)
    codes = random.choice((None, None, frozenset(random.sample(range(-5, 5), random.randrange(5)))))
    request = GetRequest(
        *("T", 0, 0, random.choice((-1, 0, 1, 8, 32)), codes),
        by_bytes=seed % 5 == 0,
        is_large=seed % 10 == 0,
    )
    low = random.choice((0, 0, 0, len(data) // 3))
    view = LogView(low, random.choice((len(data), len(data), SEGMENT_BYTES + 500)), 0)
    compiled = reader._chosen(packed, request, view)
    log.reads = 0
    selection = (
        reader._front(packed, request, view)
        if codes is None
        else reader._select(None, request, view, frozenset(), packed)
    )
    frames = None
    if selection is not None:
        frames = read_frames(real, selection.places, view.max_physical_offset, blocking=True)
    if compiled is None:
        uncommon = any(data[begin + 39] & 0x11 for begin, _, _ in entries if 0 <= begin < LOG_BYTES)
        is_odd = uncommon or len({begin // SEGMENT_BYTES for begin, _, _ in entries}) > 1
        is_odd = is_odd or any(not 0 <= begin < view.max_physical_offset for begin, _, _ in entries)
        if codes is not None:
            lowest = max(view.min_physical_offset, view.max_physical_offset - memory_bytes)
            is_odd = is_odd or any(
                begin < lowest or not RECORD_BYTES_MIN <= size < 1 << 31
                for begin, size, _ in entries
            )
        assert not isinstance(frames, list) or log.reads != 1 or is_odd
        return 0
    found, pieces = compiled
    assert selection is not None
    if pieces is None:
        assert found == selection
        return found.sent_count
    assert found._replace(places=selection.places) == selection
    assert isinstance(frames, list)
    assert b"".join(pieces) == b"".join(frames)
    return found.sent_count
