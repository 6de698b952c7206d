"""Making segments ahead of need.

Source: org.apache.rocketmq.store.AllocateMappedFileService (4.9.3).
"""

from __future__ import annotations

from wakelog.storage.file_system import FileSystem


def make_segment(fs: FileSystem, path: str, size_bytes: int, *, temporary_path: str) -> bool:
    """Make a zero file of full length appear at `path` in one step; False if one was there.

    temporary_path: where it is built, see `StorePaths.new_file`.
    Raises: StoreFull, StoreFailed, DamagedStore when a file of another length has the name.
    """
    raise NotImplementedError
