"""CompiledRun: the twin in C of a run of sends; a row of numbers stands for each message.

It reads less than `plain_run`: a header with white space, a name that comes twice, a number that is
written in an unusual way, a surrogate. Such a send is a command. A property with a name that is not
ASCII, or with more than 32 names, is in a run, but is not placed.
"""

import struct
from typing import Final

from wakelog.compiled.library import CHOICE, Library
from wakelog.protocol.properties import CLUSTER
from wakelog.protocol.record import HEAD_BYTES_MAX, TAIL_BYTES_MIN
from wakelog.protocol.send_run import (
    RUN_FRAME_BYTES_MAX,
    RUN_HEADER_BYTES_MAX,
    RUN_MESSAGES_MAX,
    LogRoom,
    PlacedRun,
    RunQueues,
    RunRules,
    SendRun,
)

SEND: Final = struct.Struct("=q14i")
"""Of a message: its born time; where its header and its body begin, and where that ends; opaque and
flag of the command; then what only the library reads."""

_ADDED_BYTES_MAX: Final = HEAD_BYTES_MAX + TAIL_BYTES_MIN + len(CLUSTER) + 2
"""What a record has beside what its frame has, and beside the cluster's name."""

_library: Library | None = CHOICE.library


class CompiledRun(SendRun, kw_only=True, gc=False):
    """A run with a row of SEND for each message.

    frames_bytes: of all its frames.
    """

    rows: bytes
    frames_bytes: int

    def head_of(self, index: int) -> tuple[int, int]:
        """Return opaque and flag of a message."""
        _, _, _, _, opaque, flag, *_ = SEND.unpack_from(self.rows, index * SEND.size)
        return opaque, flag

    def place_of(self, index: int) -> tuple[int, int, int]:
        """Return where a message's header and body begin in the chunk, and where the body ends."""
        _, header_begin, body_begin, end, *_ = SEND.unpack_from(self.rows, index * SEND.size)
        return header_begin, body_begin, end

    def place(self, queues: RunQueues, rules: RunRules, room: LogRoom) -> PlacedRun:
        """Encode the records of the next messages, up to one that needs more than that."""
        assert _library is not None
        cluster = rules.cluster_name.encode()
        records = bytearray(self.frames_bytes + self.count * (_ADDED_BYTES_MAX + len(cluster)))
        count, size, stored = _library.encode_records(
            self.chunk,
            self.rows,
            rules.encoder.head,
            cluster,
            queues,
            records,
            self.taken_count,
            *room,
            rules.obeys_wait,
        )
        return PlacedRun(count, memoryview(records)[:size], stored)


def read_run(
    chunk: memoryview, begin: int, messages_max: int = RUN_MESSAGES_MAX
) -> tuple[CompiledRun, int] | None:
    """Read the plain sends from `begin` on; return them and where they end, None for none."""
    assert _library is not None
    end, rows, queues = _library.read_sends(
        chunk, begin, messages_max, RUN_FRAME_BYTES_MAX, RUN_HEADER_BYTES_MAX
    )
    if not rows:
        return None
    run = CompiledRun(
        chunk=chunk,
        queues=queues,
        count=len(rows) // SEND.size,
        rows=rows,
        frames_bytes=end - begin,
    )
    return run, end
