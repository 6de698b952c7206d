"""CompiledRun: the twin in C of a run of sends; a row of numbers stands for each send.

It reads less than `plain_run`: a header with white space, a name that comes twice, a number that is
written in an unusual way, a surrogate. Such a send is a command. A property with a name that is not
ASCII, or with more than 32 names, is in a run, but is not placed.
"""

import struct
from typing import Final

from wakelog.compiled.library import CHOICE, Library
from wakelog.protocol.properties import CLUSTER
from wakelog.protocol.send_run import (
    BATCH_FRAME_BYTES_MAX,
    RUN_FRAME_BYTES_MAX,
    RUN_HEADER_BYTES_MAX,
    RUN_MESSAGES_MAX,
    LogRoom,
    PlacedRun,
    RunQueues,
    RunRules,
    SendRun,
)
from wakelog.protocol.signed_content import SignedSend

SEND: Final = struct.Struct("=q16i")
"""Of a send: its born time; where its header and its body begin, and where that ends; opaque and
flag of the command; the number of its queue. What follows only the library reads."""

_CLUSTER_BYTES: Final = len(CLUSTER) + 2
"""Of the property in a record, beside the cluster's name."""

_library: Library | None = CHOICE.library


class CompiledRun(SendRun, kw_only=True, gc=False):
    """A run with a row of SEND for each send.

    records_count: messages, those of batches as well. records_bytes: at most of their records, but
    for the property CLUSTER.
    """

    rows: bytes
    records_count: int
    records_bytes: int

    def head_of(self, index: int) -> tuple[int, int]:
        """Return opaque and flag of a send."""
        _, _, _, _, opaque, flag, *_ = SEND.unpack_from(self.rows, index * SEND.size)
        return opaque, flag

    def place_of(self, index: int) -> tuple[int, int, int]:
        """Return where a send's header and body begin in the chunk, and where the body ends."""
        _, header_begin, body_begin, end, *_ = SEND.unpack_from(self.rows, index * SEND.size)
        return header_begin, body_begin, end

    def topic_of(self, index: int) -> str:
        """Return the topic of a send."""
        _, _, _, _, _, _, queue, *_ = SEND.unpack_from(self.rows, index * SEND.size)
        return self.queues[int(queue)][0]

    def signed(self, index: int) -> SignedSend | None:
        """Return what a send claims about its sender; None if that is not clear from here."""
        assert _library is not None
        found = _library.read_signed(self.chunk, self.rows, index)
        return SignedSend(*found) if found else None

    def place(self, queues: RunQueues, rules: RunRules, room: LogRoom) -> PlacedRun:
        """Encode the records of the next sends that are admitted, up to one that needs more."""
        assert _library is not None
        cluster = rules.cluster_name.encode()
        cluster_bytes = self.records_count * (_CLUSTER_BYTES + len(cluster))
        records = _library.make_room(self.records_bytes + cluster_bytes)
        count, size, stored, responses_count = _library.encode_records(
            self.chunk,
            self.rows if self.admitted_end < 0 else self.rows[: self.admitted_end * SEND.size],
            rules.encoder.head,
            cluster,
            queues,
            records,
            self.taken_count,
            room.physical_offset,
            room.timestamp_ms,
            room.room_end,
            room.record_bytes_max,
            rules.obeys_wait,
        )
        return PlacedRun(count, memoryview(records)[:size], stored, responses_count)


def read_run(
    chunk: memoryview, begin: int, messages_max: int = RUN_MESSAGES_MAX
) -> tuple[CompiledRun, int] | None:
    """Read the plain sends from `begin` on; return them and where they end, None for none."""
    assert _library is not None
    end, code, records_count, records_bytes, rows, queues = _library.read_sends(
        chunk,
        begin,
        messages_max,
        RUN_FRAME_BYTES_MAX,
        BATCH_FRAME_BYTES_MAX,
        RUN_HEADER_BYTES_MAX,
    )
    if not rows:
        return None
    run = CompiledRun(
        code,
        chunk=chunk,
        queues=queues,
        count=len(rows) // SEND.size,
        frames_bytes=end - begin,
        rows=rows,
        records_count=records_count,
        records_bytes=records_bytes,
    )
    return run, end
