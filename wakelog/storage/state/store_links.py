"""Links in place of a store's files that lead out of it: refused at the start, before any is read.

What is written is never written through a link (`file_system.py`). But tables and index files are
read too, and replaced: a link that somebody put there would have the broker take another file for
its own, or hand out what is in it. A link to a file inside the store's root is what that file is.

    in                        looked at
    the log's directories     every name: segments
    index/                    every name
    config/                   every name, but for those of the start guard (`start_guard.py`)
    the root                  the checkpoint and the abort mark

A queue's files are many, and each is opened to be written, which follows no link.

Source: none upstream; 4.9.3 follows them.
"""

from __future__ import annotations

from posixpath import dirname, isabs, join, normpath
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.state.start_guard import GUARDED

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
    guarded = {join(paths.config_directory, name) for name in (GUARDED, f"{GUARDED}.bak")}
    found = [join(directory, name) for directory in directories for name in _names(fs, directory)]
    for path in (paths.checkpoint, paths.abort, *found):
        if path in guarded or not leads_out(fs, paths.root, path):
            continue
        raise DamagedStore(
            path,
            f"it is a link out of the store, to {fs.read_link(path)}",
            "replace it by what it leads to, or remove it",
        )


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
