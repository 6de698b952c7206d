"""A message as it is received."""

import sys
import zlib

import msgspec
import pytest

from tests.fakes.records import STORE_MS, record
from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.java import LONG_MAX, LONG_MIN
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


def test_a_message_has_what_its_producer_gave_and_its_place() -> None:
    stored = record(
        99, b"TAGS\1t\2KEYS\1a b\2UNIQ_KEY\1K", topic="%RETRY%ns%T", queue_id=3, queue_offset=7
    )
    found = ReceivedMessage(decode_record(stored), broker="b", namespace="ns")
    assert (found.topic, found.tags, found.keys, found.message_id) == (
        "%RETRY%T", "t", ["a", "b"], "K",
    )  # fmt: skip
    assert (found.broker, found.queue_id, found.queue_offset) == ("b", 3, 7)
    assert found.place == "offset 7 of queue 3 of topic %RETRY%ns%T at b"
    assert found.offset_message_id.endswith(f"{99:016X}")
    assert found.stored_at.timestamp() * 1000 == STORE_MS
    assert found.body == found.record.body
    assert repr(found) == "ReceivedMessage('%RETRY%T', 'K')"


def test_a_message_without_an_id_of_its_producer_has_the_brokers() -> None:
    found = ReceivedMessage(decode_record(record(1, b"")))
    assert found.message_id == found.offset_message_id


def test_a_compressed_body_is_inflated() -> None:
    body = zlib.compress(b"x" * 5000)
    stored = record(1, b"", body=body, sys_flag=MESSAGE_COMPRESSED)
    assert ReceivedMessage(decode_record(stored)).body == b"x" * 5000


@pytest.mark.parametrize(
    ("body", "flag", "reason"),
    [
        (b"no zlib", 0x1, "cannot be read"),
        (zlib.compress(b"x" * 5000)[:-1], 0x1, "incomplete"),
        (b"x", 0x401, "method 4 is unknown"),
        (b"x", 0x101, "pip install lz4"),
        (b"x", 0x201, "pip install zstandard"),
    ],
)
def test_a_body_that_cannot_be_read_is_an_error_of_its_use(
    body: bytes, flag: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lz4", "lz4.frame", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    message = ReceivedMessage(decode_record(record(0, body=body, sys_flag=flag)))
    with pytest.raises(ClientError, match=reason):
        _ = message.body


@pytest.mark.parametrize(
    ("time_ms", "year"), [(LONG_MAX, 9999), (LONG_MIN, 1), (0, 1970), (-1, 1969)]
)
def test_a_time_that_no_datetime_can_be_is_the_nearest(time_ms: int, year: int) -> None:
    stored = decode_record(record(1, b""))
    found = ReceivedMessage(
        msgspec.structs.replace(stored, born_timestamp_ms=time_ms, store_timestamp_ms=time_ms)
    )
    assert found.born_at.year == found.stored_at.year == year
    assert found.born_at.tzinfo is not None
