"""Which messages are shown: tags, SQL92, text; and how much of a body is inflated for it."""

import zlib

import pytest

from tests.fakes.records import record
from wakelog.client.message_filter import TEXT_BYTES_MAX, FilterRefused, begin_of, make_filter
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


def message(body: bytes = b"Hello", properties: str = "", **values: int) -> ReceivedMessage:
    stored = properties.replace("=", "\1").replace(",", "\2").encode()
    return ReceivedMessage(decode_record(record(0, stored, body=body, **values)))


@pytest.mark.parametrize(
    ("tags", "sql", "text", "is_shown"),
    [
        ("*", "", "", True),
        ("", "", "", True),
        ("paid || open", "", "", True),
        ("open", "", "", False),
        ("*", "amount > 4", "", True),
        ("*", "amount > 5", "", False),
        ("*", "absent > 5", "", False),
        ("*", "", "hELLo", True),
        ("*", "", "PAID", True),
        ("*", "", "elsewhere", False),
        ("paid", "amount = 5", "hello", True),
    ],
)
def test_a_message_is_shown_if_all_filters_fit(
    tags: str, sql: str, text: str, is_shown: bool
) -> None:
    accepts = make_filter(tags, sql, text)
    assert accepts(message(properties="TAGS=paid,amount=5")) is is_shown


@pytest.mark.parametrize(("tags", "sql", "part"), [("||", "", "filter"), ("*", "a >", "sql")])
def test_a_filter_that_cannot_be_is_refused(tags: str, sql: str, part: str) -> None:
    with pytest.raises(FilterRefused) as raised:
        make_filter(tags, sql)
    assert raised.value.part == part


def test_little_of_a_large_body_is_inflated() -> None:
    bomb = zlib.compress(b"needle" + bytes(1 << 24) + b"thread")
    large = message(bomb, sys_flag=MESSAGE_COMPRESSED)
    assert len(begin_of(large, TEXT_BYTES_MAX)) == TEXT_BYTES_MAX
    assert make_filter("*", "", "needle")(large)
    assert not make_filter("*", "", "thread")(large)


def test_a_body_that_cannot_be_inflated_is_read_as_stored() -> None:
    assert begin_of(message(b"no zlib", sys_flag=MESSAGE_COMPRESSED), 5) == b"no zl"
