"""FilterPublisher: gives Reput the filters by expression, through a file in the store's root.

Reput calculates bitmaps of the filters (`dispatchers/filter_bitmap.py`). A bitmap without the bits
of a filter hides the message from its group, if it was stored after the filter was registered.
So filters that were registered in a turn are in the file before messages of that turn can be read.

    head    epoch of the Broker, and how often it has written: another head is another table
    body    the filters, see `filter/filter_table.py`

The file is not made durable: the next Broker writes its own before it has anything dispatched. If
the file cannot be written it is removed, and Reput calculates no bitmaps.
"""

from wakelog.dispatchers.filter_bitmap import VERSION
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.filter.filter_table import encode_filters
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import StorePaths
from wakelog.telemetry.logs import Log, logger

FILE_OWNER = "broker"


class FilterPublisher:
    """The file of one incarnation of the Broker."""

    def __init__(
        self, fs: FileSystem, paths: StorePaths, epoch: int, filters: ConsumerFilters
    ) -> None:
        self._fs = fs
        self._filters = filters
        self._path = paths.filters
        self._new_path = paths.new_file(paths.filters, FILE_OWNER)
        self._epoch = epoch
        self._seen = -1
        self._has_failed = False
        self._log = logger(Log.FILTER)
        self.published_count = 0

    def publish(self) -> None:
        """Write the filters if they have changed since they were written."""
        filters = self._filters
        if filters.change_count == self._seen:
            return
        self._seen = filters.change_count
        self.published_count += 1
        head = VERSION.pack(self._epoch, self.published_count)
        data = head + encode_filters(filters.all(), filters.bloom.bit_count)
        try:
            self._write(data)
            self._has_failed = False
        except OSError as error:
            self._log.error("filter file not written: no bitmaps", cause=str(error))
            self._has_failed = True
            self.remove()

    def retry(self) -> None:
        """Write again what could not be written."""
        if self._has_failed:
            self._seen = -1
            self.publish()

    def remove(self) -> None:
        """Remove the file: no process reports changes any more."""
        try:
            self._fs.unlink(self._path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._log.error("filter file not removed", cause=str(error))

    def _write(self, data: bytes) -> None:
        fd = self._fs.open(self._new_path, create=True)
        try:
            self._fs.truncate(fd, 0)
            self._fs.pwrite(fd, data, 0)
        finally:
            self._fs.close(fd)
        self._fs.rename(self._new_path, self._path)
