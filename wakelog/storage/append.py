"""Where a record goes, and whether it may: pure rules of the commit log's append.

A record never crosses a file's end. It needs 8 bytes behind it in the same file; where it does
not have them, 8 bytes are written (remaining length, blank magic), the rest of the file is left
as it is, and the record opens the next file. A batch is placed as one piece.

Limits, each compared with what is stored:
- `message_bytes_max` bounds the whole record, and for a batch each record and their sum.
- A topic has at most 127 bytes: its length is one signed byte.
- Properties have at most 32,767 bytes: their length is a signed 16-bit number.

Source: org.apache.rocketmq.store.CommitLog.DefaultAppendMessageCallback, MessageExtEncoder, and
DefaultMessageStore.checkMessage, checkMessages (4.9.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from wakelog.protocol.message_record import BLANK_BYTES, encode_record
from wakelog.protocol.properties import PROPERTY_SEPARATOR


class MessageDraft(msgspec.Struct):
    """A message as the broker wants it stored: every field of the record but those the log gives.

    The log gives the physical offset, the queue offset, the store time and the CRC. Hosts are a
    textual address and a port. `tags_code` is not in the record; dispatchers derive it again.
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


class BatchPart(Protocol):
    """One message inside a batch body: what `protocol.batch` decodes."""

    @property
    def flag(self) -> int:
        """The user's flag."""
        ...

    @property
    def body(self) -> bytes:
        """The body as it will be stored."""
        ...

    @property
    def properties(self) -> bytes:
        """The properties as the client wrote them."""
        ...


def fits(position: int, size_bytes: int, file_bytes: int) -> bool:
    """Tell whether `size_bytes` at `position` leave room for a blank behind them."""
    return position + size_bytes + BLANK_BYTES <= file_bytes


def batch_drafts(outer: MessageDraft, parts: Iterable[BatchPart]) -> list[MessageDraft]:
    """Return a draft for each message of a batch; what all share comes from `outer`.

    The properties of `outer` are appended to each message's own, which stay byte for byte as the
    client wrote them, so a name can occur twice. A batch is never part of a transaction.
    """
    return [
        msgspec.structs.replace(
            outer,
            flag=part.flag,
            body=part.body,
            properties_text=_join_properties(part.properties, outer.properties_text),
            prepared_transaction_offset=0,
        )
        for part in parts
    ]


def encode_draft(
    draft: MessageDraft,
    properties: bytes,
    queue_offset: int,
    physical_offset: int,
    timestamp_ms: int,
) -> bytes:
    """Build the record of a draft with what the log gave it. Raises: LocalProtocolError."""
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
    """Encode properties for the record; bytes that came in undecodable go out as they came."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")  # a lone surrogate becomes "?", as in Java


def _join_properties(inner: bytes, outer: str) -> str:
    """Put the batch's properties behind a message's own, with one separator between them."""
    text = inner.decode("utf-8", "surrogateescape")
    if not text or not outer or text.endswith(PROPERTY_SEPARATOR):
        return text + outer
    return text + PROPERTY_SEPARATOR + outer
