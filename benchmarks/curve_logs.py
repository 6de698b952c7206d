"""The points of the curve ``log``: one log of each size, and what a broker does with it.

Segments are written once, each a template with other offsets and keys. A size is a store whose full
segments are hard links to them, which no broker writes again. Its last one is its own, and queues
and index are made as ``wakelog log rebuild`` makes them. A side gets such links, too. So the disk
holds the largest log once, and both sides read the same bytes.

A side is started over its store, which is not counted: no broker had left it. Then it is stopped in
order and started, killed and started. No page of the store is in the page cache before a start.
"""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.held import send_in_turns
from benchmarks.load import SETTINGS, TOPIC, Run, create_topic
from benchmarks.paced import QUEUES_COUNT, Connection, drain
from benchmarks.recovery import forget_pages
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import Prepare, Side
from wakelog.audit.rebuild import make_files
from wakelog.protocol.record import (
    PHYSICAL_OFFSET_OFFSET,
    QUEUE_OFFSET_OFFSET,
    encode_blank,
    encode_record,
)
from wakelog.storage.config import StoreConfig
from wakelog.storage.paths import offset_name

LOG_FOLDER = "commitlog"
LOG_TOPIC = "grown"
SEGMENT_BYTES = 1 << 30
SEGMENT_END_BYTES = 4096
"""Left empty at a segment's end, more than any record and the blank that stands there."""
LAST_SHARE = 0.9
"""Of its last segment that a log fills: a broker writes on there."""

MARK = b"segment-0000"
"""In the key of each message: the number of its segment is put there."""

CONSUMED_MESSAGES = 200_000
SENDS_WARMUP, SENDS_COUNT = 3_000, 3_000
SETTLE_SECONDS = 3.0
"""Longer than queues and index wait for their sync."""

QUEUES_SHARE = 0.15
"""What queues and index take at most beside a log of such messages."""

Bytes = npt.NDArray[np.uint8]


class Segments:
    """Segments of one log, made of a template; ``segment_bytes`` each."""

    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Make the template."""
        self.segment_bytes = segment_bytes
        first = _record(0)
        room_bytes = segment_bytes - SEGMENT_END_BYTES
        self.records_count = room_bytes // len(first) // QUEUES_COUNT * QUEUES_COUNT
        records = b"".join(map(_record, range(self.records_count)))
        self._records: Bytes = np.frombuffer(bytearray(records), np.uint8)
        self._records = self._records.reshape(self.records_count, len(first))
        self._mark_at = first.index(MARK) + len(MARK) - 4

    def write(self, folder: Path, number: int, *, is_last: bool) -> None:
        """Write a segment; the last one of a log is not full."""
        records = self._records
        count, record_bytes = records.shape
        base, index = number * self.segment_bytes, np.arange(count)
        queue_offsets = (number * count + index) // QUEUES_COUNT
        for at, values in (
            (PHYSICAL_OFFSET_OFFSET, base + index * record_bytes),
            (QUEUE_OFFSET_OFFSET, queue_offsets),
        ):
            records[:, at : at + 8] = values.astype(">i8").view(np.uint8).reshape(count, 8)
        mark = np.frombuffer(b"%04d" % number, np.uint8)
        records[:, self._mark_at : self._mark_at + 4] = mark
        with open(folder / offset_name(base), "wb") as file:
            if is_last:
                records[: int(count * LAST_SHARE)].tofile(file)
            else:
                records.tofile(file)
                file.write(encode_blank(self.segment_bytes - file.tell()))
            file.truncate(self.segment_bytes)


def _record(number: int) -> bytes:
    """Return a message of the first segment."""
    now_ms = time.time_ns() // 1_000_000
    properties = b"UNIQ_KEY\x01%032X\x02KEYS\x01%b-%08d\x02WAIT\x01true\x02TAGS\x01TagA\x02"
    return encode_record(
        topic=LOG_TOPIC,
        queue_id=number % QUEUES_COUNT,
        queue_offset=0,
        physical_offset=0,
        body=bytes(BODY_BYTES),
        properties=properties % (number, MARK, number),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=now_ms,
        born_host=("127.0.0.1", 40000),
        store_timestamp_ms=now_ms,
        store_host=("127.0.0.1", 10911),
        reconsume_times=0,
        prepared_transaction_offset=0,
    )


class SegmentedLogs:
    """A store of each size that was asked for."""

    def __init__(
        self,
        folder: Path,
        sizes: Sequence[int],
        say: Callable[[str], None],
        segments: Segments | None = None,
    ) -> None:
        """Write them. sizes: how many segments each has."""
        self._folder = folder
        segments = segments or Segments()
        full = folder / "full"
        full.mkdir(parents=True)
        for size in sorted(set(sizes)):
            for number in range(len(os.listdir(full)), size - 1):
                segments.write(full, number, is_last=False)
            log = self._of(size) / LOG_FOLDER
            log.mkdir(parents=True)
            for path in full.iterdir():
                os.link(path, log / path.name)
            segments.write(log, size - 1, is_last=True)
            _make_queues(self._of(size), segments.segment_bytes)
            say(f"a log of {size} GiB is written")
        shutil.rmtree(full)
        os.sync()  # else a broker would be measured beside it

    def copy_into(self, size: int, store: Path) -> None:
        """Give a side the store of a size."""
        link_store(self._of(size), store)

    def _of(self, size: int) -> Path:
        return self._folder / f"{size}"


def _make_queues(store: Path, segment_bytes: int) -> None:
    config = StoreConfig(store_path_root=str(store), commit_log_file_bytes=segment_bytes)
    made = store / "made"
    made.mkdir()
    make_files(config, str(made))
    for path in made.iterdir():
        path.rename(store / path.name)
    made.rmdir()


def link_store(source: Path, target: Path) -> None:
    """Copy a store; of its log link all segments but the last."""
    log = target / LOG_FOLDER
    log.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name != LOG_FOLDER:
            _copy(path, target)
    *full, last = sorted((source / LOG_FOLDER).iterdir())
    for segment in full:
        os.link(segment, log / segment.name)
    _copy(last, log)


def _copy(path: Path, into: Path) -> None:
    subprocess.run(["cp", "-R", "--sparse=always", str(path), str(into)], check=True)


def disk_bytes_needed(sizes: Sequence[int]) -> int:
    """Return how much of a disk the logs and one side's copies take."""
    stores = sorted(set(sizes))
    queues_bytes = (sum(stores) + stores[-1]) * SEGMENT_BYTES * QUEUES_SHARE
    own_segments = len(stores) + 3  # a side has its last one, the next, and one made ahead
    return round((stores[-1] + own_segments) * SEGMENT_BYTES + queues_bytes)


def measure_log(
    size: int,
    make_side: Callable[[Mapping[str, str], Prepare], Side],
    logs: SegmentedLogs,
) -> tuple[Run, Mapping[str, object]]:
    """Start, stop, start, send, kill, start, consume; return figures and configuration."""
    side = make_side(SETTINGS, lambda store: logs.copy_into(size, store))
    try:
        create_topic(side, TOPIC)
        create_topic(side, LOG_TOPIC)
        time.sleep(SETTLE_SECONDS)
        side.stop(in_order=True)
        orderly_seconds = _start_cold(side)
        with Connection(side.broker) as sender:
            send_in_turns([sender], SENDS_WARMUP)
            [took_ms] = send_in_turns([sender], SENDS_COUNT)
        time.sleep(SETTLE_SECONDS)
        side.kill()
        killed_seconds = _start_cold(side)
        with Connection(side.broker) as consumer:
            drained = drain(consumer, LOG_TOPIC, CONSUMED_MESSAGES)
        if drained["messages"] < CONSUMED_MESSAGES:
            raise RuntimeError(f"the log's beginning was not consumed: {drained}")
    finally:
        side.kill()
    run: Run = {
        "errors": 0,
        "orderly_seconds": orderly_seconds,
        "killed_seconds": killed_seconds,
        "p50_ms": statistics.median(took_ms),
        "seconds_per_gb": drained["seconds"] * 1e9 / drained["bytes"],
        "mb_per_second": drained["bytes"] / 1e6 / drained["seconds"],
    }
    return run, side.configuration


def _start_cold(side: Side) -> float:
    forget_pages(side.store)
    side.start_again()
    return side.ready_seconds
