"""Calls of the functions over columns: over logs with damage, and with arguments that do not fit.

    python -m tests.compiled.hostile_columns LIBRARY COUNT

tries a library that was built with other options. Buffers have memory of exactly their length, so
that a sanitizer sees a read or a write behind them.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from tests.fakes.records import STORE_MS, record
from wakelog.compiled import layout
from wakelog.compiled.fields import FIELDS
from wakelog.protocol.names import SCHEDULE_TOPIC

NAMES: Final = ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "INNER_MULTI_DISPATCH", "KEY", "a", "", "é")
VALUES: Final = ("", "a", "ab c", " a  b ", "é", "x" * 90, "a\x01b", "k " * 70)
BYTES: Final = b"\x00\x01\x02\x03\x80\x81\x82 KEYSTAG"
NUMBERS: Final = (-(1 << 63), -(1 << 31), -2, -1, 0, 1, 2, 100, (1 << 31) - 1, (1 << 63) - 1)

V6_HOST: Final = bytes(15) + b"\x02"
MAPPED_HOST: Final = bytes(10) + b"\xff\xff\1\2\3\4"
"""As one that speaks v4 may be written; Java writes four bytes for it."""

Call = tuple[str, list[Any]]


def properties(random: Random) -> bytes:
    """Return a properties string, or what is none."""
    if random.random() < 0.4:
        return bytes(random.choices(BYTES, k=random.randrange(60)))
    pairs = [
        f"{random.choice(NAMES)}\x01{random.choice(VALUES)}" for _ in range(random.randrange(7))
    ]
    return "\x02".join(pairs).encode()


def damaged_log(random: Random) -> bytes:
    """Return records behind one another, of which some bytes may be others, or missing."""
    log = bytearray()
    for _ in range(random.randrange(9)):
        log += record(
            len(log),
            properties(random),
            topic=random.choice(("T", "Other", "é", "", SCHEDULE_TOPIC, "t" * 127)),
            queue_id=random.choice((0, 1, -1)),
            queue_offset=random.randrange(3),
            sys_flag=random.choice((0, 1, 4, 8, 12)),
            store_timestamp_ms=random.choice((0, STORE_MS, (1 << 63) - 1)),
            born_host=(random.choice(("1.2.3.4", "::1")), 1),
            store_host=(random.choice(("1.2.3.4", "::2")), 2),
            body=random.randbytes(random.choice((0, 1, 63, 64, 100, 300))),
        )
    if random.random() < 0.3:
        log = log.replace(V6_HOST, MAPPED_HOST)
    if log and random.random() < 0.5:
        for _ in range(random.randrange(4)):
            log[random.randrange(len(log))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
        del log[len(log) - random.choice((0, 0, 1, random.randrange(len(log)))) :]
    return bytes(log)


def _columns(records_max: int) -> tuple[Any, Any, Any]:
    """Return numbers, table and firsts."""
    return (
        np.zeros((records_max, layout.NUMBER_FIELDS), dtype=np.int64),
        np.zeros((2, 2 << records_max.bit_length()), dtype=np.int32),
        np.zeros(records_max + 1, dtype=np.int32),
    )


def sound_calls(library: Any, random: Random) -> Iterator[Call]:
    """Yield a call of each function over one log; the arguments are the callee's to change."""
    data = array("B", damaged_log(random))
    records_max = random.choice((0, 1, 3, 16))
    numbers, table, firsts = _columns(records_max)
    yield "walk_records", [data, 0, len(data), 0, numbers, table, firsts, random.random() < 0.8]
    numbers, table, firsts = _columns(records_max)
    keys = np.zeros((2, 65 + 4 * records_max), dtype=np.int32)
    names = array("B", bytes(random.choice((127, 200, 1_000))))
    name_begins = np.zeros(records_max, dtype=np.int32)
    names_end = random.choice((-1, 0))
    scan = [data, 0, len(data), 0, numbers, keys, table, firsts, names, name_begins]
    scan += [0, 0, names_end]
    yield "scan_records", _copies(scan)
    count, key_count, _, _, _ = library.scan_records(*scan)
    entries = np.zeros(20 * count, dtype=np.uint8)
    order, unbroken = np.zeros(count, dtype=np.int32), np.zeros(records_max, dtype=np.bool_)
    ends = np.zeros(records_max + 1, dtype=np.int32)
    yield "encode_groups", [numbers, count, firsts, order, ends, unbroken, entries]
    slots = np.array(random.choices((0, 1, 5, -1, 1 << 30), k=7), dtype=np.int32)
    key_entries = np.zeros(20 * key_count, dtype=np.uint8)
    begin_ms = random.choice((0, STORE_MS - 5_000, 1))
    yield "link_keys", [slots, 4, begin_ms, keys, 0, key_count, numbers, key_entries]
    yield "check_bodies", [data, numbers, 0, count, np.zeros(count, dtype=np.int32)]
    kept = array("B", bytes(random.choice((0, 300, 4_000))))
    kept_numbers, kept_table, kept_firsts = _columns(random.choice((1, records_max)))
    keep = [data, numbers, 0, count, kept, 0, kept_numbers, 0, kept_table, kept_firsts]
    yield "keep_records", _copies(keep)
    _, _, kept_count = library.keep_records(*keep)
    pulled = np.zeros((records_max, layout.NUMBER_FIELDS), dtype=np.int64)
    yield "scan_pulled", [data, random.choice((b"T", b"")), 0, pulled]
    yield from _row_calls(library, random, kept, kept_numbers, kept_count, False)
    yield from _row_calls(library, random, data, numbers, count, True)


def _row_calls(
    library: Any, random: Random, data: Any, numbers: Any, count: int, has_bodies: bool
) -> Iterator[Call]:
    rows = np.arange(count, dtype=np.int64)
    fields = np.zeros((count, FIELDS), dtype=np.int64)
    yield "read_fields", [data, numbers, rows, fields.copy(), has_bodies]
    library.read_fields(data, numbers, rows, fields, has_bodies)
    offsets = np.zeros(count + 1, dtype=np.int32)
    begins = numbers[:count, layout.PROPERTIES_BEGIN].copy()
    ends = begins + numbers[:count, layout.PROPERTIES_BYTES]
    out = np.zeros(int((ends - begins).sum()), dtype=np.uint8)
    yield "gather", [data, begins, ends, offsets, out]
    pairs = np.zeros((int(((ends - begins) // 4 + 1).sum()), 4), dtype=np.int64)
    places = np.zeros((2, 1 << 10), dtype=np.int32)
    yield "find_pairs", [data, numbers, rows, offsets, pairs, places]
    is_v6 = numbers[:count, layout.SYS_FLAG] & 0x20 != 0
    ids = np.zeros(56 * count + len(out), dtype=np.uint8)
    yield "format_ids", [data, fields, is_v6, random.random() < 0.5, offsets, ids]
    if has_bodies:
        yield "fill_batch", _batch(random, data, numbers[:count].copy(), len(out))


def _batch(random: Random, data: Any, rows: Any, properties_bytes: int) -> list[Any]:
    """Return arguments for some rows, which may not have room."""
    rows_max = random.choice((len(rows), len(rows), len(rows) - 1, 5))
    properties_max = random.choice((properties_bytes // 4 + len(rows), 2))
    short = random.choice((*([9] * 7), *range(7)))
    rooms = [len(data), 56 * len(rows) + properties_bytes, 56 * len(rows)]
    texts = [
        np.zeros(0 if place == short else room, dtype=np.uint8)
        for place, room in enumerate((*rooms, *[properties_bytes] * 4))
    ]
    rows_max = max(rows_max, 0)
    return [
        *(data, rows, np.zeros(9, dtype=np.int64)),
        *(np.zeros((3, rows_max), dtype=np.int64), np.zeros((3, rows_max), dtype=np.int32)),
        *(np.zeros((6, rows_max + 1), dtype=np.int32), np.zeros((2, rows_max), dtype=np.uint8)),
        *(np.zeros((2, properties_max + 1), dtype=np.int32), *texts[:5]),
        *(np.zeros((40, 4), dtype=np.int64), np.zeros((2, 128), dtype=np.int32), *texts[5:]),
    ]


def _copy(value: Any) -> Any:
    if isinstance(value, array):
        return array("B", value.tobytes())
    return value.copy() if isinstance(value, np.ndarray) else value


def _copies(arguments: list[Any]) -> list[Any]:
    return [_copy(value) for value in arguments]


def copied(call: Call) -> Call:
    """Return a call with buffers of its own."""
    return call[0], _copies(call[1])


def unfit(call: Call, random: Random) -> Call:
    """Return a call of which up to three arguments are changed."""
    name, arguments = copied(call)
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        index = random.randrange(len(arguments))
        value = arguments[index]
        if isinstance(value, int):
            arguments[index] = random.choice((*NUMBERS, value - 1, value + 1))
        elif isinstance(value, np.ndarray) and value.size:
            flat = value.reshape(-1)
            if random.random() < 0.3:
                arguments[index] = flat[: random.randrange(len(flat) + 1)].copy()
                continue
            limits = np.iinfo(value.dtype) if value.dtype != np.bool_ else None
            for _ in range(random.choice((1, 2, 10))):
                number = random.choice((*NUMBERS, random.randrange(3_000)))
                low, high = (0, 1) if limits is None else (int(limits.min), int(limits.max))
                flat[random.randrange(len(flat))] = min(max(number, low), high)
        elif isinstance(value, array) and value:
            del value[random.randrange(len(value)) :]
            arguments[index] = array("B", value.tobytes())
    return name, arguments


def try_calls(library: Any, seed: int) -> tuple[int, int]:
    """Call each function with arguments that may not fit; return how many calls, and refusals."""
    random, calls_count, refused_count = Random(seed), 0, 0
    for call in sound_calls(library, random):
        name, arguments = unfit(call, random)
        calls_count += 1
        try:
            getattr(library, name)(*arguments)
        except (ValueError, OverflowError):
            refused_count += 1
    return calls_count, refused_count


def main(arguments: Sequence[str]) -> int:
    """Call a library that is elsewhere."""
    path, count = Path(arguments[0]), int(arguments[1])
    loader = ExtensionFileLoader("functions", str(path))
    spec = spec_from_file_location("functions", path, loader=loader)
    assert spec is not None
    library = module_from_spec(spec)
    loader.exec_module(library)
    refused_count = sum(try_calls(library, seed)[1] for seed in range(count))
    print(f"{count} logs, {refused_count} calls refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
