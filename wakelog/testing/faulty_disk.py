"""A disk that a test makes slow or full."""

import time

from wakelog.storage.file_system import DiskUsage, FileSystem


class FaultyDisk(FileSystem):
    """The real disk, until `sync_seconds` or `is_full` is set; any thread may set them."""

    def __init__(self) -> None:
        super().__init__()
        self.sync_seconds = 0.0
        self.is_full = False

    def datasync(self, fd: int) -> None:
        """Sync a file, `sync_seconds` late."""
        time.sleep(self.sync_seconds)
        super().datasync(fd)

    def sync(self, fd: int) -> None:
        """Sync a file and its size, `sync_seconds` late."""
        time.sleep(self.sync_seconds)
        super().sync(fd)

    def disk_usage(self, path: str) -> DiskUsage:
        """Return the real usage, or that of a full disk."""
        usage = super().disk_usage(path)
        return usage._replace(used_bytes=usage.total_bytes, free_bytes=0) if self.is_full else usage
