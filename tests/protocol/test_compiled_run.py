"""CompiledRun: what it reads and places is what the plain twin does, whatever comes."""

import json
from array import array
from collections import Counter
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiled.mutated_sends import MutatedSends, compare, frame_of
from tests.hostile_frames import HostileFrames
from tests.protocol.test_plain_run import batch_of, frame
from wakelog.compiled.library import CHOICE
from wakelog.protocol.command import make_request
from wakelog.protocol.send_run import (
    RUN_FRAME_BYTES_MAX,
    RUN_HEADER_BYTES_MAX,
    RUN_MESSAGES_MAX,
    RUN_RECORDS_MAX,
)

pytestmark = pytest.mark.skipif(not CHOICE.is_compiled, reason=CHOICE.reason)

FIELDS = {
    **{"a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0"},
    **{"g": "1700000000000", "h": "0", "i": "TAGS\x01red\x02WAIT\x01true", "m": "false"},
}


def test_mutated_sends_are_those_of_the_other_twin() -> None:
    counts = Counter[str]()
    for seed, chunk in enumerate(islice(MutatedSends(1), 1_500)):
        read, placed = compare(memoryview(array("B", chunk)), seed)
        counts += Counter(read=read, placed=placed, left=not read)
    assert counts["read"] > 800 and counts["placed"] > 200 and counts["left"] > 300, counts


def test_hostile_sends_are_those_of_the_other_twin() -> None:
    valid = [make_request(310, FIELDS, b"x" * 100, opaque=1)]
    read = sum(
        compare(chunk, seed)[0] for seed, chunk in enumerate(islice(HostileFrames(valid), 1_000))
    )
    assert read > 20


@pytest.mark.parametrize("byte", range(256))
def test_one_byte_that_changes_is_understood_alike_or_not_at_all(byte: int) -> None:
    whole = frame(i='"TAGS\\u0001red"')
    header_end = whole.index(b"}body") + 1
    for position in range(8, header_end, 5):
        compare(whole[:position] + bytes((byte,)) + whole[position + 1 :], 0)


def test_a_frame_that_is_cut_anywhere_is_not_read() -> None:
    whole = frame()
    for size in range(len(whole)):
        assert compare(memoryview(array("B", whole[:size])), 0) == (0, 0)
    assert compare(whole, 0)[0] == 1


@pytest.mark.parametrize("length", [0, 3, 4, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("offset", [0, 4])
def test_a_false_length_is_not_read(offset: int, length: int) -> None:
    whole = frame()
    false = whole[:offset] + length.to_bytes(4, "big") + whole[offset + 4 :]
    assert compare(memoryview(array("B", false)), 0) == (0, 0)


def test_a_run_ends_at_what_is_too_long_or_another_frame() -> None:
    sends = [frame(b"x" * size) for size in (1, 2, 3)]
    assert compare(b"".join(sends) + b"\0\0\0\x08" + bytes(8), 1)[0] == 3
    assert compare(frame() * (RUN_MESSAGES_MAX + 3), 1)[0] == RUN_MESSAGES_MAX
    assert compare(frame(b"x" * RUN_FRAME_BYTES_MAX), 1)[0] == 0
    assert compare(frame(i=json.dumps("k\x01" + "v" * RUN_HEADER_BYTES_MAX)), 1)[0] == 0
    assert compare(batch_of(RUN_RECORDS_MAX) + frame(), 1)[0] == 1
    assert compare(batch_of(RUN_RECORDS_MAX - 1) + frame(), 1)[0] == 2
    assert compare(batch_of(1, code=320) + frame(), 1)[0] == 1
    assert compare(batch_of(1_024), 1)[0] == 1
    assert compare(batch_of(1_000, size=1_000), 1)[0] == 1
    long_block = bytes(20) + b"\x80\0" + b"v" * 0x8000
    for other in (
        *(batch_of(0), batch_of(1_025), batch_of(1_000, size=4_200), batch_of(3)[:-1] + b"x"),
        frame(long_block, m='"true"'),
    ):
        assert compare(other, 1)[0] == 0


def test_a_batch_that_is_cut_or_has_a_false_length_is_left() -> None:
    whole = batch_of(3, size=5)
    begin = whole.index(b"}") + whole[whole.index(b"}") :].index(b"\0\0\0\x1b")
    for position in range(begin, len(whole)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            compare(whole[:position] + bytes((value,)) + whole[position + 1 :], 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"i": "null"},
        {"i": '"\\u00e9\\u20ac\\u0000\\t"'},
        {"i": '"é€😀"'},
        {"b": '"中文"'},
        {"g": "-9223372036854775807"},
        {"n": '"broker-a"'},
        {"j": "null", "l": "16"},
        {"k": "true", "m": '"false"'},
        {"h": '"-1"', "f": "3"},
        {"f": '"16"'},
        {"f": "-13"},
        {"e": "1", "d": "4"},
    ],
)
def test_what_clients_send_is_read_and_placed(changes: dict[str, str]) -> None:
    found = [compare(frame(b"body", **changes), seed) for seed in range(16)]
    assert {read for read, _ in found} == {1}
    assert {placed for _, placed in found} == {0, 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"e": "01"}, {"e": "1.0"}, {"e": '" 1"'}, {"e": "2147483648"}, {"e": "null"}, {"m": "1"},
        {"g": "9223372036854775808"}, {"g": "9" * 19}, {"g": "9" * 400}, {"b": '"\\u0041"'},
        {"b": "null"}, {"i": '"\\ud800"'}, {"i": '"\\ud83d\\ude00"'}, {"z": '"later"'}, {"i": "[]"},
        {"i": '"a' + "\n" + '"'}, {"k": "1"}, {"a": "[" * 200 + "]" * 200}, {"a": '{"b":"c"}'},
    ],
)  # fmt: skip
def test_what_is_unusual_is_left(changes: dict[str, str]) -> None:
    assert compare(frame(b"body", **changes), 1) == (0, 0)


@pytest.mark.parametrize("number", ["18446744073709551617", "36893488147419103233", "1" * 20])
def test_a_number_that_wraps_is_left(number: str) -> None:
    assert compare(frame(b"body", g=number, e="1"), 1) == (0, 0)


@pytest.mark.parametrize(
    ("text", "again"), [(b'"e":"1",', b'"e":"2","e":"1",'), (b'"flag":0,', b'"flag":0,"flag":0,')]
)
def test_a_name_that_comes_twice_is_left(text: bytes, again: bytes) -> None:
    whole = frame()
    header = whole[8 : whole.index(b"}body") + 1]
    assert compare(frame_of(header, b"body"), 1)[0] == 1
    assert compare(frame_of(header.replace(text, again), b"body"), 1) == (0, 0)


@pytest.mark.parametrize(
    "damage",
    [
        *(
            b"\x80",
            b"\xc0\xaf",
            b"\xc2",
            b"\xe0\x80\x80",
            b"\xe0\x9f\xbf",
            b"\xed\xa0\x80",
            b"\xf5",
        ),
        *(
            b"\xf0\x80\x80\x80",
            b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80",
            b"\xe2\x82",
            b"\xf0\x9f\x98",
        ),
    ],
)
def test_bytes_that_are_not_utf_8_are_left(damage: bytes) -> None:
    whole = frame(i='"k\\u0001MARK"')
    header = whole[8 : whole.index(b"}body") + 1]
    assert compare(frame_of(header.replace(b"MARK", damage), b"body"), 1) == (0, 0)


@pytest.mark.parametrize("alike_count", [7, 8, 9, 10, 16])
@pytest.mark.parametrize("others_count", [0, 1, 3, 4, 12, 15])
def test_names_of_one_bucket_have_the_order_of_a_hash_map(
    alike_count: int, others_count: int
) -> None:
    alike = ["".join(parts) for parts in product(("Aa", "BB"), repeat=4)][:alike_count]
    others = [f"name{7 * number}" for number in range(others_count)]
    for names in (alike + others, others + alike):
        text = "\x02".join(f"{name}\x01v" for name in names)
        assert sum(compare(frame(i=json.dumps(text)), seed)[1] for seed in range(8)) > 0


names = st.text(st.characters(max_codepoint=0x2FF, blacklist_characters="\x01\x02"), max_size=6)
values = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
pairs = st.lists(st.tuples(names | st.sampled_from(["WAIT", "CLUSTER", "AaAa", "BBBB"]), values))


@given(pairs, st.booleans(), st.integers(0, 1_000))
def test_properties_are_stored_alike(
    pairs: list[tuple[str, str]], is_ascii: bool, seed: int
) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs)
    assert compare(frame(i=json.dumps(text, ensure_ascii=is_ascii)), seed)[0] <= 1
