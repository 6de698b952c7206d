"""Commit logs made of bytes alone, for what reads them: records, blanks, segments, damage."""

from typing import Any

from tests.fakes.logs import write_file
from wakelog.protocol.record import encode_blank, encode_record
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import offset_name

STORE_MS = 1_700_000_000_000


def record(physical_offset: int, properties: bytes = b"", **values: Any) -> bytes:
    """Return a record of topic `T`, queue 0, as it lies at `physical_offset`."""
    fields: dict[str, Any] = {
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "sys_flag": 0,
        "born_timestamp_ms": STORE_MS - 1,
        "born_host": ("127.0.0.1", 40_000),
        "store_timestamp_ms": STORE_MS,
        "store_host": ("127.0.0.1", 10_911),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": b"body",
        "topic": "T",
    }
    return encode_record(physical_offset=physical_offset, properties=properties, **fields | values)


class LogBytes:
    """A log in memory: records behind one another, in segments that end with a blank."""

    def __init__(self, segment_bytes: int = 4096, begin: int = 0) -> None:
        assert begin % segment_bytes == 0
        self.segment_bytes = segment_bytes
        self.begin = begin
        self.data = bytearray()
        self.offsets: list[int] = []

    @property
    def end(self) -> int:
        """The physical offset behind the last record."""
        return self.begin + len(self.data)

    def add(self, properties: bytes = b"", **values: Any) -> int:
        """Append a record, rolling if it does not fit; return its physical offset."""
        made = record(self.end, properties, **values)
        left = self.segment_bytes - self.end % self.segment_bytes
        if len(made) + 8 > left:
            self.roll()
            made = record(self.end, properties, **values)
        self.offsets.append(self.end)
        self.data += made
        return self.offsets[-1]

    def roll(self) -> None:
        """End the segment with a blank."""
        left = self.segment_bytes - self.end % self.segment_bytes
        self.data += encode_blank(left).ljust(left, b"\0")

    def damage(self, physical_offset: int, data: bytes) -> None:
        """Overwrite bytes."""
        at = physical_offset - self.begin
        self.data[at : at + len(data)] = data

    def write(self, fs: FileSystem, config: StoreConfig) -> None:
        """Write the segments into a store."""
        assert config.commit_log_file_bytes == self.segment_bytes
        for at in range(0, len(self.data), self.segment_bytes):
            path = f"{config.paths.commit_log_directories[0]}/{offset_name(self.begin + at)}"
            segment = bytes(self.data[at : at + self.segment_bytes])
            write_file(fs, path, segment.ljust(self.segment_bytes, b"\0"))


def properties(**values: str) -> bytes:
    """Return a properties string of these pairs, in this order."""
    return "\x02".join(f"{name}\x01{value}" for name, value in values.items()).encode()
