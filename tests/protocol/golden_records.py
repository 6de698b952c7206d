"""The records in the commit logs of the golden stores, read straight from the archives."""

import struct
import tarfile
from collections.abc import Iterator
from functools import cache

from tests.golden_stores import GOLDEN

_SIZE_AND_MAGIC = struct.Struct(">iI")
_MESSAGE_MAGIC = 0xDAA320A7


@cache
def raw_records(name: str) -> tuple[bytes, ...]:
    """Return every record of a fixture's store, in the order of the log."""
    records: list[bytes] = []
    for _, log in sorted(_files(name, "/commitlog/")):
        records += _split(log)
    return tuple(records)


@cache
def config_files(name: str) -> dict[str, bytes]:
    """Return a fixture's configuration files by name."""
    return dict(_files(name, "/config/"))


def _files(name: str, folder: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(GOLDEN / name / "store.tar.gz") as tar:
        for member in tar.getmembers():
            if folder in "/" + member.name and member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                yield member.name.rpartition("/")[2], content.read()


def _split(log: bytes) -> Iterator[bytes]:
    # Deliberately not the code under test: size by size, as long as the magic is a message's.
    position = 0
    while position + _SIZE_AND_MAGIC.size <= len(log):
        size, magic = _SIZE_AND_MAGIC.unpack_from(log, position)
        if magic != _MESSAGE_MAGIC:
            return
        yield log[position : position + size]
        position += size
