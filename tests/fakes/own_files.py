"""OwnFiles: the machine's files, of which nothing stays open when a test is over.

A process that ends closes its files; a test that plays one is only a part of a process.
"""

from wakelog.storage.file_system import FileSystem


class OwnFiles(FileSystem):
    """See the module."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        """Have nothing open."""
        super().__init__()
        self._open: set[int] = set()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        fd = super().open(path, create=create, read_only=read_only)
        self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        self._open.remove(fd)

    def close_all(self) -> None:
        """Close what is open, as the end of a process does."""
        for fd in list(self._open):
            self.close(fd)
