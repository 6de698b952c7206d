"""What is read of the notes of clients."""

import asyncio
import zlib
from typing import Any

import pytest

from tests.fakes.records import record
from wakelog.client.trace_notes import (
    NOTES_BYTES_MAX,
    PUB,
    SUB_AFTER,
    SUB_BEFORE,
    TraceRow,
    notes_of,
    read_notes,
)
from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

CASES = {
    "Pub,17,region,p,T,ID1,tag,key,127.0.0.1:1,4,7,0,false": TraceRow(
        PUB, "ID1", "p", 17, 7, is_success=False, topic="T", keys="key"
    ),
    "SubBefore,18,region,g,request,ID1,2,key": TraceRow(
        SUB_BEFORE, "ID1", "g", 18, keys="key", request_id="request", retries=2
    ),
    "SubAfter,request,ID1,5,true,key,0,19,g": TraceRow(
        SUB_AFTER, "ID1", "g", 19, 5, keys="key", request_id="request"
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_a_note_of_each_kind_is_read(text: str) -> None:
    assert list(read_notes(text.replace(",", "\1") + "\2")) == [CASES[text]]


def test_what_is_no_note_is_left_out() -> None:
    assert list(read_notes("\2\1\2Pub\1x\2Other\1y\2SubBefore\1nan")) == []


@pytest.mark.parametrize(
    "number", ["9" * 19, "9" * 5_000, "\u0661", "1_000", " 1", "-9223372036854775809"]
)
@pytest.mark.parametrize("text", CASES)
def test_a_number_that_java_has_not_is_no_note(text: str, number: str) -> None:
    for then in ("17", "18", "19", "5", "7", "2"):
        changed = text.replace(f",{then},", f",{number},")
        if changed != text:
            assert list(read_notes(changed.replace(",", "\1") + "\2")) == []


@pytest.mark.parametrize("number", ["9223372036854775807", "-9223372036854775808"])
def test_a_time_is_any_long(number: str) -> None:
    [note] = read_notes(f"Pub,{number},region,p,T,ID1,tag,key,h,4,7,0,true".replace(",", "\1"))
    assert note.time_ms == int(number)


def test_a_body_that_is_broken_or_a_bomb_hides_no_other_note() -> None:
    note = "Pub,17,region,p,T,ID1,tag,key,127.0.0.1:1,4,7,0,true".replace(",", "\1").encode()
    bomb = zlib.compress(b"\2" * NOTES_BYTES_MAX + note)
    bodies = {b"no zlib": MESSAGE_COMPRESSED, bomb: MESSAGE_COMPRESSED, note: 0}

    class Traces:
        async def query_messages(self, *_: object) -> list[MessageRecord]:
            keys = b"KEYS\1ID1"
            return [
                decode_record(record(0, keys, body=body, sys_flag=flag))
                for body, flag in bodies.items()
            ]

    admin: Any = Traces()
    [found], is_all = asyncio.run(notes_of(admin, "ID1", is_id=True))
    assert (found.kind, found.time_ms, is_all) == (PUB, 17, True)


NOTES = {
    "Pub,17,region,p,T,ID1,tag,key,h,4,7,0,false": (13, {"is_success": False}),
    "Pub,17,region,p,T,ID1,tag,key,h,4,7,0,offset,false": (14, {"is_success": False}),
    "Pub,17,region,p,T,ID1,tag,key,h,4,7,0,offset,false,more": (15, {"is_success": False}),
    "Pub,17,region,p,T,ID1,tag,key,h,4,7": (11, {"is_success": True}),
    "Pub,17,region,p,T,ID1,tag,key,h,4": (10, None),
    "SubBefore,18,region,g,request,ID1,2": (7, {"keys": ""}),
    "SubBefore,18,region,g,request,ID1,2,key": (8, {"keys": "key"}),
    "SubBefore,18,region,g,request,ID1,2,key,more": (9, {"keys": "key"}),
    "SubBefore,18,region,g,request,ID1": (6, None),
    "SubAfter,request,ID1,5,true,key": (6, {"time_ms": 0, "group": "null"}),
    "SubAfter,request,ID1,5,true,key,0,19": (8, {"time_ms": 0, "group": "null"}),
    "SubAfter,request,ID1,5,true,key,0,19,g": (9, {"time_ms": 19, "group": "g"}),
    "SubAfter,request,ID1,5,true,key,0,19,g,more": (10, {"time_ms": 19, "group": "g"}),
    "SubAfter,request,ID1,5,true": (5, None),
}
"""Notes of clients of all ages, with the number of their fields and some of what they say."""


def test_a_note_may_have_fewer_fields_and_more() -> None:
    for text, (count, said) in NOTES.items():
        assert text.count(",") == count - 1
        found = list(read_notes(text.replace(",", "\1")))
        assert len(found) == (said is not None), text
        for name, value in (said or {}).items():
            assert getattr(found[0], name) == value, text
