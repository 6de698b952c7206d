"""Rules of an append to the commit log: where a record goes, its limits, and the result.

A record never crosses a file's end and needs 8 free bytes after it. Without them the file gets a
blank (remaining length, blank magic; 8 bytes), and the record opens the next file. A batch is
placed as one piece.

Limits, each compared with what is stored:
- `message_bytes_max` bounds the whole record, and for a batch each record and their sum.
- A topic has at most 127 bytes: its length is one signed byte.
- Properties have at most 32,767 bytes: their length is a signed 16-bit number.

Source: org.apache.rocketmq.store.CommitLog.DefaultAppendMessageCallback, MessageExtEncoder, and
DefaultMessageStore.checkMessage, checkMessages (4.9.3).
"""

from enum import Enum
from typing import NamedTuple

import msgspec

from wakelog.protocol.record import BLANK_BYTES, MessageRecord, encode_record
from wakelog.protocol.send_run import PlacedRun, RunQueues


class PutStatus(Enum):
    """How a put ended, by the names of 4.9.3; only PUT_OK has positions."""

    PUT_OK = "PUT_OK"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


class PutResult(NamedTuple):
    """Where a message, or a batch of them, was placed.

    The bytes are not written yet: `MessageStore.write_pending` writes them, and no response may
    leave before it returned. A flush has to reach `physical_offset_end`.
    """

    status: PutStatus
    physical_offset: int = -1
    size_bytes: int = 0
    queue_offset: int = -1
    store_timestamp_ms: int = 0
    physical_offsets: tuple[int, ...] = ()
    """One physical offset for each message of a batch, in order."""

    cause: str | None = None
    """Why the service is not available, if the store knows."""

    @property
    def physical_offset_end(self) -> int:
        """The first byte after what was put."""
        return self.physical_offset + self.size_bytes


class MessageDraft(msgspec.Struct):
    """A message as the broker wants it stored: the record's fields except those the log assigns.

    The log assigns the physical offset, the queue offset, the store time and the CRC. Hosts are a
    textual address and a port. `tags_code` is not in the record; dispatchers compute it again.
    """

    topic: str
    queue_id: int
    body: bytes
    properties_text: str = ""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: tuple[str, int] = ("0.0.0.0", 0)
    store_host: tuple[str, int] = ("0.0.0.0", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int = 0


class StoredRun(msgspec.Struct, frozen=True, gc=False):
    """What was placed of a run of sends.

    queues: the table that `SendRun.place` has counted in, with a row for each of the run's queues.
    """

    placed: PlacedRun
    queues: RunQueues


def fits(position: int, size_bytes: int, file_bytes: int) -> bool:
    """Tell whether `size_bytes` at `position` leave room for a blank after them."""
    return position + size_bytes + BLANK_BYTES <= file_bytes


def moved_draft(
    record: MessageRecord, *, topic: str, queue_id: int, properties_text: str
) -> MessageDraft:
    """Return the draft that stores a record's message again, in another queue."""
    return MessageDraft(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties_text=properties_text,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
    )


def encode_draft(
    draft: MessageDraft,
    properties: bytes,
    queue_offset: int,
    physical_offset: int,
    timestamp_ms: int,
) -> bytes:
    """Build the record of a draft with what the log assigned. Raises: LocalProtocolError."""
    return encode_record(
        queue_id=draft.queue_id,
        flag=draft.flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=draft.sys_flag,
        born_timestamp_ms=draft.born_timestamp_ms,
        born_host=draft.born_host,
        store_timestamp_ms=timestamp_ms,
        store_host=draft.store_host,
        reconsume_times=draft.reconsume_times,
        prepared_transaction_offset=draft.prepared_transaction_offset,
        body=draft.body,
        topic=draft.topic,
        properties=properties,
    )


def encode_properties_text(text: str) -> bytes:
    """Encode properties for the record; undecodable bytes of the client stay as they were."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")  # a lone surrogate becomes "?", as in Java
