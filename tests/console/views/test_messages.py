"""What URLs ask for, and messages as rows and lines: hostile ones are text."""

import json

import pytest

from tests.client.test_message_filter import message
from wakelog.client.errors import InvalidArgument
from wakelog.console.views import messages as views

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü \t\n", "plain ü \t\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("lone \ud800", "lone \\ud800"),
        ("\x00\x7f\x9b\r", "\\x00\\x7f\\x9b\\x0d"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert views.visible(text) == shown
    views.visible(text).encode()


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("10m", NOW_MS - 600_000),
        ("2h", NOW_MS - 7_200_000),
        ("1700000000000", 1_700_000_000_000),
        ("2026-11-24T06:00", 1_795_500_000_000),
        ("2026-11-24T06:00+02:00", 1_795_492_800_000),
    ],
)
def test_a_time_is_read(text: str, moment_ms: int) -> None:
    assert views.moment_ms(text, NOW_MS) == moment_ms


@pytest.mark.parametrize("text", ["soon", "10", "99999-01-01", "\ud800"])
def test_what_is_no_time_says_how_to_write_one(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no time"):
        views.moment_ms(text, NOW_MS)


def test_a_place_needs_a_broker_and_numbers() -> None:
    assert views.place_of(views.MessageQuery(broker="b", queue="1", offset="2")) == (1, 2)
    for asked in (
        views.MessageQuery(queue="1", offset="2"),
        views.MessageQuery(broker="b", queue="-1"),
    ):
        with pytest.raises(InvalidArgument):
            views.place_of(asked)


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ({}, ""),
        ({"id": "A"}, "wakelog admin queryMsgById -i A"),
        ({"id": "A", "topic": "T"}, "wakelog admin queryMsgByUniqueKey -i A -t T"),
        ({"topic": "T", "key": "a b"}, "wakelog admin queryMsgByKey -t T -k 'a b'"),
        (
            {"topic": "T", "broker": "b", "queue": "1", "offset": "2"},
            "wakelog admin queryMsgByOffset -t T -b b -i 1 -o 2",
        ),
        ({"topic": "T", "from": "1h", "tag": "x"}, "wakelog tail T --since 1h --filter x"),
    ],
)
def test_the_equal_command_is_said(query: dict[str, str], command: str) -> None:
    asked = views.asked_of(query)
    assert views.command_of(asked) == command
    assert asked.query == query


def test_a_row_shows_the_begin_of_a_body_on_one_line() -> None:
    row = views.row_of(message(b"one\ntwo\x1b[0m\xff" + b"x" * 600, "TAGS=a,KEYS=k1 k2"))
    assert row.preview.startswith("one two\\x1b[0m\\xff") and row.preview.endswith("…")
    assert (row.tags, row.keys, row.size_bytes) == ("a", "k1 k2", 612)


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [(b"text", "body", "text"), (b"\xff", "bodyBase64", "/w==")],
)
def test_an_exported_message_is_one_line_of_json(body: bytes, field: str, value: str) -> None:
    line = json.dumps(views.line_of(message(body, "a=1")))
    assert "\n" not in line
    assert json.loads(line)[field] == value
    assert json.loads(line)["properties"] == {"a": "1"}
