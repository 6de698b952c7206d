"""The unique key of a row: the same whenever the row is written again.

A stream that restarts from its checkpoint writes its last batch again, and Spark runs a failed task
again. Both have the same query, batch and partition. Their rows have the same order if they are
read from files or logs. So the key is made of these. It is the property UNIQ_KEY, by which
consumers and `mqadmin` identify a message.

    bytes   of
    12      SHA-256 of query, batch and partition
    4       the row's number in the partition

as 32 hexadecimal digits, as many as in the keys of 4.9.3's clients.

Source: org.apache.rocketmq.common.message.MessageClientIDSetter (4.9.3) for property and length.
"""

import hashlib
from typing import Final, NamedTuple

ROWS_MAX: Final = 1 << 32
_PREFIX_BYTES: Final = 12


class WrittenPart(NamedTuple):
    """One partition of one batch. query: the id of a stream or of a batch write."""

    query: str
    batch: int
    partition: int


class UniqueKeys:
    """The keys of one partition."""

    def __init__(self, part: WrittenPart) -> None:
        text = f"{part.query}\n{part.batch}\n{part.partition}"
        self._prefix = hashlib.sha256(text.encode()).hexdigest()[: 2 * _PREFIX_BYTES].upper()

    def key(self, row: int) -> str:
        """Return the key of a row, counted from 0."""
        assert 0 <= row < ROWS_MAX, row
        return f"{self._prefix}{row:08X}"
