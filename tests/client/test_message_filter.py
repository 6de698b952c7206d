"""Which messages are shown: tags, SQL92, text; and how much of a body is inflated for it."""

import zlib

import pytest

from tests.fakes.records import record
from wakelog.client import message_filter
from wakelog.client.errors import ClientError
from wakelog.client.message_filter import (
    PIECE_BYTES_MAX,
    TEXT_BYTES_MAX,
    FilterRefused,
    begin_of,
    make_filter,
    pieces_of,
)
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


@pytest.mark.parametrize(
    ("flags", "begin", "is_whole"),
    [
        (0, b"x\x9c", False),
        (MESSAGE_COMPRESSED, b"ne", False),
        (MESSAGE_COMPRESSED | 0x300, b"ne", False),
        (MESSAGE_COMPRESSED | 0x100, b"by", True),
        (MESSAGE_COMPRESSED | 0x200, b"by", True),
    ],
)
def test_zlib_alone_inflates_a_begin_without_the_rest(
    flags: int, begin: bytes, is_whole: bool
) -> None:
    found = message(zlib.compress(b"needle"), sys_flag=flags)
    if is_whole:
        vars(found)["body"] = b"by another method"
    assert begin_of(found, 2) == begin
    assert ("body" in vars(found)) is is_whole


def test_a_body_that_cannot_be_inflated_is_read_as_stored() -> None:
    assert begin_of(message(b"no zlib", sys_flag=MESSAGE_COMPRESSED), 5) == b"no zl"


@pytest.mark.parametrize("size", [0, 5, PIECE_BYTES_MAX, 3 * PIECE_BYTES_MAX + 1])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_body_comes_in_bounded_pieces(size: int, is_compressed: bool) -> None:
    body = bytes(size)
    stored = zlib.compress(body) if is_compressed else body
    flag = MESSAGE_COMPRESSED if is_compressed else 0
    pieces = list(pieces_of(message(stored, sys_flag=flag)))
    assert b"".join(pieces) == body
    assert all(len(each) <= PIECE_BYTES_MAX for each in pieces)


@pytest.mark.parametrize("stored", [b"no zlib", zlib.compress(b"cut")[:-1], b""])
def test_a_body_that_cannot_be_inflated_has_no_pieces(stored: bytes) -> None:
    with pytest.raises(ClientError, match="cannot be read"):
        list(pieces_of(message(stored, sys_flag=MESSAGE_COMPRESSED)))


def test_a_bomb_is_inflated_as_far_as_the_protocol_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_filter, "INFLATED_BYTES_MAX", 2 * PIECE_BYTES_MAX)
    bomb = message(zlib.compress(bytes(1 << 24)), sys_flag=MESSAGE_COMPRESSED)
    made = 0
    with pytest.raises(ClientError, match="over 524,288 bytes"):
        for piece in pieces_of(bomb):
            made += len(piece)
    assert made == 2 * PIECE_BYTES_MAX
