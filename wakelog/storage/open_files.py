"""A bounded set of open descriptors: thousands of queues share a few hundred."""

from __future__ import annotations

from wakelog.storage.file_system import FileSystem

# Half of the 1024 descriptors that a process gets by default.
OPEN_FILES_MAX = 512


class OpenFiles:
    """Descriptors by path, least recently used closed first. One owner, one thread."""

    def __init__(
        self, fs: FileSystem, *, read_only: bool, open_files_max: int = OPEN_FILES_MAX
    ) -> None:
        """Open nothing yet."""

    def descriptor(self, path: str) -> int:
        """Return a descriptor of an existing file, good until the next call.

        Raises:
            FileNotFoundError: there is no such file.
        """
        raise NotImplementedError

    def forget(self, path: str) -> None:
        """Close the descriptor of a file that is being removed."""

    def close(self) -> None:
        """Close all."""
