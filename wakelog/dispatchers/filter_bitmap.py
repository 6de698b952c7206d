"""Calculates which filters each message passes, for the extension units of its queue.

The Broker has the filters and is another process. It writes them to a file, by a rename, before it
stores any later message (`actors/broker/filter_file.py`). Reput checks the file after the batch was
readable. So each message's bitmap covers all filters that were registered before the message.

    the file            bitmaps
    is there            of its filters
    did not change      of the table that was read from it
    is not there        none: a pull checks the properties instead
    is invalid          none

Source: org.apache.rocketmq.broker.filter.CommitLogDispatcherCalcBitMap (4.9.3), which shares the
memory of the broker.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from wakelog.dispatchers.dispatcher import DispatchBatch, FilelessDispatcher
from wakelog.filter.filter_table import FilterTable, decode_filters
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem

FilterSource: TypeAlias = Callable[[], FilterTable | None]

VERSION: Final = Struct(">qq")
"""The begin of the file: the epoch of the Broker, and the count of its writes."""


class FilterBitmap(FilelessDispatcher):
    """Sets the bitmaps of each batch; keeps no files."""

    name = "filter_bitmap"

    def __init__(self, filters: FilterSource) -> None:
        """Keep the source of filters, which is called for each batch."""
        self._filters = filters
        self._bitmaps_count = 0

    def dispatch(self, batch: DispatchBatch) -> None:
        """Apply the filters of its topic to each message. Raises: StoreFailed."""
        filters = self._filters()
        if not filters or not len(batch):
            return
        batch.bitmaps = [
            filters.bitmap(one.topic, one.properties, one.store_timestamp_ms)
            for one in batch.requests
        ]
        self._bitmaps_count += sum(map(bool, batch.bitmaps))

    def recover(self, max_physical_offset: int) -> int:
        """Need nothing: only records that others dispatch need bitmaps."""
        return max_physical_offset

    def truncate(self, physical_offset: int) -> int:
        """Need nothing."""
        return physical_offset

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {"bitmaps_count": self._bitmaps_count}


class FilterFile:
    """The Broker's file, read again when it has changed: a FilterSource."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        """Read nothing yet."""
        self._fs = fs
        self._path = path
        self._version = b""
        self._table: FilterTable | None = None

    def __call__(self) -> FilterTable | None:
        """Return the table, None if there is none. Raises: StoreFailed."""
        try:
            fd = self._fs.open(self._path, read_only=True)
        except FileNotFoundError:
            self._version, self._table = b"", None
            return None
        except OSError as error:
            raise store_failure(self._path, "open", error) from error
        try:
            version = self._fs.pread(fd, VERSION.size, 0)
            if version != self._version:
                size = self._fs.size(fd)
                self._table = self._read(self._fs.pread(fd, size, 0)[VERSION.size :])
                self._version = version
        except OSError as error:
            raise store_failure(self._path, "read", error) from error
        finally:
            self._fs.close(fd)
        return self._table

    def _read(self, data: bytes) -> FilterTable | None:
        try:
            return decode_filters(data, self._table)
        except (ValueError, RecursionError):
            return None
