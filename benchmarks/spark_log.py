"""The log that ``./dev bench spark`` reads: 2 GiB of messages, in segments of 4.9.3's length.

Bodies are words in random order, so that no two are equal and a codec has something to do: bodies
of zeros would make a column of Parquet nearly free. Properties are those of a producer with tags
and a key.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from wakelog.protocol.record import encode_record
from wakelog.storage.paths import offset_name

BODY_BYTES = 1024
SEGMENT_BYTES = 1 << 30
SEGMENTS_COUNT = 2
TOPIC = "benchmark"
QUEUES_COUNT = 4

_TEXT_BYTES = 8 << 20
_WORDS_COUNT = 4096
_END_BYTES = 2048
"""Left empty at a segment's end, more than any record: a blank says so, as the broker writes it."""
_BLANK_MAGIC = b"\xcb\xd4\x31\x94"
_PIECE_MESSAGES = 8192


def write_log(
    folder: Path, *, segments_count: int = SEGMENTS_COUNT, segment_bytes: int = SEGMENT_BYTES
) -> int:
    """Write the segments into ``folder``, a store's ``commitlog``; return how many messages."""
    folder.mkdir(parents=True)
    messages = _messages()
    total = 0
    for number in range(segments_count):
        begin = number * segment_bytes
        with open(folder / offset_name(begin), "wb") as file:
            for piece, count in _pieces(messages, begin, segment_bytes - _END_BYTES):
                file.write(piece)
                total += count
            rest = segment_bytes - file.tell()
            if number + 1 < segments_count:
                file.write(rest.to_bytes(4, "big") + _BLANK_MAGIC)
            file.truncate(segment_bytes)
    return total


def _pieces(
    messages: Iterator[tuple[int, bytes, bytes]], begin: int, room_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the records of one segment, many at once, and how many they are."""
    now_ms = time.time_ns() // 1_000_000
    records: list[bytes] = []
    at = 0
    for number, body, properties in messages:
        record = encode_record(
            topic=TOPIC,
            queue_id=number % QUEUES_COUNT,
            queue_offset=number // QUEUES_COUNT,
            physical_offset=begin + at,
            body=body,
            properties=properties,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms + number // 100,
            born_host=("127.0.0.1", 40000),
            store_timestamp_ms=now_ms + number // 100 + 1,
            store_host=("127.0.0.1", 10911),
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
        records.append(record)
        at += len(record)
        if len(records) == _PIECE_MESSAGES or at + len(record) > room_bytes:
            yield b"".join(records), len(records)
            records.clear()
            if at + len(record) > room_bytes:
                return


def _messages() -> Iterator[tuple[int, bytes, bytes]]:
    """Yield numbers, bodies and properties, without end and always the same."""
    chosen = random.Random(1)
    words = [chosen.randbytes(chosen.randint(1, 6)).hex() for _ in range(_WORDS_COUNT)]
    text = " ".join(chosen.choices(words, k=_TEXT_BYTES // 8)).encode()
    number = 0
    while True:
        begin = chosen.randrange(len(text) - BODY_BYTES)
        properties = (
            f"KEYS\x01order-{number}\x02UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02"
            f"TAGS\x01tag-{number % 8}\x02"
        )
        yield number, text[begin : begin + BODY_BYTES], properties.encode()
        number += 1
