"""Make files, and then their names, durable through descriptors of one's own.

A sync writes back the file, not what one descriptor wrote, so that it may run beside the dispatch:
in a thread, while the dispatcher opens and closes its own descriptors.
"""

from __future__ import annotations

from collections.abc import Iterable

from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem


def sync_files(fs: FileSystem, paths: Iterable[str]) -> None:
    """Sync the data of each file; one that was removed since it was written needs none.

    Raises: StoreFailed; then none of them may be taken for durable.
    """
    for path in paths:
        try:
            fd = fs.open(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise store_failure(path, "open", error) from error
        try:
            fs.datasync(fd)
        except OSError as error:
            raise store_failure(path, "sync", error) from error
        finally:
            fs.close(fd)


def sync_directories(fs: FileSystem, paths: Iterable[str]) -> None:
    """Sync the names in each directory, once; one that was removed meanwhile needs none.

    Raises: StoreFailed; then none of the names may be taken for durable.
    """
    for path in dict.fromkeys(paths):
        try:
            fs.sync_directory(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise store_failure(path, "sync", error) from error
