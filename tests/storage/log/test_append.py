"""Where a record fits, and which bytes a draft becomes."""

import pytest

from tests.fakes.logs import draft
from wakelog.protocol.record import decode_record
from wakelog.storage.log.append import (
    PutResult,
    PutStatus,
    encode_draft,
    encode_properties_text,
    fits,
)


@pytest.mark.parametrize(
    ("position", "size", "answer"), [(0, 92, True), (0, 93, False), (50, 42, True), (50, 43, False)]
)
def test_a_record_leaves_room_for_a_blank(position: int, size: int, answer: bool) -> None:
    assert fits(position, size, 100) is answer


def test_a_draft_becomes_the_record_with_what_the_log_gave() -> None:
    message = draft(
        b"payload",
        topic="Orders",
        queue_id=3,
        properties_text="TAGS\x01a",
        flag=7,
        sys_flag=8,
        reconsume_times=2,
        prepared_transaction_offset=99,
        store_host=("::1", 10_911),
    )
    record = decode_record(encode_draft(message, b"TAGS\x01a", 41, 4_096, 1_234))
    assert (record.topic, record.queue_id, record.body) == ("Orders", 3, b"payload")
    assert (record.queue_offset, record.physical_offset) == (41, 4_096)
    assert (record.born_timestamp_ms, record.store_timestamp_ms) == (1_000, 1_234)
    assert (record.born_host, record.store_host) == (("127.0.0.1", 40_000), ("::1", 10_911))
    assert (record.flag, record.sys_flag) == (7, 8 | 0x20)
    assert (record.reconsume_times, record.prepared_transaction_offset) == (2, 99)
    assert record.properties_text == "TAGS\x01a"


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("KEYS\x01é", "KEYS\x01é".encode()),
        ("a\x01\udcff", b"a\x01\xff"),
        ("a\x01\ud800", b"a\x01?"),
    ],
)
def test_any_text_can_be_stored(text: str, stored: bytes) -> None:
    assert encode_properties_text(text) == stored


def test_a_put_ends_where_a_flush_has_to_reach() -> None:
    result = PutResult(PutStatus.PUT_OK, physical_offset=100, size_bytes=30)
    assert result.physical_offset_end == 130


def test_put_statuses_have_the_names_of_4_9_3() -> None:
    assert PutStatus.CREATE_MAPPED_FILE_FAILED.value == "CREATE_MAPEDFILE_FAILED"
