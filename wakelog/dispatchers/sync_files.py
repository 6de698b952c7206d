"""Make files, and then their names, durable through descriptors of one's own.

A sync writes back the file, not what one descriptor wrote, so that it may run beside the dispatch:
in a thread, while the dispatcher opens and closes its own descriptors.
"""

from __future__ import annotations

from collections.abc import Iterable
from posixpath import dirname, join

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


def sync_tree(fs: FileSystem, root: str) -> None:
    """Sync every file below a folder, then the names in it and below it, and its own.

    Raises: StoreFailed, OSError; then nothing of it may be taken for durable.
    """
    directories: list[str] = [root]
    files: list[str] = []
    for directory in directories:
        for name in fs.list_directory(directory):
            path = join(directory, name)
            (files if fs.is_file(path) else directories).append(path)
    sync_files(fs, files)
    sync_directories(fs, [*reversed(directories), dirname(root)])
