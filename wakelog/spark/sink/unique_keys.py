"""The unique key of a row: the same whenever the row is written again.

A stream that is restarted from its checkpoint writes its last batch again, and Spark runs a task
again that has failed half-way. Both have the same query, batch and partition, and their rows come
in the same order if what they are read from gives them so, as files and logs do. So the key is made
of these. It stands in the property UNIQ_KEY, by which consumers and `mqadmin` know a message.

    bytes   of
    12      SHA-256 of query, batch and partition
    4       the row's number in the partition

as 32 hexadecimal digits, the length of what 4.9.3's clients make.

Source: org.apache.rocketmq.common.message.MessageClientIDSetter (4.9.3) for property and length.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

ROWS_MAX: Final = 1 << 32
_PREFIX_BYTES: Final = 12


class WrittenPart(NamedTuple):
    """One partition of one batch; `query` is a stream's id, or that of a batch write."""

    query: str
    batch: int
    partition: int


class UniqueKeys:
    """The keys of one partition."""

    def __init__(self, part: WrittenPart) -> None:
        """Digest what all of them have in common."""
        text = f"{part.query}\n{part.batch}\n{part.partition}"
        self._prefix = hashlib.sha256(text.encode()).hexdigest()[: 2 * _PREFIX_BYTES].upper()

    def key(self, row: int) -> str:
        """Return the key of a row, counted from 0."""
        assert 0 <= row < ROWS_MAX, row
        return f"{self._prefix}{row:08X}"
