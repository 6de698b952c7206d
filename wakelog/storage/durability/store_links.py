"""Links in place of a store's files that lead out of it: refused at the start, before any is read.

What is written is never written through a link in a file's place (`file_system.py`). But tables and
index files are read too, and replaced: a link that somebody put there would have the broker take
another file for its own, or hand out what is in it. A link in a folder's place would have it make
and remove files elsewhere. A link to what is inside the store's root is what that is.

    in                        looked at
    the root                  its folders, the checkpoint and the abort mark
    the log's directories     every name: segments
    index/                    every name
    config/                   every name, but for those of the start guard (`start_guard.py`)
    consumequeue/, its units  the folders of topics and queues

A queue's files are many, and each is opened to be written, which follows no link. A log's directory
that is configured elsewhere may be a link.

Source: none upstream; 4.9.3 follows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from posixpath import dirname, isabs, join, normpath
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.start_guard import GUARDED
from wakelog.storage.errors import DamagedStore, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import QUARANTINE_NAME

# Linux gives up after as many.
LINKS_MAX: Final = 40


def refuse_links_out(fs: FileSystem, config: StoreConfig) -> None:
    """Look at what the module's table says. Raises: DamagedStore, StoreFailed."""
    paths = config.paths
    directories = (
        *paths.commit_log_directories,
        *config.read_only_directories,
        paths.index_directory,
        paths.config_directory,
    )
    folders = chain(
        (directory for directory in directories if directory.startswith(paths.root + "/")),
        (paths.sums_directory, join(paths.root, QUARANTINE_NAME)),
        _queue_folders(fs, paths.consume_queue_root),
        _queue_folders(fs, paths.consume_queue_extension_root),
    )
    for path in folders:
        _refuse_out(fs, paths.root, path)
    guarded = {join(paths.config_directory, name) for name in (GUARDED, f"{GUARDED}.bak")}
    found = [join(directory, name) for directory in directories for name in _names(fs, directory)]
    for path in (paths.checkpoint, paths.abort, *found):
        if path not in guarded:
            _refuse_out(fs, paths.root, path)


def _refuse_out(fs: FileSystem, root: str, path: str) -> None:
    if leads_out(fs, root, path):
        raise DamagedStore(
            path,
            f"it is a link out of the store, to {fs.read_link(path)}",
            "replace it by what it leads to, or remove it",
        )


def _queue_folders(fs: FileSystem, root: str) -> Iterator[str]:
    """Yield a folder of queues, and those of topics and queues in it, each before its content."""
    yield root
    for topic in _names(fs, root):
        folder = join(root, topic)
        yield folder
        for name in _names(fs, folder):
            yield join(folder, name)


def leads_out(fs: FileSystem, root: str, path: str) -> bool:
    """Tell whether a path is a link that leads out of `root`, or nowhere. Raises: StoreFailed."""
    try:
        target = fs.read_link(path)
        for _ in range(LINKS_MAX):
            if target is None:
                return False
            path = normpath(target if isabs(target) else join(dirname(path), target))
            if not path.startswith(root + "/"):
                return True
            target = fs.read_link(path)
        return True
    except OSError as error:
        raise store_failure(path, "read", error) from error


def _names(fs: FileSystem, directory: str) -> list[str]:
    try:
        return fs.list_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise store_failure(directory, "list", error) from error
