"""How a file of the index comes to be: whole, seeded and synced before anybody sees its name.

Source: org.apache.rocketmq.store.index.IndexService#getAndCreateLastIndexFile, IndexFile (4.9.3).
"""

from __future__ import annotations

from posixpath import join
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import HEADER
from wakelog.storage.index.index_service import index_shape
from wakelog.storage.log.allocate import sync_name

UNFINISHED_OWNER: Final = "reput"  # whose unfinished files they are, in the store's root


def make_index_file(
    fs: FileSystem,
    config: StoreConfig,
    name: str,
    *,
    end_timestamp_ms: int = 0,
    end_physical_offset: int = 0,
    made_ahead: str | None = None,
    unsynced: list[str] | None = None,
) -> str:
    """Make a file without keys, seeded with its predecessor's end; return its path.

    made_ahead: a zero file that becomes it, where it has no predecessor.
    unsynced: as in `make_segment`.
    Raises: OSError.
    """
    # Sparse, as 4.9.3's is; seeded before it gets its name, so that nobody sees it without.
    paths = config.paths
    final = join(paths.index_directory, name)
    fs.make_directories(paths.index_directory, unsynced)
    if made_ahead is None:
        made_ahead = paths.new_file(final, UNFINISHED_OWNER)
        end_ms, end = max(end_timestamp_ms, 0), max(end_physical_offset, 0)
        header = HEADER.pack(end_ms, end_ms, end, end, 0, 0)
        _build_index_file(fs, made_ahead, index_shape(config).file_bytes, header)
    fs.rename(made_ahead, final)
    sync_name(fs, final, unsynced)
    return final


def _build_index_file(fs: FileSystem, path: str, file_bytes: int, header: bytes) -> None:
    if fs.exists(path):
        fs.unlink(path)
    fd = fs.open(path, create=True)
    try:
        fs.truncate(fd, file_bytes)
        fs.pwrite(fd, header, 0)
        fs.sync(fd)
    finally:
        fs.close(fd)
