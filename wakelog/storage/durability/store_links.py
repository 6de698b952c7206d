"""Refuse a store with links that lead out of it, before any file of it is read.

Files are never written through a link in their place (`file_system.py`). But through a link the
broker would read another file as its own, or make and remove files elsewhere. A link to something
inside the store's root is fine.

    in                        checked
    the root                  its folders, the checkpoint and the abort file
    the log's directories     every name: segments
    index/                    every name
    config/                   every name except those of the start guard (`start_guard.py`)
    consumequeue/, its units  the folders of topics and queues

Queue files are many and not checked: each is opened for writing, which follows no link. A log
directory that is configured elsewhere may be a link.

Source: none upstream; 4.9.3 follows links.
"""

from collections.abc import Iterator
from itertools import chain
from posixpath import dirname, isabs, join, normpath
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.start_guard import GUARDED
from wakelog.storage.errors import DamagedStore, store_errors
from wakelog.storage.file_system import FileSystem, names_in
from wakelog.storage.paths import QUARANTINE_NAME

# Linux gives up after this many.
LINKS_MAX: Final = 40


def refuse_links_out(fs: FileSystem, config: StoreConfig) -> None:
    """Check what the module's table lists. Raises: DamagedStore, StoreFailed."""
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
        _linked_folders(fs, paths.consume_queue_root),
        _linked_folders(fs, paths.consume_queue_extension_root),
    )
    for path in folders:
        _refuse_out(fs, paths.root, path)
    guarded = {join(paths.config_directory, name) for name in (GUARDED, f"{GUARDED}.bak")}
    found = [join(directory, name) for directory in directories for name in names_in(fs, directory)]
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


def _linked_folders(fs: FileSystem, root: str) -> Iterator[str]:
    """Yield a folder of queues, and those of topics and queues in it that are links.

    Each comes before its content. There may be thousands, so none is asked by itself.
    """
    yield root
    yield from _links_in(fs, root)
    for topic in names_in(fs, root):
        yield from _links_in(fs, join(root, topic))


def _links_in(fs: FileSystem, directory: str) -> list[str]:
    with store_errors(directory, "list"):
        return [join(directory, name) for name in fs.links_in(directory)]


def leads_out(fs: FileSystem, root: str, path: str) -> bool:
    """Tell whether a path is a link that leads out of `root`, or nowhere. Raises: StoreFailed."""
    with store_errors(path, "read"):
        target = fs.read_link(path)
        for _ in range(LINKS_MAX):
            if target is None:
                return False
            path = normpath(target if isabs(target) else join(dirname(path), target))
            if not path.startswith(root + "/"):
                return True
            target = fs.read_link(path)
    return True
