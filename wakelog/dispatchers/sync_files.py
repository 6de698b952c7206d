"""Make files, and then their names, durable through separate descriptors.

A sync covers the whole file, whichever descriptor wrote it. So a thread can sync while the
dispatcher opens and closes its own descriptors.
"""

from collections.abc import Iterable
from posixpath import dirname, join

from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import FileSystem


def sync_files(fs: FileSystem, paths: Iterable[str]) -> None:
    """Sync the data of each file, and leave out files that were removed.

    Raises: StoreFailed; then none of them counts as durable.
    """
    for path in paths:
        with store_errors(path, "open"):
            try:
                fd = fs.open(path)
            except FileNotFoundError:
                continue
        with store_errors(path, "sync"):
            try:
                fs.datasync(fd)
            finally:
                fs.close(fd)


def sync_directories(fs: FileSystem, paths: Iterable[str]) -> None:
    """Sync the names in each directory once, and leave out directories that were removed.

    Raises: StoreFailed; then none of the names counts as durable.
    """
    for path in dict.fromkeys(paths):
        with store_errors(path, "sync"):
            try:
                fs.sync_directory(path)
            except FileNotFoundError:
                continue


def sync_tree(fs: FileSystem, root: str) -> None:
    """Sync every file below a folder, then the names in it and below it, and its own.

    Raises: StoreFailed, OSError; then nothing of it counts as durable.
    """
    directories: list[str] = [root]
    files: list[str] = []
    for directory in directories:
        for name in fs.list_directory(directory):
            path = join(directory, name)
            (files if fs.is_file(path) else directories).append(path)
    sync_files(fs, files)
    sync_directories(fs, [*reversed(directories), dirname(root)])
