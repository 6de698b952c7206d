"""Where a record goes, and whether it may: pure rules of the commit log's append.

A record never crosses a file's end. It needs 8 bytes behind it in the same file; where it does
not have them, 8 bytes are written (remaining length, blank magic), the rest of the file is left
as it is, and the record opens the next file. A batch is placed as one piece.

Limits (each compared with the encoded record, body and properties as stored):
- `message_bytes_max` bounds the whole record, and for a batch each record and their sum.
- A topic has at most 127 bytes: its length is one signed byte.
- Properties have at most 32,767 bytes: their length is a signed 16-bit number.

Source: org.apache.rocketmq.store.CommitLog.DefaultAppendMessageCallback, MessageExtEncoder, and
DefaultMessageStore.checkMessage (4.9.3). 4.9.3 throws where a batch is too long, which its client
sees as a system error; the status UNKNOWN_ERROR leads to the same answer.
"""

from __future__ import annotations

import msgspec

END_OF_FILE_BYTES = 8  # what a blank takes, so what must stay free behind every record
TOPIC_BYTES_MAX = 127
PROPERTIES_BYTES_MAX = 32_767


class MessageDraft(msgspec.Struct):
    """A message as the broker wants it stored: all fields of the record but those the log gives.

    The log gives the physical offset, the queue offset, the store time and the CRC. Hosts are
    textual address and port. `tags_code` is not stored in the record; dispatchers derive it.
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


def fits(position: int, record_bytes: int, file_bytes: int) -> bool:
    """Tell whether a record at `position` leaves the 8 bytes for a blank behind it."""
    return position + record_bytes + END_OF_FILE_BYTES <= file_bytes
