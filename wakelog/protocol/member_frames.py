"""The bytes between two wakelog replicas of a group, big endian.

    both        8 bytes of magic, i32 n, n bytes, u32 CRC-32 of all before    a hello, or its answer
    follower    i32 ACK, i64 epoch, i64 durable, i32 is_seeding, u32 CRC-32   an acknowledgement
    master      i32 DATA, i32 n, i64 offset, i64 epoch, i64 epoch_start, i64 confirmed, i64 end,
                u32 CRC-32 of all before, n bytes       bytes of the log, of one epoch and segment

A hello begins with a number that is negative as an offset. A 4.9.3 master never believes it, and it
tells a replica from a plain slave, whose first 8 bytes are an offset.

Everything that is read here may be hostile: lengths are bounded before anything is kept.

Source: 5.x's AutoSwitchHAClient and AutoSwitchHAConnection (org.apache.rocketmq.store.ha.
autoswitch), which have no identity and no checksum.
"""

import struct
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from wakelog.protocol.ha_frames import BrokenStream
from wakelog.typed_values import decode_msgpack

MAGIC: Final = bytes.fromhex("ff574c4841000001")
ACK: Final = 2
DATA: Final = 3

BODY_BYTES_MAX: Final = 16 * 1024
DATA_BYTES_MAX: Final = 1024 * 1024
LINES_MAX: Final = 250

_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ACK: Final = struct.Struct(">iqqi")
_DATA: Final = struct.Struct(">iiqqqqq")
_OFFSET_MAX: Final = 1 << 62


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """What a follower says first. `end` is behind its last whole record.

    promise: the highest epoch that it has accepted. lines: (epoch, start), oldest first.
    nonce, proof: empty between members without `wakelog.accessKey`.
    """

    group: str
    replica: int
    log_id: bytes
    promise: int
    segment_bytes: int
    begin: int
    end: int
    lines: tuple[tuple[int, int], ...]
    is_seeding: bool = False
    nonce: bytes = b""
    proof: bytes = b""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What the master answers.

    refusal: why the follower gets nothing, "" if it does.
    epoch: of the master; in a refusal the highest that it knows.
    common: from here it sends. checksum: CRC-32 of up to 64 KiB of its log before that.
    nonce, proof: the master wants the same hello with a proof, and gives its own.
    """

    refusal: str
    epoch: int
    log_id: bytes = b""
    begin: int = 0
    end: int = 0
    common: int = 0
    checksum: int = 0
    lines: tuple[tuple[int, int], ...] = ()
    must_seed: bool = False
    nonce: bytes = b""
    proof: bytes = b""


class Ack(NamedTuple):
    """What a follower has durably, in an epoch."""

    epoch: int
    durable: int
    is_seeding: bool


class DataHead(NamedTuple):
    """What stands before bytes of the log, or alone as a heartbeat.

    epoch, epoch_start: of the bytes; of a heartbeat those of the master's last line.
    """

    size_bytes: int
    offset: int
    epoch: int
    epoch_start: int
    confirmed: int
    end: int


class Data(NamedTuple):
    """Bytes of the log of one epoch."""

    head: DataHead
    data: bytes


def encode_hello(message: Hello | Answer) -> bytes:
    """Return a hello or an answer, ready to send."""
    body = msgspec.msgpack.encode(message)
    framed = MAGIC + _LENGTH.pack(len(body)) + body
    return framed + _CRC.pack(crc32(framed))


def encode_ack(ack: Ack) -> bytes:
    """Return an acknowledgement, ready to send."""
    data = _ACK.pack(ACK, ack.epoch, ack.durable, ack.is_seeding)
    return data + _CRC.pack(crc32(data))


def encode_data_head(head: DataHead) -> bytes:
    """Return what goes before `size_bytes` bytes of the log."""
    data = _DATA.pack(DATA, *head)
    return data + _CRC.pack(crc32(data))


class _Reader:
    """Cuts a stream that begins with a hello into its frames."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._has_hello = False

    def expect_hello(self) -> None:
        """Take one more hello, or answer, before anything else."""
        self._has_hello = False

    def _feed(self, data: bytes) -> None:
        self._rest += data

    def _hello(self, kind: type[Any]) -> Any | None:
        """Return the first message, None if it is not there yet or was returned. Raises: …"""
        rest = self._rest
        if self._has_hello:
            return None
        if not MAGIC.startswith(rest[: len(MAGIC)]):
            raise BrokenStream("no hello of a wakelog replica")
        begin = len(MAGIC) + _LENGTH.size
        if len(rest) < begin:
            return None
        (size,) = _LENGTH.unpack_from(rest, len(MAGIC))
        if not 0 < size <= BODY_BYTES_MAX:
            raise BrokenStream(f"a hello of {size} bytes")
        end = begin + size
        if len(rest) < end + _CRC.size:
            return None
        if _CRC.unpack_from(rest, end)[0] != crc32(rest[:end]):
            raise BrokenStream("a hello with a wrong checksum")
        try:
            found = decode_msgpack(bytes(rest[begin:end]), kind)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise BrokenStream(f"no hello of a wakelog replica: {error}") from None
        _check_lines(found.lines)
        for name in ("begin", "end", "epoch", "promise", "common"):
            if not 0 <= getattr(found, name, 0) < _OFFSET_MAX:
                raise BrokenStream(f"a hello with {name} {getattr(found, name)}")
        del rest[: end + _CRC.size]
        self._has_hello = True
        return found

    def _head(self, layout: struct.Struct, kind: int) -> tuple[Any, ...] | None:
        """Return the fields of the frame that comes next, None if it is not there yet."""
        rest, size = self._rest, layout.size
        if len(rest) < size + _CRC.size:
            return None
        found, *fields = layout.unpack_from(rest)
        if found != kind or _CRC.unpack_from(rest, size)[0] != crc32(rest[:size]):
            raise BrokenStream("no frame of a wakelog replica, or a wrong checksum")
        if min(fields) < 0 or max(fields) >= _OFFSET_MAX:
            raise BrokenStream(f"a frame with the fields {fields}")
        return tuple(fields)


class FollowerReader(_Reader):
    """Reads what a follower sends."""

    def read(self, data: bytes) -> list[Hello | Ack]:
        """Return the messages that `data` completes. Raises: BrokenStream."""
        self._feed(data)
        found: list[Hello | Ack] = []
        if not self._has_hello:
            hello = self._hello(Hello)
            if hello is None:
                return found
            found.append(hello)
        while (fields := self._head(_ACK, ACK)) is not None:
            del self._rest[: _ACK.size + _CRC.size]
            found.append(Ack(fields[0], fields[1], bool(fields[2])))
        return found


class MasterReader(_Reader):
    """Reads what a master sends."""

    def read(self, data: bytes) -> list[Answer | Data]:
        """Return the messages that `data` completes. Raises: BrokenStream."""
        self._feed(data)
        found: list[Answer | Data] = []
        if not self._has_hello:
            answer = self._hello(Answer)
            if answer is None:
                return found
            found.append(answer)
        while (fields := self._head(_DATA, DATA)) is not None:
            head = DataHead(*fields)
            if head.size_bytes > DATA_BYTES_MAX:
                raise BrokenStream(f"a frame of {head.size_bytes} bytes")
            begin = _DATA.size + _CRC.size
            if len(self._rest) < begin + head.size_bytes:
                break
            found.append(Data(head, bytes(self._rest[begin : begin + head.size_bytes])))
            del self._rest[: begin + head.size_bytes]
        return found


def _check_lines(lines: tuple[tuple[int, int], ...]) -> None:
    """Refuse lines that no replica has. Raises: BrokenStream."""
    if len(lines) > LINES_MAX:
        raise BrokenStream(f"{len(lines)} epochs, and a replica has at most {LINES_MAX}")
    last_epoch, last_start = -1, 0
    for epoch, start in lines:
        if epoch <= last_epoch or start < last_start or max(epoch, start) >= _OFFSET_MAX:
            raise BrokenStream("epochs that do not ascend")
        last_epoch, last_start = epoch, start
