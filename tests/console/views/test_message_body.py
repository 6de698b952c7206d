"""Bodies in each form, and what hostile ones become."""

import zlib

import pytest

from tests.client.test_message_filter import message
from wakelog.console.views import message_body
from wakelog.console.views.message_body import HEX_BYTES_MAX, TEXT_BYTES_MAX, body_of
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


def test_json_is_shown_as_such_and_keeps_its_digits() -> None:
    shown = body_of(message(b'{"a":[1.10,12345678901234567890],"b":{}}'), "")
    assert shown.tab == "json"
    assert shown.text == ('{\n  "a": [\n    1.10,\n    12345678901234567890\n  ],\n  "b": {}\n}')


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"{", "Expecting"), (b"[" * 100_000, "nested too deep"), (b"[" * 60 + b"]" * 60, "deep")],
)
def test_what_is_no_json_says_why(body: bytes, reason: str) -> None:
    assert reason in body_of(message(body), "json").said
    assert body_of(message(body), "").tab == "text"


def test_text_shows_what_cannot_be_seen() -> None:
    shown = body_of(message(b"\x1b[2J<b>\xff\xed\xa0\x80"), "text")
    assert shown.text == "\\x1b[2J<b>\\xff\\xed\\xa0\\x80"


def test_hex_shows_offset_numbers_and_characters() -> None:
    text = body_of(message(b"AB\x00" + bytes(16)), "hex").text
    assert text.splitlines()[0].startswith("000000  41 42 00 00")
    assert text.splitlines()[0].endswith(" AB..............")
    assert text.splitlines()[1].startswith("000010  00 00 00 ")


@pytest.mark.parametrize(("tab", "most"), [("text", TEXT_BYTES_MAX), ("hex", HEX_BYTES_MAX)])
def test_a_large_body_is_cut_and_that_is_said(tab: str, most: int) -> None:
    assert f"the first {most:,} bytes" in body_of(message(b"x" * (most + 1)), tab).said
    assert body_of(message(b"x" * most), tab).said == ""


def test_a_compressed_body_is_inflated_and_shown_as_stored_too() -> None:
    stored = zlib.compress(b"hello")
    compressed = message(stored, sys_flag=MESSAGE_COMPRESSED)
    assert body_of(compressed, "").text == "hello"
    assert body_of(compressed, "").is_compressed
    assert body_of(compressed, "stored").text == message_body.hex_text(stored)
