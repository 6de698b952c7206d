"""Values as mqadmin writes them."""

import pytest

from tests.fakes.records import record
from wakelog.actors.errors import NotPossible
from wakelog.cli.admin.java_text import (
    bean_text,
    map_text,
    message_text,
    permission_text,
    plain_time,
    read_time,
)
from wakelog.protocol.java import exact_time
from wakelog.protocol.record import decode_record


def test_a_time_is_written_and_read_back() -> None:
    text = exact_time(1_700_000_000_123)
    assert text.endswith(",123")
    assert plain_time(1_700_000_000_123) == text[:-4]
    assert read_time(text.replace(" ", "#").replace(",", ":")) == 1_700_000_000_123
    assert (read_time("now"), read_time("-1"), read_time("5")) == (-1, -1, 5)
    with pytest.raises(NotPossible, match="is no time"):
        read_time("yesterday")


def test_texts_are_those_of_javas_to_string() -> None:
    assert bean_text("Bean", {"a": 1, "b": True, "c": None}) == "Bean [a=1, b=true, c=null]"
    assert map_text({0: "x"}) == "{0=x}"
    assert [permission_text(perm) for perm in (0, 2, 4, 6, 7)] == [
        "---", "-W-", "R--", "RW-", "RWX"
    ]  # fmt: skip


def test_a_message_names_its_fields_and_bytes() -> None:
    text = message_text(decode_record(record(0, body=b"\xffa")), "b")
    assert text.startswith("MessageExt [brokerName=b, queueId=")
    assert "body=[-1, 97]" in text
