"""PlainRun: the twin in Python of a run of sends, which msgspec decodes into Structs."""

import struct
from typing import Final, TypeAlias

import msgspec

from wakelog.protocol.codes import LanguageCode, RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG
from wakelog.protocol.errors import LocalProtocolError
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.headers.send import V2_LETTERS, SendMessageRequestHeaderV2
from wakelog.protocol.java import LONG_MAX, parse_boolean
from wakelog.protocol.properties import (
    DELAY,
    PROPERTIES_BYTES_MAX,
    TRANSACTION_PREPARED,
    WAIT,
    read_send_properties,
)
from wakelog.protocol.send_run import (
    NEXT_OFFSET,
    PLACED_BYTES,
    PLACED_COUNT,
    QUEUE_COLUMNS,
    RUN_FRAME_BYTES_MAX,
    RUN_HEADER_BYTES_MAX,
    RUN_MESSAGES_MAX,
    STORED,
    SYS_FLAG,
    LogRoom,
    PlacedRun,
    RunQueues,
    RunRules,
    SendRun,
)
from wakelog.protocol.sys_flag import TRANSACTION_MASK

_BEGIN: Final = b'{"code":%d,' % RequestCode.SEND_MESSAGE_V2
_LENGTH_BYTES: Final = 4
_HEADER_OFFSET: Final = 8
_PREFIX: Final = struct.Struct(">2I")


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


class PlainRun(SendRun, kw_only=True, gc=False):
    """A run with an object for each message, and which of the queues it goes to."""

    sends: list[PlainSend]
    places: list[Place]
    queue_indexes: list[int]

    def head_of(self, index: int) -> tuple[int, int]:
        """Return opaque and flag of a message."""
        return self.sends[index].opaque, self.sends[index].flag

    def place_of(self, index: int) -> Place:
        """Return where a message's header and body begin in the chunk, and where the body ends."""
        return self.places[index]

    def place(self, queues: RunQueues, rules: RunRules, room: LogRoom) -> PlacedRun:
        """Encode the records of the next messages, up to one that needs more than that."""
        physical_offset, timestamp_ms, room_end, record_bytes_max = room
        records: list[bytes] = []
        stored: list[bytes] = []
        for index in range(self.taken_count, self.count):
            send = self.sends[index]
            row = self.queue_indexes[index] * QUEUE_COLUMNS
            queue_offset = queues[row + NEXT_OFFSET]
            if not 0 <= queue_offset < LONG_MAX:
                break
            record = self._record(
                index, queue_offset, physical_offset, timestamp_ms, queues[row + SYS_FLAG], rules
            )
            size = len(record)
            if not record or size > record_bytes_max or physical_offset + size > room_end:
                break
            if not send.flag & ONEWAY_FLAG:
                header = send.header
                row_values = send.opaque, header.queue_id, physical_offset, queue_offset
                stored.append(STORED.pack(*row_values))
            records.append(record)
            physical_offset += size
            queues[row + NEXT_OFFSET] += 1
            queues[row + PLACED_COUNT] += 1
            queues[row + PLACED_BYTES] += size
        return PlacedRun(len(records), b"".join(records), b"".join(stored))

    def _record(
        self,
        index: int,
        queue_offset: int,
        physical_offset: int,
        timestamp_ms: int,
        sys_flag: int,
        rules: RunRules,
    ) -> bytes:
        """Return the record of a message, empty if it needs more than that."""
        header = self.sends[index].header
        if header.sys_flag & TRANSACTION_MASK:
            return b""
        properties, text = read_send_properties(header.properties, rules.cluster_name)
        if DELAY in properties or TRANSACTION_PREPARED in properties:
            return b""
        if rules.obeys_wait and not parse_boolean(properties.get(WAIT, "true")):
            return b""  # its response does not wait for those of the others
        stored = text.encode()
        if len(stored) > PROPERTIES_BYTES_MAX:
            return b""
        _, body_begin, end = self.places[index]
        try:
            return rules.encoder.encode(
                header.topic,
                header.queue_id,
                queue_offset,
                physical_offset,
                self.chunk[body_begin:end],
                stored,
                header.flag,
                header.sys_flag | sys_flag,
                header.born_timestamp,
                timestamp_ms,
                header.reconsume_times or 0,
            )
        except LocalProtocolError:
            return b""


def read_run(
    chunk: memoryview, begin: int, messages_max: int = RUN_MESSAGES_MAX
) -> tuple[PlainRun, int] | None:
    """Read the plain sends from `begin` on; return them and where they end, None for none."""
    sends: list[PlainSend] = []
    places: list[Place] = []
    while len(sends) < min(messages_max, RUN_MESSAGES_MAX):
        found = _read_send(chunk, begin)
        if found is None:
            break
        sends.append(found[0])
        places.append(found[1])
        begin = found[1][2]
    if not sends:
        return None
    numbers: dict[tuple[str, int], int] = {}
    indexes = [
        numbers.setdefault((send.header.topic, send.header.queue_id), len(numbers))
        for send in sends
    ]
    run = PlainRun(
        chunk=chunk,
        queues=tuple(numbers),
        count=len(sends),
        sends=sends,
        places=places,
        queue_indexes=indexes,
    )
    return run, begin


def _read_send(chunk: memoryview, begin: int) -> tuple[PlainSend, Place] | None:
    """Read the frame at `begin`; None if it is no whole plain send."""
    if len(chunk) - begin < _HEADER_OFFSET:
        return None
    length, word = _PREFIX.unpack_from(chunk, begin)
    end = begin + _LENGTH_BYTES + length
    header_begin = begin + _HEADER_OFFSET
    body_begin = header_begin + word  # JSON has 0 in the highest byte
    if end - begin > RUN_FRAME_BYTES_MAX or end > len(chunk):
        return None
    if word > RUN_HEADER_BYTES_MAX or body_begin > end:
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
