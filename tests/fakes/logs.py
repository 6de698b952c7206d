"""Small stores for tests: a configuration with tiny files, a log over it, drafts to append."""

from collections.abc import Sequence
from typing import Any

import msgspec

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.allocate import InlineSegments
from wakelog.storage.log.append import MessageDraft, encode_properties_text
from wakelog.storage.log.commit_log import CommitLog, SegmentSource
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.log.transient_pool import TransientPool

ROOT = "/store"
SEGMENT_BYTES = 4096


def small_config(**values: Any) -> StoreConfig:
    """Return a configuration of small files below `/store`."""
    values.setdefault("store_path_root", ROOT)
    values.setdefault("commit_log_file_bytes", SEGMENT_BYTES)
    values.setdefault("consume_queue_file_bytes", 1000)
    return StoreConfig(**values)


def open_log(
    fs: FileSystem,
    config: StoreConfig,
    *,
    end_offset: int = 0,
    queue_offsets: dict[tuple[str, int], int] | None = None,
    segments: SegmentSource | None = None,
    pool: TransientPool | None = None,
    last_store_ms: int = 0,
) -> CommitLog:
    """Open the log as recovery would hand it over, making segments inline by default."""
    fs.make_directories(config.store_path_root)
    files = commit_log_files(fs, config)
    files.load()
    files.truncate(end_offset)
    return CommitLog(
        fs,
        config,
        files,
        end_offset=end_offset,
        queue_offsets=queue_offsets or {},
        segments=segments or InlineSegments(fs, config.paths, files, "broker"),
        pool=pool,
        last_store_ms=last_store_ms,
    )


def draft(body: bytes = b"body", **values: Any) -> MessageDraft:
    """Return a message to `TopicTest`, queue 0."""
    values.setdefault("topic", "TopicTest")
    values.setdefault("queue_id", 0)
    values.setdefault("born_timestamp_ms", 1_000)
    values.setdefault("born_host", ("127.0.0.1", 40_000))
    values.setdefault("store_host", ("127.0.0.1", 10_911))
    return MessageDraft(body=body, **values)


def read_file(fs: FileSystem, path: str) -> bytes:
    """Return a file's content."""
    fd = fs.open(path, read_only=True)
    try:
        return fs.pread(fd, fs.size(fd), 0)
    finally:
        fs.close(fd)


def write_file(fs: FileSystem, path: str, data: bytes) -> None:
    """Give a file its content, its directories made."""
    fs.make_directories(path.rpartition("/")[0])
    fd = fs.open(path, create=True)
    try:
        fs.truncate(fd, 0)
        fs.pwrite(fd, data, 0)
    finally:
        fs.close(fd)


def batch_of(drafts: Sequence[MessageDraft]) -> EncodedBatch:
    """Return the batch of these messages, which differ by flag, body and properties only."""
    messages = [(one.flag, one.body, encode_properties_text(one.properties_text)) for one in drafts]
    outer = msgspec.structs.replace(drafts[0], body=b"", properties_text="")
    return EncodedBatch(outer, messages)
