"""Names of files and directories of a store, both ways: from parts to a path, and back.

docs/formats/store_directory.md lists them. `storePathCommitLog` may name several directories,
separated by commas; new segments use them in turn. A topic name comes from a socket, a
configuration file or a foreign record. So every path made from one checks it, and no file ever
leaves the root. The check is that a name is one component of a path: the retry topic of a group may
have characters that clients may not use. Some modules name the one file of their own in the root.

Source: org.apache.rocketmq.store.config.StorePathConfigHelper, org.apache.rocketmq.common.UtilAll
.offset2FileName (4.9.3). 4.9.3 checks names only where a topic is created; we check here as well.
"""

import re
from posixpath import basename, dirname, join, normpath

from wakelog.storage.errors import IllegalName

_NAME = re.compile(r"(?!\.{1,2}\Z)[!-.0-~]{1,127}", re.ASCII)  # printable, no blank and no slash
_OFFSET_NAME = re.compile(r"[0-9]{20}", re.ASCII)
_INDEX_NAME = re.compile(r"[0-9]{17}", re.ASCII)
_CONFIG_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}\.json", re.ASCII)
_OWN_PREFIX = "wakelog."
_NEW_FILE_PREFIX = "wakelog.new."
QUARANTINE_NAME = "wakelog.quarantine"  # in the root: what was cut or replaced


def check_topic_name(name: str) -> str:
    """Return the name of a topic that may become a path. Raises: IllegalName."""
    if _NAME.fullmatch(name) is None:
        raise IllegalName("topic", name)
    return name


def offset_name(offset: int) -> str:
    """Return the 20-digit name of the file that starts at `offset`."""
    assert offset >= 0, offset
    return f"{offset:020d}"


def parse_offset_name(name: str) -> int | None:
    """Return the start offset in a file's name, None for any other name."""
    return int(name) if _OFFSET_NAME.fullmatch(name) else None


def is_index_name(name: str) -> bool:
    """Tell whether a name is that of an index file."""
    return _INDEX_NAME.fullmatch(name) is not None


def parse_queue_id(name: str) -> int | None:
    """Return the queue id in a directory's name, None for any other name."""
    return int(name) if name.isascii() and name.isdigit() and str(int(name)) == name else None


class StorePaths:
    """The paths of one store: only names, no disk access."""

    def __init__(self, root: str, commit_log: str | None = None) -> None:
        """Name everything below `root`; `commit_log` may be a comma list of directories."""
        self.root = normpath(root)
        listed = [part.strip() for part in (commit_log or join(self.root, "commitlog")).split(",")]
        self.commit_log_directories = tuple(sorted({normpath(part) for part in listed if part}))
        self.consume_queue_root = join(self.root, "consumequeue")
        self.consume_queue_extension_root = join(self.root, "consumequeue_ext")
        self.index_directory = join(self.root, "index")
        self.config_directory = join(self.root, "config")
        self.checkpoint = join(self.root, "checkpoint")
        self.abort = join(self.root, "abort")
        self.lock = join(self.root, "lock")
        self.deleted_topics = join(self.root, _OWN_PREFIX + "deleted")
        self.dispatched = join(self.root, _OWN_PREFIX + "dispatched")
        self.epochs = join(self.root, _OWN_PREFIX + "epochs")
        self.filters = join(self.root, _OWN_PREFIX + "filters")
        self.leases = join(self.root, _OWN_PREFIX + "leases")
        self.side_files_directory = join(self.root, _OWN_PREFIX + "parquet")
        self.store_identity = join(self.root, _OWN_PREFIX + "store")
        self.sums_directory = join(self.root, _OWN_PREFIX + "crc")
        self.watermark = join(self.root, _OWN_PREFIX + "watermark")

    @property
    def written_directories(self) -> tuple[str, ...]:
        """The directories in which services make files, the root first."""
        ends = ("_root", "_directory")
        named = [path for name, path in vars(self).items() if name.endswith(ends)]
        return self.root, *self.commit_log_directories, *named

    @property
    def written_files(self) -> tuple[str, ...]:
        """The files in the root that services write, or remove."""
        return tuple(
            path
            for path in vars(self).values()
            if isinstance(path, str) and path != self.root and path not in self.written_directories
        )

    def consume_queue(self, topic: str, queue_id: int) -> str:
        """Return the directory of one consume queue. Raises: IllegalName."""
        return self._queue(self.consume_queue_root, topic, queue_id)

    def consume_queue_extension(self, topic: str, queue_id: int) -> str:
        """Return the directory of one queue's extension units. Raises: IllegalName."""
        return self._queue(self.consume_queue_extension_root, topic, queue_id)

    def config(self, name: str) -> str:
        """Return the path of a configuration file, such as `topics.json`."""
        assert _CONFIG_NAME.fullmatch(name), name
        return join(self.config_directory, name)

    def new_file(self, final_path: str, owner: str) -> str:
        """Return where `owner` builds a file before it gets `final_path`.

        It lies outside the data folders: there 4.9.3 refuses files of another length. A segment is
        built beside its own log directory, which may be another disk. Outside the root its name
        contains that directory's, because other stores may build there too. Each owner has its own
        names, so that none renames what another is still building.
        """
        folder = dirname(final_path)
        if folder in self.commit_log_directories:
            place = dirname(folder)
            name = basename(final_path)
            if place != self.root:
                name = f"{basename(folder)}.{name}"
            return join(place, f"{_NEW_FILE_PREFIX}{owner}.{name}")
        assert final_path.startswith(self.root + "/"), final_path
        flat_name = final_path[len(self.root) + 1 :].replace("/", ".")
        return join(self.root, f"{_NEW_FILE_PREFIX}{owner}.{flat_name}")

    @property
    def new_file_directories(self) -> tuple[str, ...]:
        """The directories that unfinished files can be left in."""
        return tuple(sorted({self.root, *map(dirname, self.commit_log_directories)}))

    def is_new_file(self, path: str, owner: str) -> bool:
        """Tell whether a path is that of one of `owner`'s unfinished files of this store."""
        place, name = dirname(path), basename(path)
        if place == self.root or not is_new_file_name(name, owner):
            return is_new_file_name(name, owner)
        folder, _, offset = name.removeprefix(f"{_NEW_FILE_PREFIX}{owner}.").rpartition(".")
        is_ours = join(place, folder) in self.commit_log_directories
        return is_ours and parse_offset_name(offset) is not None

    @staticmethod
    def _queue(root: str, topic: str, queue_id: int) -> str:
        # A queue id is a Java int that came with a record; a negative one must not become "-1".
        if not 0 <= queue_id <= 0x7FFFFFFF:
            raise IllegalName("queue", f"{topic}/{queue_id}")
        return join(root, check_topic_name(topic), str(queue_id))


def is_new_file_name(name: str, owner: str) -> bool:
    """Tell whether a name is that of one of `owner`'s unfinished files."""
    return name.startswith(f"{_NEW_FILE_PREFIX}{owner}.")
