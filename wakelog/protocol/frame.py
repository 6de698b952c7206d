"""Frames: where one command ends and the next begins in the bytes of a connection.

    offset  width  field
    0       4      length of everything after this field
    4       1      serialise type of the header: 0 JSON, 1 ROCKETMQ
    5       3      header length
    8       n      header
    8+n     m      body

The first step for a request and the last for a response: bytes of a socket -> FrameDecoder ->
RemotingCommand; RemotingCommand -> encode_frame -> bytes of a socket.

Invariants: a decoder holds only bytes that it was fed; a length field alone allocates nothing, but
in a client, which has chosen its peers.
Nothing of a frame with a header above HEADER_BYTES_MAX is kept but the response that refuses it,
and nothing of a body above what its code may have: its bytes are counted and dropped as they come.
After a RemoteProtocolError the begin of the next frame is unknown, so the connection has to be
closed.

Source: org.apache.rocketmq.remoting.netty.{NettyDecoder, NettyEncoder},
org.apache.rocketmq.remoting.protocol.RemotingCommand (4.9.3). In words: docs/formats/frame.md
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from wakelog.compiled.library import CHOICE
from wakelog.protocol import compiled_run, plain_run
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.header_codec import (
    HEADER_BYTES_MAX,
    decode_head,
    decode_header,
    encode_header,
)
from wakelog.protocol.send_run import RUN_MESSAGES_MAX, ReadRun

FRAME_BYTES_MAX: Final = 16_777_216
"""The whole frame, its length field included: com.rocketmq.remoting.frameMaxLength's default."""

BODY_BYTES_UNCHECKED: Final = 1_048_576
"""A body of so many bytes is read whatever its code. No code has a lower bound."""

ROOM_BYTES_MIN: Final = 65_536
"""A client reads the rest of a frame that is as long to where it stays."""

BodyBytesMax: TypeAlias = Callable[[int], int]
"""Returns how long the body of a request with a code may be."""

_LENGTH_BYTES = 4
_PREFIX = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
_HEADER_BYTES_MASK = 0xFFFFFF
_SERIALIZE_TYPE_SHIFT = 24

_OTHER_PROTOCOLS: Final = {
    b"\x16\x03": "TLS",
    b"PRI ": "HTTP/2, as gRPC speaks it",
    **dict.fromkeys((b"HTTP", b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI"), "HTTP"),
    b"PROX": "the PROXY protocol",
    b"SSH-": "SSH",
}
"""What other clients and servers begin with; as a length it is far too large."""

_SEND_CODES: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
"""Their header has the properties of a message: one that is too long is an illegal message."""


read_run: ReadRun = compiled_run.read_run if CHOICE.is_compiled else plain_run.read_run
"""Of the twin that runs in this process."""
make_room: Callable[[int], bytearray] = (
    bytearray if CHOICE.library is None else CHOICE.library.make_room
)
"""Makes what a frame fills; the library leaves out to write zeros first."""


class FrameDecoder:
    """The reading side of one connection.

    Attributes:
        is_in_frame: whether the rest of a frame has yet to come.
        preceding: after `feed` raised, the commands of that chunk before the bad frame. They are
            sound, and the peer may expect their effect.
        run_messages_max: of the next runs; who takes a run sets it.
        refusals: responses to requests with a header that is too long; the caller takes and sends
            them.
        room: where the rest of the frame belongs that is being read; None if that is anywhere.
            Bytes that are there already may be fed without a copy.
    """

    __slots__ = (
        *("_body_bytes_max", "_buffer", "_dropped_bytes", "_frame_bytes_max", "_needed_bytes"),
        *("_frame", "_gathers_one", "_has_room", "_oversized", "_read_run"),
        *("run_messages_max", "is_in_frame", "preceding", "refusals", "room"),
    )

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        body_bytes_max: BodyBytesMax | None = None,
        *,
        gathers_sends: bool = False,
        has_room: bool = False,
    ) -> None:
        """Start at the beginning of a connection.

        body_bytes_max: a request with a longer body comes without it. None if every body is read.
        gathers_sends: plain sends come as a SendRun. In plain Python one that comes alone does not:
            a command takes less time than a run of one.
        has_room: the body of a long response is a view of the frame, which nothing copies.
        """
        assert frame_bytes_max > _PREFIX.size
        self._frame_bytes_max = frame_bytes_max
        self._body_bytes_max = body_bytes_max
        self._read_run = read_run if gathers_sends else None
        self._gathers_one = read_run is compiled_run.read_run
        self.run_messages_max = RUN_MESSAGES_MAX
        self._oversized: RemotingCommand | None = None
        self._dropped_bytes = 0  # bytes of its body that have yet to come
        self._buffer = bytearray()  # the begin of a frame whose rest has not arrived
        self._has_room = has_room
        self._frame = memoryview(b"")  # in the place of the buffer: a long frame of a client
        self.room: memoryview | None = None
        self._needed_bytes = 0  # the buffer is not decoded before it has as much
        self.is_in_frame = False
        self.preceding: list[RemotingCommand] = []
        self.refusals: list[RemotingCommand] = []

    def feed(self, data: bytes | bytearray | memoryview) -> list[RemotingCommand]:
        """Take the next bytes and return the commands that they complete.

        Raises:
            RemoteProtocolError: if a frame is malformed or too long.
        """
        commands: list[RemotingCommand] = []
        if self._oversized is not None:
            data = self._drop(data, commands)
        elif self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed_bytes:
                return commands
            data, self._buffer = self._buffer, bytearray()
        try:
            view = memoryview(data) if self.room is None else self._fill(self.room, data, commands)
            position, end = 0, len(view)
            while position < end:
                frame_bytes = self._frame_bytes(view, position)
                if position + frame_bytes > end:
                    self._keep_begin(frame_bytes, view[position:])
                    break
                is_alone = not commands and position + frame_bytes == end
                if self._read_run is not None and (self._gathers_one or not is_alone):
                    found = self._read_run(view, position, self.run_messages_max)
                    if found is not None:
                        run, position = found
                        commands.append(run)
                        continue
                begin, position = position, position + frame_bytes
                command = self._decode_frame(view[begin + _LENGTH_BYTES : position])
                if command is not None:
                    commands.append(command)
        except RemoteProtocolError:
            # Only then: else an idle connection would keep the bodies of its last chunk.
            self.preceding = commands
            raise
        self.is_in_frame = (
            bool(self._buffer) or self._oversized is not None or self.room is not None
        )
        return commands

    def _keep_begin(self, frame_bytes: int, begin: memoryview) -> None:
        """Keep the begin of a frame; a client has the rest of a long one come to the same place."""
        if not self._has_room or frame_bytes < ROOM_BYTES_MIN:
            self._buffer += begin
            self._needed_bytes = self._next_needed(frame_bytes)
            return
        self._frame = memoryview(make_room(frame_bytes))
        self._frame[: len(begin)] = begin
        self.room = self._frame[len(begin) :]

    def _fill(
        self,
        room: memoryview,
        data: bytes | bytearray | memoryview,
        commands: list[RemotingCommand],
    ) -> memoryview:
        """Take the rest of a long frame, as far as it has come; return what comes after it."""
        view = memoryview(data)
        filled_bytes = min(len(room), len(view))
        if view.obj is not room.obj:
            room[:filled_bytes] = view[:filled_bytes]
        self.room = room[filled_bytes:] if filled_bytes < len(room) else None
        if self.room is None:
            frame, self._frame = self._frame, memoryview(b"")
            command = self._decode_frame(frame[_LENGTH_BYTES:], is_kept=True)
            if command is not None:
                commands.append(command)
        return view[filled_bytes:]

    def _frame_bytes(self, view: memoryview, position: int) -> int:
        """Return the length of the frame that begins here, as far as it is known.

        Raises: RemoteProtocolError, before the rest has come: a false length gets no buffer.
        """
        if len(view) - position < _LENGTH_BYTES:
            return _LENGTH_BYTES
        (length,) = _LENGTH.unpack_from(view, position)
        if not _LENGTH_BYTES <= length <= self._frame_bytes_max - _LENGTH_BYTES:
            raise self._no_frame(view[position : position + _LENGTH_BYTES], length)
        return _LENGTH_BYTES + int(length)

    def _drop(
        self, data: bytes | bytearray | memoryview, commands: list[RemotingCommand]
    ) -> memoryview:
        """Drop the bytes of a body that is too long; return what comes after it."""
        dropped_bytes = min(len(data), self._dropped_bytes)
        self._dropped_bytes -= dropped_bytes
        if not self._dropped_bytes:
            assert self._oversized is not None
            commands.append(self._oversized)
            self._oversized = None
        return memoryview(data)[dropped_bytes:]

    def _next_needed(self, frame_bytes: int) -> int:
        """Return how much the buffer has to hold next; begin to drop a body that is too long."""
        buffer = self._buffer
        if self._body_bytes_max is None or frame_bytes <= BODY_BYTES_UNCHECKED or not buffer:
            return frame_bytes
        if len(buffer) < _PREFIX.size:
            return _PREFIX.size
        (word,) = _LENGTH.unpack_from(buffer, _LENGTH_BYTES)
        header_bytes = int(word) & _HEADER_BYTES_MASK
        header_end = _PREFIX.size + header_bytes
        if header_bytes > HEADER_BYTES_MAX or header_end > frame_bytes:
            return frame_bytes
        if len(buffer) < header_end:
            return header_end
        header = bytes(buffer[_PREFIX.size : header_end])
        command = decode_header(word >> _SERIALIZE_TYPE_SHIFT, header)
        if self._is_oversized(command, frame_bytes - header_end):
            self._oversized = command
            self._dropped_bytes = frame_bytes - len(buffer)
            self._buffer = bytearray()
        return frame_bytes

    def _is_oversized(self, command: RemotingCommand, body_bytes: int) -> bool:
        """Note how long the body is, if the request may not have such a long one."""
        assert self._body_bytes_max is not None
        if command.is_response or body_bytes <= self._body_bytes_max(command.code):
            return False
        command.missing_body_bytes = body_bytes
        return True

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of an unfinished frame are kept."""
        return len(self._buffer) + len(self._frame) - len(self.room or b"")

    def _no_frame(self, begin: memoryview, length: int) -> RemoteProtocolError:
        protocol = _other_protocol(bytes(begin))
        limit = f"at most {self._frame_bytes_max} are allowed"
        return _malformed(f"this is {protocol}" if protocol else f"length {length}, {limit}")

    def _decode_frame(self, frame: memoryview, *, is_kept: bool = False) -> RemotingCommand | None:
        """Decode what follows a length. is_kept: a response's body may be a view of it."""
        (word,) = _LENGTH.unpack_from(frame)
        header_end = _LENGTH_BYTES + (word & _HEADER_BYTES_MASK)
        if header_end > len(frame):
            raise _malformed(f"header ends at {header_end} in a frame of {len(frame)} bytes")
        header = frame[_LENGTH_BYTES:header_end]
        if len(header) > HEADER_BYTES_MAX:
            self._refuse(decode_head(word >> _SERIALIZE_TYPE_SHIFT, header), len(header))
            return None
        serialize_type, body = word >> _SERIALIZE_TYPE_SHIFT, frame[header_end:]
        if is_kept:
            command = decode_header(serialize_type, header)
            # The caller of the client says whether it takes a view.
            command.body = cast(bytes, body) if command.is_response else body.tobytes()
            return command
        if self._body_bytes_max is None or len(body) <= BODY_BYTES_UNCHECKED:
            return decode_header(serialize_type, header, body.tobytes())
        command = decode_header(serialize_type, header)
        if not self._is_oversized(command, len(body)):
            command.body = body.tobytes()
        return command

    def _refuse(self, request: RemotingCommand, header_bytes: int) -> None:
        remark = f"the header has {header_bytes} bytes, at most {HEADER_BYTES_MAX} are allowed"
        if request.is_response:
            raise _malformed(remark)
        is_send = request.code in _SEND_CODES
        code = ResponseCode.MESSAGE_ILLEGAL if is_send else ResponseCode.SYSTEM_ERROR
        if not request.is_oneway:
            self.refusals.append(answer(request, code, remark))


def encode_frame(command: RemotingCommand) -> bytes:
    """Write a command as one frame.

    Raises:
        LocalProtocolError: if a value of its header cannot be written.
    """
    return encode_frame_head(command, len(command.body)) + command.body


def encode_frame_head(command: RemotingCommand, body_bytes: int) -> bytes:
    """Write the bytes before a body of `body_bytes` bytes, which the caller sends itself."""
    header = encode_header(command)
    length = _LENGTH_BYTES + len(header) + body_bytes
    if len(header) > _HEADER_BYTES_MASK or length >= 1 << 31:
        raise LocalProtocolError(f"a frame of {length} bytes cannot be written")
    word = command.serialize_type << _SERIALIZE_TYPE_SHIFT | len(header)
    return _PREFIX.pack(length, word) + header


def _other_protocol(begin: bytes) -> str:
    """Return what else a peer may speak that begins so, "" if that is not known."""
    return next((name for first, name in _OTHER_PROTOCOLS.items() if begin.startswith(first)), "")


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed frame: {reason}")
