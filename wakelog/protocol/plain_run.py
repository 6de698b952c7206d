"""PlainRun: the twin in Python of a run of sends, which msgspec decodes into Structs."""

import struct
from typing import Final, TypeAlias

import msgspec

from wakelog.protocol.batch import BatchedMessage, decode_batch_body, encode_records
from wakelog.protocol.codes import LanguageCode, RequestCode
from wakelog.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.headers.send import V2_LETTERS, SendMessageRequestHeaderV2
from wakelog.protocol.java import LONG_MAX, parse_boolean
from wakelog.protocol.properties import (
    CLUSTER,
    DELAY,
    PROPERTIES_BYTES_MAX,
    TRANSACTION_PREPARED,
    WAIT,
    decode_properties,
    encode_properties,
    read_send_properties,
)
from wakelog.protocol.send_run import (
    BATCH_FRAME_BYTES_MAX,
    BATCH_RECORDS_MAX,
    NEXT_OFFSET,
    PLACED_BYTES,
    PLACED_COUNT,
    PLACED_SENDS,
    QUEUE_COLUMNS,
    RUN_FRAME_BYTES_MAX,
    RUN_HEADER_BYTES_MAX,
    RUN_MESSAGES_MAX,
    RUN_RECORDS_MAX,
    STORED,
    SYS_FLAG,
    LogRoom,
    PlacedRun,
    RunQueues,
    RunRules,
    SendRun,
)
from wakelog.protocol.signed_content import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    SignedSend,
    signed_content,
)
from wakelog.protocol.sys_flag import TRANSACTION_MASK
from wakelog.typed_values import json_decoder

_BEGINS: Final = {
    b'{"code":%d,' % code for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
}
_BEGIN_BYTES: Final = len(min(_BEGINS))
_LENGTH_BYTES: Final = 4
_HEADER_OFFSET: Final = 8
_PREFIX: Final = struct.Struct(">2I")


class PlainHeader(
    SendMessageRequestHeaderV2,
    frozen=True,
    kw_only=True,
    rename={
        **V2_LETTERS,
        "broker_name": "n",
        "access_key": ACCESS_KEY,
        "security_token": SECURITY_TOKEN,
        "signature": SIGNATURE,
    },
    forbid_unknown_fields=True,
):
    """The header of a send in a run.

    Clients of later releases name the broker, too. Those with an account sign.
    """

    broker_name: str = ""
    access_key: str = ""
    security_token: str = ""
    signature: str = ""


class PlainSend(msgspec.Struct, gc=False):
    """One send of a run: its frame's header. Numbers may be strings, as in fastjson."""

    code: Int32
    header: PlainHeader = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = LanguageCode.JAVA.name
    opaque: Int32 = 0
    version: Int32 = 0
    remark: str | None = None


class _Texts(msgspec.Struct, gc=False):
    fields: dict[str, str] = msgspec.field(name="extFields")


_decode = json_decoder(PlainSend, strict=False).decode
_decode_texts = json_decoder(_Texts).decode

Place: TypeAlias = tuple[int, int, int]
"""Where the header of a send begins in the chunk, where its body begins, and where that ends."""


class PlainRun(SendRun, kw_only=True, gc=False):
    """A run with an object for each send, and which of the queues it goes to.

    batches: the messages of each send that is a batch, else none.
    """

    sends: list[PlainSend]
    batches: list[list[BatchedMessage]]
    places: list[Place]
    queue_indexes: list[int]

    def head_of(self, index: int) -> tuple[int, int]:
        """Return opaque and flag of a send."""
        return self.sends[index].opaque, self.sends[index].flag

    def place_of(self, index: int) -> Place:
        """Return where a send's header and body begin in the chunk, and where the body ends."""
        return self.places[index]

    def topic_of(self, index: int) -> str:
        """Return the topic of a send."""
        return self.sends[index].header.topic

    def signed(self, index: int) -> SignedSend | None:
        """Return what a send claims about its sender; None if that is not clear from here."""
        header_begin, body_begin, end = self.places[index]
        try:
            fields = _decode_texts(self.chunk[header_begin:body_begin]).fields
        except msgspec.ValidationError:
            return None  # a number or null; the command says which text that stands for
        if ACCESS_KEY not in fields:
            return None
        return SignedSend(
            fields[ACCESS_KEY].encode(),
            fields.get(SIGNATURE, "").encode(),
            signed_content(fields, self.chunk[body_begin:end].tobytes()),
        )

    def place(self, queues: RunQueues, rules: RunRules, room: LogRoom) -> PlacedRun:
        """Encode the records of the next sends that are admitted, up to one that needs more."""
        physical_offset, timestamp_ms = room.physical_offset, room.timestamp_ms
        room_end, record_bytes_max = room.room_end, room.record_bytes_max
        records: list[bytes | bytearray] = []
        stored: list[bytes] = []
        responses_count = 0
        for index in range(self.taken_count, self.placed_end):
            send = self.sends[index]
            row = self.queue_indexes[index] * QUEUE_COLUMNS
            queue_offset = queues[row + NEXT_OFFSET]
            messages_count = len(self.batches[index]) or 1
            if not 0 <= queue_offset <= LONG_MAX - messages_count:
                break
            sys_flag = send.header.sys_flag | queues[row + SYS_FLAG]
            if sys_flag & TRANSACTION_MASK:
                break
            try:
                data, sizes = self._records(
                    index, sys_flag, queue_offset, physical_offset, timestamp_ms, rules
                )
            except LocalProtocolError:
                break
            size = len(data)
            if not data or size > record_bytes_max or physical_offset + size > room_end:
                break
            if not send.flag & ONEWAY_FLAG:
                responses_count += 1
                place = physical_offset
                for each in sizes:
                    values = send.opaque, send.header.queue_id, place, queue_offset
                    stored.append(STORED.pack(*values))
                    place, queue_offset = place + each, -1
            records.append(data)
            physical_offset += size
            queues[row + NEXT_OFFSET] += messages_count
            queues[row + PLACED_COUNT] += messages_count
            queues[row + PLACED_BYTES] += size
            queues[row + PLACED_SENDS] += 1
        return PlacedRun(len(records), b"".join(records), b"".join(stored), responses_count)

    def _records(
        self,
        index: int,
        sys_flag: int,
        queue_offset: int,
        physical_offset: int,
        timestamp_ms: int,
        rules: RunRules,
    ) -> tuple[bytes | bytearray, list[int]]:
        """Return the records of a send and the size of each; none if it needs more than that.

        Raises: LocalProtocolError, if a field does not fit.
        """
        header, messages = self.sends[index].header, self.batches[index]
        if messages:
            properties = decode_properties(header.properties)
            properties[CLUSTER] = rules.cluster_name
            text = encode_properties(properties)
        else:
            properties, text = read_send_properties(header.properties, rules.cluster_name)
        if DELAY in properties or TRANSACTION_PREPARED in properties:
            return b"", []
        if rules.obeys_wait and not parse_boolean(properties.get(WAIT, "true")):
            return b"", []  # its response does not wait for those of the others
        stored = text.encode()
        if len(stored) > PROPERTIES_BYTES_MAX:
            return b"", []
        _, body_begin, end = self.places[index]
        record = rules.encoder.encode(
            header.topic,
            header.queue_id,
            queue_offset,
            physical_offset,
            b"" if messages else self.chunk[body_begin:end],
            b"" if messages else stored,
            header.flag,
            sys_flag,
            header.born_timestamp,
            timestamp_ms,
            header.reconsume_times or 0,
        )
        if not messages:
            return record, [len(record)]
        return encode_records(
            messages, record, stored, queue_offset=queue_offset, physical_offset=physical_offset
        )


def read_run(
    chunk: memoryview, begin: int, messages_max: int = RUN_MESSAGES_MAX
) -> tuple[PlainRun, int] | None:
    """Read the plain sends from `begin` on; return them and where they end, None for none."""
    sends: list[PlainSend] = []
    batches: list[list[BatchedMessage]] = []
    places: list[Place] = []
    records_count, run_begin = 0, begin
    while len(sends) < min(messages_max, RUN_MESSAGES_MAX):
        found = _read_send(chunk, begin)
        if found is None:
            break
        send, messages, place = found
        records_count += len(messages) or 1
        if sends and (send.code != sends[0].code or records_count > RUN_RECORDS_MAX):
            break
        sends.append(send)
        batches.append(messages)
        places.append(place)
        begin = place[2]
    if not sends:
        return None
    numbers: dict[tuple[str, int], int] = {}
    indexes = [
        numbers.setdefault((send.header.topic, send.header.queue_id), len(numbers))
        for send in sends
    ]
    run = PlainRun(
        sends[0].code,
        chunk=chunk,
        queues=tuple(numbers),
        count=len(sends),
        frames_bytes=begin - run_begin,
        sends=sends,
        batches=batches,
        places=places,
        queue_indexes=indexes,
    )
    return run, begin


def _read_send(
    chunk: memoryview, begin: int
) -> tuple[PlainSend, list[BatchedMessage], Place] | None:
    """Read the frame at `begin`, and the messages of a batch; None if it is none for a run."""
    if len(chunk) - begin < _HEADER_OFFSET:
        return None
    length, word = _PREFIX.unpack_from(chunk, begin)
    end = begin + _LENGTH_BYTES + length
    header_begin = begin + _HEADER_OFFSET
    body_begin = header_begin + word  # JSON has 0 in the highest byte
    if end - begin > BATCH_FRAME_BYTES_MAX or end > len(chunk):
        return None
    if word > RUN_HEADER_BYTES_MAX or body_begin > end:
        return None
    header = chunk[header_begin:body_begin]
    if bytes(header[:_BEGIN_BYTES]) not in _BEGINS:
        return None
    messages: list[BatchedMessage] = []
    try:
        send = _decode(header)
        if send.header.batch:
            messages = decode_batch_body(chunk[body_begin:end].tobytes(), BATCH_RECORDS_MAX)
    except (ValueError, RecursionError, RemoteProtocolError):
        return None
    if not send.header.batch:
        is_plain = end - begin <= RUN_FRAME_BYTES_MAX
    else:
        is_plain = 0 < len(messages) <= BATCH_RECORDS_MAX
    if not is_plain or send.flag & RESPONSE_FLAG:
        return None
    return send, messages, (header_begin, body_begin, end)
