"""Tests of fastjson's dialect, also against the files the real broker wrote with it."""

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls import calls_of_steps
from tests.protocol.golden_records import config_files
from wakelog.protocol import fastjson
from wakelog.protocol.fastjson import (
    CHARACTERS_MAX,
    DEPTH_MAX,
    ENTRIES_MAX,
    ESCAPES_PER_STEP,
    dumps,
    loads,
    loads_in_steps,
    to_long,
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    scalars,
    lambda values: st.one_of(st.lists(values), st.dictionaries(texts, values)),
    max_leaves=8,
)
present = scalars.filter(lambda value: value is not None)
objects_as_keys = st.dictionaries(texts, present, min_size=1).map(lambda d: tuple(d.items()))
dialect_values = st.recursive(
    present,
    lambda values: st.one_of(
        st.lists(values),
        st.dictionaries(st.one_of(texts, st.integers(), objects_as_keys), values, max_size=4),
    ),
    max_leaves=8,
)


@given(json_values)
def test_ordinary_json_is_read_as_by_anyone(value: Any) -> None:
    assert loads(json.dumps(value)) == value
    assert loads(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(dialect_values)
def test_the_dialect_is_read_as_it_was_written(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert loads(dumps(value, pretty=True)) == value


@given(st.one_of(st.binary(), st.text("{}[]:,\"\\u0d1-.eE tfn'")))
def test_garbage_raises_nothing_but_value_error(data: bytes | str) -> None:
    try:
        value = loads(data)
    except ValueError:
        return
    assert loads(dumps(value, pretty=True)) == loads(dumps(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:5,1:7}", {0: 5, 1: 7}),
        ('{"0":5,-1:7}', {"0": 5, -1: 7}),
        (
            '{{"brokerName":"b","queueId":0,"topic":"T"}:{"maxOffset":9}}',
            {(("brokerName", "b"), ("queueId", 0), ("topic", "T")): {"maxOffset": 9}},
        ),
        ("{{}:1}", {(): 1}),
        (' { "a" : [ 1 , 2.5e1 , true , false , null ] } ', {"a": [1, 25.0, True, False, None]}),
        ('{"a":1,"a":2}', {"a": 2}),
        (r'"\"\\\/\b\f\n\r\t\u6807\ud83d\ude00"', '"\\/\b\f\n\r\t标\U0001f600'),
        ('"raw \x01\x02 text"', "raw \x01\x02 text"),
        ("-0", 0),
        ("""{'a':'it\\'s "so"',"b":"it's"}""", {"a": """it's "so\"""", "b": "it's"}),
        ("{a:1,_b:2,$c3:{true:4}}", {"a": 1, "_b": 2, "$c3": {"true": 4}}),
        ('{"a":[1,],}', {"a": [1]}),
        ('\ufeff{"a":1}', {"a": 1}),
        (r'"a\ud800b"', "a?b"),
        (r'"\ude00\ud83d"', "??"),
    ],
)
def test_what_is_read(text: str, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,,}',
        "{,}",
        '{"a" 1}',
        "{a b:1}",
        "{1a:1}",
        "{a}",
        "{[1]:2}",
        '{{"a":[1]}:2}',
        '{{{"a":1}:1}:2}',
        "[1,,]",
        "[,]",
        "[a]",
        "[1 2]",
        '"open',
        r'"\q"',
        r'"\u12"',
        """'open\"""",
        "1 2",
        "1.",
        ".5",
        "-",
        "nul",
        "NaN",
        "1" * 5_000,
        "[1,0" + "1" * 41 + "]",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        loads(text)


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert loads(b'"a\xffb"') == "a\ufffdb"


def test_nesting_is_bounded() -> None:
    assert loads("[" * DEPTH_MAX + "]" * DEPTH_MAX)
    for opening in ("[", '{"a":', "{{"):
        with pytest.raises(ValueError, match="levels"):
            loads(opening * 50_000)


class Bean(msgspec.Struct, rename="camel"):
    topic_name: str
    perm: int = 6
    absent: str | None = None
    order: bool = False


def test_a_bean_is_written_alphabetically_without_nulls() -> None:
    assert dumps(Bean("T")) == b'{"order":false,"perm":6,"topicName":"T"}'


def test_a_bean_as_key_is_written_as_an_object() -> None:
    class Key(msgspec.Struct, frozen=True):
        b: int
        a: str

    assert dumps({Key(1, "x"): 2}) == b'{{"a":"x","b":1}:2}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": None, "b": 1}, '{"b":1}'),
        ([None, True, 1.0, "标\x01"], '[null,true,1.0,"标\\u0001"]'),
        ({1}, "[1]"),
        ((1, 2), "[1,2]"),
        (math.inf, "null"),
        ({}, "{}"),
        ([], "[]"),
        ({0: {}}, "{0:{}}"),
    ],
)
def test_what_is_written(value: object, text: str) -> None:
    assert dumps(value) == text.encode()


def test_what_has_no_json_form_is_our_mistake() -> None:
    with pytest.raises(TypeError):
        dumps(object())


@pytest.mark.golden
@pytest.mark.parametrize("fixture", ["basic", "delay_tx_retry", "filter_ext", "multi_dispatch"])
def test_configuration_files_come_out_byte_for_byte(fixture: str) -> None:
    files = config_files(fixture)
    assert "topics.json" in files
    for content in files.values():
        assert dumps(loads(content), pretty=True) == content


def test_a_number_without_bounds_is_refused() -> None:
    assert loads("1e308") == 1e308
    for text in ("1e309", "-1e400", '{"a": [1E999]}'):
        with pytest.raises(ValueError, match="too large"):
            loads(text)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1e308, -1e19, "9" * 30])
def test_what_java_has_no_long_for_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        to_long(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [((1 << 63) - 1, (1 << 63) - 1), (-(1 << 63), -(1 << 63)), ("12", 12), (7.0, 7)],
)
def test_a_long_is_read(value: object, number: int) -> None:
    assert to_long(value) == number


@pytest.mark.parametrize("text", ["{a:1,b:2,c:3}", "['',{},[],]", "{{'a':1,'b':2}:3}"])
def test_the_entries_of_a_text_in_the_dialect_are_bounded(text: str) -> None:
    assert loads(text, entries_max=3) == loads(text)
    with pytest.raises(ValueError, match="more than 2 entries"):
        loads(text, entries_max=2)


def test_ordinary_json_has_no_bound_here() -> None:
    assert loads("[1,2,3]", entries_max=2) == [1, 2, 3]


@pytest.mark.parametrize("end", ["", "]", "}", ",", "'"])
def test_a_long_text_with_a_bad_end_is_given_up_early(end: str) -> None:
    for count, what in ((100_000, f"{ENTRIES_MAX} entries"), (1_000_000, f"{CHARACTERS_MAX} char")):
        with pytest.raises(ValueError, match=f"more than {what}"):
            loads("{'a':[" + "1," * count + end)


ODD = {
    "entries": "{" + ",".join(f"{number}:1" for number in range(4_000)) + "}",
    "an array in an object": "{a:[" + ",".join(["1"] * 4_000) + "]}",
    "objects as keys": "{" + ",".join(f"{{a:{number}}}:1" for number in range(1_500)) + "}",
    "escapes of the dialect": "'" + "\\v" * 40_000 + "'",
    "escapes of JSON": "{'a':\"" + "\\u0041" * 20_000 + '"}',
    "no UTF-8": b"{a:'" + b"\xff" * 200_000 + b"'}",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_what_is_not_ordinary_is_read_in_steps(text: str | bytes) -> None:
    calls, value = calls_of_steps(loads_in_steps(text))
    assert value == loads(text)
    assert max(calls) < 8 * ESCAPES_PER_STEP


def test_half_a_pair_between_escapes_of_the_dialect_becomes_a_question_mark() -> None:
    assert loads("'\\ud83d\\v\\ud83d\\ude00'") == "?\v\U0001f600"


@pytest.mark.parametrize("pretty", [False, True])
def test_a_long_text_is_joined_some_parts_at_a_time(
    monkeypatch: pytest.MonkeyPatch, *, pretty: bool
) -> None:
    """To free the parts of 64,000 topics kept the interpreter from all other threads for 40 ms."""
    value = {f"k{number}": [number, {"a": "b"}] for number in range(100)}
    expected = dumps(value, pretty=pretty)
    assert json.loads(expected) == value
    longest: list[int] = []
    join_some = fastjson._Parts.join_some

    def watch(parts: fastjson._Parts) -> None:
        longest.append(len(parts))
        join_some(parts)

    monkeypatch.setattr(fastjson, "PARTS_MAX", 16)
    monkeypatch.setattr(fastjson._Parts, "join_some", watch)
    assert dumps(value, pretty=pretty) == expected
    assert len(longest) > 20
    assert max(longest) < 40
