"""Which records of deleted topics get no queue entry: `wakelog.deleted` in the root.

The log keeps the records of a deleted topic until they expire. Dispatch that begins below them, as
after a crash, would bring the queues back. If the topic was made again, its new messages would even
be taken for repeated ones, because their queue offsets start at 0 again. So the file says up to
which physical offset the records of a topic are deleted:

    {"version":1,"topics":{"orders":4096}}

Reput alone writes it while a broker runs, whole and in one step, before it removes a queue's file.
Recovery ends a removal that was interrupted. 4.9.3 ignores the file: it brings such queues back.

A slave takes over its master's offsets once its log reaches them. A queue that it has made of
deleted records by then is removed, and made again of those that follow.

Invariants:
- A topic stands in the file before the first of its files is removed.
- An offset is lowered durably before the log grows again from a lower end.
- At most TOPICS_MAX topics; those are dropped whose records have all expired.

Source: none upstream.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from wakelog.storage.errors import StoreError, store_errors
from wakelog.storage.file_system import FileSystem, read_file, replace_file
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.paths import StorePaths
from wakelog.typed_values import decode_json

TOPICS_MAX: Final = 10_000
VERSION: Final = 1
FILE_BYTES_MAX: Final = 256 * TOPICS_MAX

_OWNER: Final = "reput"


class QueueRemoval(NamedTuple):
    """Queues to remove: all of some topics, and single ones whose messages have expired.

    physical_offset: every record of these queues begins below it. Those at or above it belong to
        new queues of the same names.
    """

    topics: tuple[str, ...]
    queues: tuple[QueueKey, ...]
    physical_offset: int


class TooManyDeleted(StoreError):
    """As many topics are deleted, with records still in the log, as may be."""

    def __init__(self) -> None:
        super().__init__(
            f"the log still has records of {TOPICS_MAX} deleted topics; wait until they expire"
        )


class _DeletedFile(msgspec.Struct, frozen=True):
    version: int
    topics: dict[str, int]


class DeletedTopics:
    """The table of one store, with its file. Saving raises StoreFull, StoreFailed."""

    def __init__(self, fs: FileSystem, paths: StorePaths) -> None:
        """Read the file. Raises: StoreFailed."""
        self._fs = fs
        self._paths = paths
        self.ends: Mapping[str, int] = read_deleted_topics(fs, paths)
        """By topic: the physical offset below which its records are deleted."""

    def note(self, topics: tuple[str, ...], physical_offset: int) -> None:
        """Record durably that the topics' records below the offset are deleted.

        Raises: TooManyDeleted, StoreFull, StoreFailed; then the table is what it was.
        """
        self.add_ends(dict.fromkeys(topics, physical_offset))

    def add_ends(self, ends: Mapping[str, int]) -> None:
        """Do what `note` does, with an offset for each topic. An end never falls here.

        Raises: as `note` does.
        """
        raised = {topic: end for topic, end in ends.items() if end > self.ends.get(topic, 0)}
        if len({*self.ends, *raised}) > TOPICS_MAX:
            raise TooManyDeleted
        if raised:
            self._save({**self.ends, **raised})

    def forget_before(self, physical_offset: int) -> None:
        """Drop the topics of which the log, which begins here, has no deleted record."""
        ends = {topic: end for topic, end in self.ends.items() if end > physical_offset}
        if len(ends) < len(self.ends):
            self._save(ends)

    def lower(self, physical_offset: int) -> None:
        """Record durably that the log ends here: what it gets from here on is not deleted."""
        if any(end > physical_offset for end in self.ends.values()):
            self._save({topic: min(end, physical_offset) for topic, end in self.ends.items()})

    def _save(self, ends: dict[str, int]) -> None:
        path = self._paths.deleted_topics
        text = msgspec.json.encode(_DeletedFile(VERSION, ends)) + b"\n"
        replace_file(self._fs, path, text, temporary_path=self._paths.new_file(path, _OWNER))
        self.ends = ends


def read_deleted_topics(fs: FileSystem, paths: StorePaths) -> dict[str, int]:
    """Return the table; a text that cannot be read counts as none. Raises: StoreFailed."""
    data = read_file(fs, paths.deleted_topics, FILE_BYTES_MAX)
    if data is None:
        return {}
    try:
        found = decode_json(data, _DeletedFile)
    except (ValueError, RecursionError):
        return {}
    return found.topics if found.version == VERSION else {}


def remove_units(fs: FileSystem, directory: str) -> None:
    """Remove the extension units of one queue, and its topic's folder if it is empty then.

    New queues of that name must not point into old units. Raises: StoreFailed.
    """
    with store_errors(directory, "remove"):
        if fs.exists(directory):
            for name in fs.list_directory(directory):
                fs.unlink(f"{directory}/{name}")
            fs.remove_directory(directory)
    remove_if_empty(fs, directory.rpartition("/")[0])


def remove_if_empty(fs: FileSystem, directory: str) -> None:
    """Remove the folder of a topic without queues. Raises: StoreFailed."""
    with store_errors(directory, "remove"):
        if fs.exists(directory) and not fs.list_directory(directory):
            fs.remove_directory(directory)
