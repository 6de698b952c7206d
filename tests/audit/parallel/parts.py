"""A rebuild in parts within one process, beside the one that goes through the log in order."""

from __future__ import annotations

import random

from tests.dispatchers.stores import NOW_MS
from tests.fakes.logs import read_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import STORE_MS, LogBytes, properties
from wakelog.audit.parallel.index_merge import make_index_part, plan_index
from wakelog.audit.parallel.pieces import BUCKETS_COUNT, KeyFile
from wakelog.audit.parallel.queue_merge import MergeSummary, merge_queues
from wakelog.audit.parallel.segment_scan import SegmentSummary, scan_segment
from wakelog.audit.rebuild import Rebuild
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.paths import StorePaths

TRANSACTIONS = (0, 0, 0, 0, 4, 8, 12)
TOPICS = ("A", "B", "B", "SCHEDULE_TOPIC_XXXX", "no path", "täg")


def scan_all(
    fs: FileSystem, config: StoreConfig, log: LogBytes, kernels: Kernels | None = None
) -> list[SegmentSummary]:
    """Scan the segments, the last one first: their order may not matter."""
    fs.make_directories("/pieces")
    begins = range(log.begin, log.end, log.segment_bytes)
    found = [
        scan_segment(
            fs,
            config,
            begin,
            queues_path=f"/pieces/{begin}.queues",
            keys_path=f"/pieces/{begin}.keys",
            kernels=lambda: kernels,
        )
        for begin in reversed(begins)
    ]
    return found[::-1]


def target_config(config: StoreConfig, target: str) -> StoreConfig:
    """Return the configuration of the same store below another root."""
    values = {name: getattr(config, name) for name in config.__struct_fields__}
    return StoreConfig(**values | {"store_path_root": target})


def merge_all(
    fs: FileSystem,
    config: StoreConfig,
    summaries: list[SegmentSummary],
    kernels: Kernels | None = None,
) -> list[MergeSummary]:
    """Make all queues and index files below the configuration's root, the last ones first."""
    paths = [f"/pieces/{summary.begin}.queues" for summary in summaries]
    merged = [
        merge_queues(fs, config, paths, {bucket}) for bucket in reversed(range(BUCKETS_COUNT))
    ]
    keys = [KeyFile(f"/pieces/{summary.begin}.keys", summary.keys_count) for summary in summaries]
    for part in reversed(plan_index(summaries, config, NOW_MS)):
        make_index_part(fs, config, keys, part, kernels)
    return merged


def rebuild_in_order(fs: MemoryFileSystem, config: StoreConfig, target: str) -> None:
    """Do what `wakelog log rebuild` does."""
    fs.make_directories(target)
    made = Rebuild(fs, config, target)
    while made.step(NOW_MS):
        pass
    made.finish()
    made.close()


def derived_files(fs: MemoryFileSystem, root: str) -> tuple[dict[str, bytes], list[bytes]]:
    """Return the queue files below a root by name, and the index files in order."""
    paths = StorePaths(root)
    queues = {
        f"{topic}/{queue}/{name}": read_file(
            fs, f"{paths.consume_queue_root}/{topic}/{queue}/{name}"
        )
        for topic in _names(fs, paths.consume_queue_root)
        for queue in _names(fs, f"{paths.consume_queue_root}/{topic}")
        for name in _names(fs, f"{paths.consume_queue_root}/{topic}/{queue}")
    }
    directory = paths.index_directory
    return queues, [read_file(fs, f"{directory}/{name}") for name in _names(fs, directory)]


def _names(fs: MemoryFileSystem, directory: str) -> list[str]:
    return fs.list_directory(directory) if fs.exists(directory) else []


def random_log(seed: int, *, segment_bytes: int, count: int, damaged: bool = True) -> LogBytes:
    """Return a log in which queues begin late, repeat, leave out and jump, and bytes rot."""
    rng = random.Random(seed)
    log = LogBytes(segment_bytes, begin=segment_bytes * rng.randrange(3))
    places: dict[tuple[str, int], int] = {}
    for i in range(count):
        queue = rng.choice(TOPICS), rng.randrange(3)
        following = places.get(queue, rng.choice((0, 0, 70)))
        jump = rng.choice((0,) * 30 + (-2, 3, 400_000, -(1 << 40), 1 << 62))
        places[queue] = following + 1
        names = {"KEYS": " ".join(f"k{rng.randrange(40)}" for _ in range(rng.randrange(4)))}
        if rng.random() < 0.8:
            names["UNIQ_KEY"] = f"U{i:06}"
        if rng.random() < 0.1:
            names |= {
                "INNER_MULTI_DISPATCH": "%LMQ%a,B",
                "INNER_MULTI_QUEUE_OFFSET": f"{i},{rng.randrange(200)}",
            }
        log.add(
            properties(**{name: value for name, value in names.items() if value}),
            topic=queue[0],
            queue_id=queue[1],
            queue_offset=following + jump,
            sys_flag=rng.choice(TRANSACTIONS),
            store_timestamp_ms=STORE_MS + 700 * i,
            body=bytes(rng.randrange(300)),
        )
    for _ in range(count // 100 if damaged else 0):
        log.damage(rng.choice(log.offsets) + rng.randrange(60), rng.randbytes(3))
    return log
