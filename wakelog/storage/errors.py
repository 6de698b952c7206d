"""Errors of the store: one small tree, each leaf saying what is wrong and what to do.

    StoreError
    |-- IllegalName           a topic or group name that must not become a path
    |-- IllegalConfiguration  a key of the store's configuration has a value that cannot be used
    |-- StoreLocked           another process owns this store directory
    |-- WrongStore            the directory belongs to another broker, or not to this one
    |-- DamagedStore          files whose names, lengths or order cannot be opened safely
    |-- StoreFailed           a refusal of the operating system (EIO, EMFILE, ...)
    |   `-- StoreFull         no space left on the device
    |-- TooManyDeleted        the table of deleted topics is full
    `-- NotWriteable          the store stopped taking messages; the cause says why

Two more are answers of one part of the store to another, which goes on without. `ColdEntry`: a
reader would have to wait for the disk. `TopicClosed`: the queues of a message are being removed.
`LacksVerdicts` is an answer to the one who gets messages: it goes on once it has filtered records.

Outcomes that a correct caller must expect (a message too long, an offset too small) are result
values, not exceptions. Our own mistakes are assertions and are never caught.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class StoreError(Exception):
    """Any failure of the store. Catch a leaf where the reaction differs."""


class IllegalName(StoreError):
    """A name from the wire, a configuration file or a record that may not become a path."""

    def __init__(self, kind: str, name: str) -> None:
        """Keep `kind` (topic or queue) and the refused `name`, shortened in the text only."""
        self.kind = kind
        self.name = name
        super().__init__(
            f"illegal {kind} name {name[:160]!r}: 1 to 127 of printable ASCII without blank and '/'"
        )


class IllegalConfiguration(StoreError):
    """A configuration key whose value is not one the store accepts."""

    def __init__(self, key: str, value: object, accepted: str) -> None:
        """Keep the `key` as RocketMQ spells it, its `value` and what would be `accepted`."""
        self.key = key
        self.value = value
        self.accepted = accepted
        super().__init__(f"{key}={value}: not accepted, give {accepted}")


class StoreLocked(StoreError):
    """Another broker holds the store's lock: stop it, or give this one another directory."""

    def __init__(self, path: str, holder_pid: int | None) -> None:
        self.path = path
        self.holder_pid = holder_pid
        holder = "another process" if holder_pid is None else f"process {holder_pid}"
        super().__init__(f"the store is already running: {holder} holds {path}")


class WrongStore(StoreError):
    """The directory is not the store that was asked for: mount the right one."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} is not this broker's store: {reason}")


class DamagedStore(StoreError):
    """Files that cannot be opened without guessing; nothing was changed."""

    def __init__(self, path: str, reason: str, remedy: str) -> None:
        self.path = path
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{path}: {reason}; {remedy}")


class StoreFailed(StoreError):
    """The operating system refused an operation on a file of the store."""

    def __init__(self, path: str, operation: str, cause: OSError) -> None:
        self.path = path
        self.operation = operation
        self.cause = cause
        super().__init__(f"{operation} of {path} failed: {cause.strerror or cause}")


class StoreFull(StoreFailed):
    """No space left on the device: free some, the store goes on by itself."""


class NotWriteable(StoreError):
    """The store refuses messages since an earlier write or sync failed."""

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(f"the store takes no messages: {cause}")


def store_failure(path: str, operation: str, cause: OSError) -> StoreFailed:
    """Return the StoreError for a refused system call: StoreFull if the disk is full."""
    full = cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return (StoreFull if full else StoreFailed)(path, operation, cause)


@contextmanager
def store_errors(path: str, operation: str) -> Iterator[None]:
    """Turn an OSError of the block into StoreFailed or StoreFull; not on the way of a message."""
    try:
        yield
    except OSError as error:
        raise store_failure(path, operation, error) from error


class LacksVerdicts(Exception):
    """A get lacks the verdicts of these records, by physical offset; some may be after its last."""

    def __init__(self, records: dict[int, bytes]) -> None:
        """Keep the records to filter."""
        self.records = records
        super().__init__(f"{len(records)} records have no verdict")
