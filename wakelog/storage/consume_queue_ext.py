"""Reading extension units of a consume queue: tags code, store time and filter bit map.

Source: org.apache.rocketmq.store.ConsumeQueueExt (4.9.3).
"""

from __future__ import annotations

from typing import NamedTuple

from wakelog.storage.file_system import FileSystem
from wakelog.storage.open_files import OpenFiles

EXTENSION_ADDRESS_MAX = -(1 << 31) - 1  # an address is one iff it is at most this (fact 51)


class ExtensionUnit(NamedTuple):
    """One unit."""

    size_bytes: int
    tags_code: int
    store_timestamp_ms: int
    bitmap: bytes


def is_extension_address(tags_code: int) -> bool:
    """Tell whether an entry's tags code is the address of a unit."""
    return tags_code <= EXTENSION_ADDRESS_MAX


class ConsumeQueueExt:
    """The units of one queue, read only."""

    def __init__(
        self, fs: FileSystem, directory: str, *, file_bytes: int, open_files: OpenFiles
    ) -> None:
        """Touch no file."""

    def unit(self, address: int) -> ExtensionUnit | None:
        """Return the unit at an address, None if there is none."""
        raise NotImplementedError
