"""SendRun: successive plain sends of one chunk, which are one piece of work.

Most frames that a broker gets are SEND_MESSAGE_V2, and many come together. A frame belongs to a run
if its header is JSON, begins with the code as Java writes it, has known names only, and sends one
message. Such a header is decoded straight into its Struct. The body stays in the chunk until it is
written into a record. Nothing else is made for a message.

A run promises nothing about topics, queues or properties. Who takes it stores its first messages,
up to one that needs more. That one comes by `next_command`: the RemotingCommand that it would have
been without a run.

Invariants:
    - the messages of a run stand one behind the other in the chunk, with no frame between them.
    - `next_command` returns what `decode_header` makes of the same bytes.
    - a run has at most RUN_MESSAGES_MAX messages: so long another connection may wait for its turn.

Source: org.apache.rocketmq.remoting.protocol.RemotingCommand, SendMessageRequestHeaderV2 (4.9.3).
"""

import struct
from typing import Final, TypeAlias

import msgspec

from wakelog.protocol.codes import LanguageCode, RequestCode
from wakelog.protocol.command import RESPONSE_FLAG, SERIALIZE_JSON, RemotingCommand
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.header_codec import decode_header
from wakelog.protocol.headers.send import V2_LETTERS, SendMessageRequestHeaderV2

RUN_MESSAGES_MAX: Final = 16
"""Some 0.1 ms. A run of 64 costs a few per cent less a message, but other connections wait."""

RUN_FRAME_BYTES_MAX: Final = 16_384
"""A longer frame is none of a run: the copy of its body is most of its work."""

_HEADER_BYTES_MAX: Final = 8_192
_BEGIN: Final = b'{"code":%d,' % RequestCode.SEND_MESSAGE_V2
_HEADER_OFFSET: Final = 8
_WORD: Final = struct.Struct(">4xI")


class PlainHeader(
    SendMessageRequestHeaderV2,
    frozen=True,
    kw_only=True,
    rename={**V2_LETTERS, "broker_name": "n"},
    forbid_unknown_fields=True,
):
    """The header of a send in a run; clients of later releases name the broker, too."""

    broker_name: str = ""


class PlainSend(msgspec.Struct, gc=False):
    """One message of a run: its frame's header. Numbers may be strings, as in fastjson."""

    code: Int32
    header: PlainHeader = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = LanguageCode.JAVA.name
    opaque: Int32 = 0
    version: Int32 = 0
    remark: str | None = None


_decode = msgspec.json.Decoder(PlainSend, strict=False).decode


Place: TypeAlias = tuple[int, int, int]
"""Where the header of a send begins in the chunk, where its body begins, and where that ends."""


def read_plain_send(chunk: memoryview, begin: int, end: int) -> tuple[PlainSend, Place] | None:
    """Read the frame from `begin` to `end` of a chunk; None if it belongs to no run."""
    if end - begin > RUN_FRAME_BYTES_MAX:
        return None
    (word,) = _WORD.unpack_from(chunk, begin)
    header_begin = begin + _HEADER_OFFSET
    body_begin = header_begin + word  # JSON has 0 in the highest byte
    if word > _HEADER_BYTES_MAX or body_begin > end:
        return None
    header = chunk[header_begin:body_begin]
    if header[: len(_BEGIN)] != _BEGIN:
        return None
    try:
        send = _decode(header)
    except (ValueError, RecursionError):
        return None
    if send.flag & RESPONSE_FLAG or send.header.batch:
        return None
    return send, (header_begin, body_begin, end)


class SendRun(RemotingCommand, kw_only=True, gc=False):
    """Sends that wait together in a lane, where they are one request.

    chunk: kept until the last message is taken.
    sends: the headers, of which the first `taken_count` are done.
    """

    code: int = int(RequestCode.SEND_MESSAGE_V2)
    chunk: memoryview
    sends: list[PlainSend] = msgspec.field(default_factory=list)
    taken_count: int = 0
    places: list[Place] = msgspec.field(default_factory=list)

    @property
    def left_count(self) -> int:
        """How many messages are not taken yet."""
        return len(self.sends) - self.taken_count

    def add(self, send: PlainSend, place: Place) -> None:
        """Add the next send of the chunk."""
        self.sends.append(send)
        self.places.append(place)

    def body_of(self, index: int) -> memoryview:
        """Return the body of a message, in the chunk."""
        _, body_begin, end = self.places[index]
        return self.chunk[body_begin:end]

    def next_command(self) -> RemotingCommand:
        """Take the next message as the command that it is."""
        header_begin, body_begin, end = self.places[self.taken_count]
        self.taken_count += 1
        header, body = self.chunk[header_begin:body_begin], self.chunk[body_begin:end]
        return decode_header(SERIALIZE_JSON, header, body.tobytes())
