"""A store with a log, and its Parquet files read without Spark."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fakes.logs import read_file, small_config
from tests.fakes.records import LogBytes, properties
from wakelog.spark.side_files.folder import parse_file_name
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem

TOPICS = ("orders", "payments")
NOW_MS = 1_700_000_000_000


def side_config(**values: Any) -> StoreConfig:
    return small_config(parquet_dispatcher=True, **{"parquet_file_bytes": 2048} | values)


def log_of(count: int = 60) -> LogBytes:
    """Return some segments of messages of two topics."""
    log = LogBytes()
    for i in range(count):
        log.add(
            properties(TAGS=f"t{i % 3}", KEYS=f"k{i}"),
            topic=TOPICS[i % 2],
            queue_offset=i // 2,
            body=b"%d" % i * 40,
        )
    return log


def side_files(fs: FileSystem, config: StoreConfig) -> dict[str, list[str]]:
    """Return the files of each topic, in the order of the log, unfinished ones too."""
    root = config.paths.side_files_directory
    if not fs.exists(root):
        return {}
    return {topic: fs.list_directory(f"{root}/{topic}") for topic in fs.list_directory(root)}


def side_table(fs: FileSystem, config: StoreConfig, path: str) -> pa.Table:
    data = read_file(fs, f"{config.paths.side_files_directory}/{path}")
    return pq.read_table(pa.BufferReader(data))


def places(fs: FileSystem, config: StoreConfig) -> Counter[int]:
    """Return how often each physical offset is in a file; each file has what its name says."""
    found: Counter[int] = Counter()
    for topic, names in side_files(fs, config).items():
        for name in names:
            span = parse_file_name(name)
            if span is None:
                continue
            table = side_table(fs, config, f"{topic}/{name}")
            offsets = table.column("commitLogOffset").to_pylist()
            assert set(table.column("topic").to_pylist()) == {topic}
            assert offsets and span.begin <= offsets[0] and offsets[-1] < span.end
            assert offsets == sorted(offsets)
            found.update(offsets)
    return found
