"""SendRun: successive plain sends of one chunk, which are one piece of work.

Most frames that a broker gets are SEND_MESSAGE_V2, and many come together. A frame belongs to a run
if its header is JSON, begins with the code as Java writes it, and has known names only. It sends
one message, or a batch of at most BATCH_RECORDS_MAX whole ones. Java sends that with a code of its
own; the frames of a run have one code. The body stays in the chunk until it is written into
records.

There are twins: `plain_run` reads with msgspec, and `compiled_run` in C, where nothing is made for
a message. `frame` uses the compiled one if its library is there. What that one does not understand
is no part of a run.

A run promises nothing about topics, queues, properties or senders. Who takes it says which of its
queues get messages, and how many of its sends are admitted. `place` encodes the records of the
first of these, up to one that needs more than that. That one comes by `next_command`: the
RemotingCommand that it would have been without a run.

Invariants:
    - the messages of a run stand one behind the other in the chunk, with no frame between them.
    - `next_command` returns what `decode_header` makes of the same bytes.
    - a run has at most RUN_MESSAGES_MAX sends, or PLAIN_RUN_MESSAGES_MAX; and RUN_RECORDS_MAX
      messages, if it is not one batch: so long another connection may wait for its turn.
    - of a batch all messages are placed, or none.

Source: org.apache.rocketmq.remoting.protocol.RemotingCommand, SendMessageRequestHeaderV2 (4.9.3).
"""

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from wakelog.protocol.command import SERIALIZE_JSON, RemotingCommand
from wakelog.protocol.header_codec import decode_header
from wakelog.protocol.record import RecordEncoder
from wakelog.protocol.signed_content import SignedSend

RUN_MESSAGES_MAX: Final = 16
"""Some 0.1 ms by Python, and 0.3 ms if each of them needs more than a run. Other connections wait
so long."""

PLAIN_RUN_MESSAGES_MAX: Final = 64
"""Of a run in C, if all messages of the run before were plain: some 0.1 ms as well."""

RUN_FRAME_BYTES_MAX: Final = 16_384
"""A longer frame is none of a run: the copy of its body is most of its work."""

RUN_RECORDS_MAX: Final = 256
"""Messages of a run with batches; some 0.1 ms in C, and 0.4 ms by Python."""

BATCH_RECORDS_MAX: Final = 1_024
"""A longer batch is encoded in steps."""

BATCH_FRAME_BYTES_MAX: Final = 4_194_304
"""About what a broker takes of a batch by default. In C a MiB takes some 0.2 ms."""

RUN_HEADER_BYTES_MAX: Final = 8_192

QUEUE_COLUMNS: Final = 5
NEXT_OFFSET, SYS_FLAG, PLACED_COUNT, PLACED_BYTES, PLACED_SENDS = range(QUEUE_COLUMNS)
"""Columns of each distinct queue of a run. The queue offset of its next message is negative if it
gets none of a run. The flag is added to the sys_flag of its messages. `place` counts in the rest:
messages, bytes of their records, and sends, of which a batch is one.
"""

STORED: Final = struct.Struct("=2i2q")
"""Of a stored message that wants a response: its opaque, its queue id, its physical offset, and its
queue offset. A batch has one response and a row for each message, from the second on with -1 as
queue offset."""

RunQueues: TypeAlias = "array[int]"
"""QUEUE_COLUMNS numbers for each queue, in their order; of type code q."""


class RunRules(Struct, frozen=True, gc=False):
    """What is the same for all messages of a run.

    obeys_wait: a message that does not wait for the disk or a slave is none for a run.
    """

    encoder: RecordEncoder
    cluster_name: str
    obeys_wait: bool


class LogRoom(Struct, frozen=True, gc=False):
    """Where the records of a run go, and how far they may reach."""

    physical_offset: int
    timestamp_ms: int
    room_end: int
    record_bytes_max: int


class PlacedRun(Struct, frozen=True, gc=False):
    """How many sends were encoded, their records, rows of STORED, and how many responses."""

    sends_count: int
    records: bytes | memoryview
    stored: bytes
    responses_count: int


class SendRun(RemotingCommand, kw_only=True, gc=False):
    """Sends that wait together in a lane, where they are one request.

    chunk: kept until the last send is taken. frames_bytes: how long the frames of the sends are.
    queues: the distinct (topic, queue id) of all messages.
    count: of sends. taken_count: how many of them are done.
    admitted_end: the first send that is not known to be allowed; access control sets it. -1 if all
        are allowed.
    """

    chunk: memoryview
    queues: tuple[tuple[str, int], ...]
    count: int
    frames_bytes: int
    taken_count: int = 0
    admitted_end: int = -1

    @property
    def left_count(self) -> int:
        """How many sends are not taken yet."""
        return self.count - self.taken_count

    @property
    def placed_end(self) -> int:
        """The first send behind those that may be placed."""
        return self.count if self.admitted_end < 0 else self.admitted_end

    def place(self, queues: RunQueues, rules: RunRules, room: LogRoom) -> PlacedRun:
        """Encode the records of the next sends that are admitted, up to one that needs more.

        Such are one of a queue without a next offset, one that is delayed, half or does not wait,
        and one that is too long or has no room. The caller counts what it has stored as taken.

        queues: a row for each of `queues`, which changes.
        """
        raise NotImplementedError

    def head_of(self, index: int) -> tuple[int, int]:
        """Return opaque and flag of a send."""
        raise NotImplementedError

    def place_of(self, index: int) -> tuple[int, int, int]:
        """Return where a send's header and body begin in the chunk, and where the body ends."""
        raise NotImplementedError

    def topic_of(self, index: int) -> str:
        """Return the topic of a send."""
        raise NotImplementedError

    def signed(self, index: int) -> SignedSend | None:
        """Return what a send claims about its sender; None if that is not clear from here."""
        raise NotImplementedError

    def requests(self, begin: int, end: int) -> list[RemotingCommand]:
        """Return of some sends the commands that a refusal answers, without their fields."""
        return [RemotingCommand(self.code, *self.head_of(index)) for index in range(begin, end)]

    def next_command(self) -> RemotingCommand:
        """Take the next send as the command that it is."""
        header_begin, body_begin, end = self.place_of(self.taken_count)
        self.taken_count += 1
        header, body = self.chunk[header_begin:body_begin], self.chunk[body_begin:end]
        return decode_header(SERIALIZE_JSON, header, body.tobytes())


ReadRun: TypeAlias = Callable[[memoryview, int, int], tuple[SendRun, int] | None]
"""Reads so many plain sends at most from a position on; returns them and where they end, None for
none."""


def placed_in(
    keys: Iterable[tuple[str, int]], queues: RunQueues
) -> Iterator[tuple[tuple[str, int], int, int, int]]:
    """Return each queue with what `place` has counted: messages, their bytes, and sends."""
    counts, sizes_bytes = queues[PLACED_COUNT::QUEUE_COLUMNS], queues[PLACED_BYTES::QUEUE_COLUMNS]
    return zip(keys, counts, sizes_bytes, queues[PLACED_SENDS::QUEUE_COLUMNS], strict=True)
