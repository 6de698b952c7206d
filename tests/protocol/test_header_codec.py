"""Tests of both header forms; bytes in them were laid out by hand from the grammar."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import ext_fields, int32, texts
from wakelog.protocol.codes import LanguageCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.header_codec import decode_header, encode_header

JSON = 0
ROCKETMQ = 1
int16 = st.integers(-(2**15), 2**15 - 1)

BINARY = bytes.fromhex(
    "000b 00 018f 00000007 00000002"  # PULL_MESSAGE, JAVA, 399, opaque 7, one-way
    "00000002 6869"
    "00000013 0005 746f706963 00000001 54 0001 61 00000000"
)


def test_a_json_header_is_read() -> None:
    header = (
        b'{"code":310,"extFields":{"a":"g","b":"T"},"flag":0,"language":"GO","opaque":-5,'
        b'"serializeTypeCurrentRPC":"JSON","version":317}'
    )
    assert decode_header(JSON, header, b"body") == RemotingCommand(
        310, -5, 0, {"a": "g", "b": "T"}, b"body", None, LanguageCode.GO, 317, JSON
    )


def test_a_json_header_is_written_in_upstreams_order() -> None:
    command = RemotingCommand(19, 5, 1, {"minOffset": "0"}, remark="NO_NEW_MSG")
    assert encode_header(command) == (
        b'{"code":19,"extFields":{"minOffset":"0"},"flag":1,"language":"JAVA","opaque":5,'
        b'"remark":"NO_NEW_MSG","serializeTypeCurrentRPC":"JSON","version":399}'
    )


def test_what_is_absent_is_not_written_and_zeros_are() -> None:
    header = encode_header(RemotingCommand(0, version=0))
    assert header == (
        b'{"code":0,"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":0}'
    )


def test_a_binary_header_is_read_and_written() -> None:
    command = RemotingCommand(
        11, 7, 2, {"topic": "T", "a": ""}, b"", "hi", LanguageCode.JAVA, 399, ROCKETMQ
    )
    assert decode_header(ROCKETMQ, BINARY) == command
    assert encode_header(command) == BINARY


@given(int32, int32, int32, int32, ext_fields, st.none() | texts, st.sampled_from(LanguageCode))
def test_a_json_header_comes_back(
    code: int,
    opaque: int,
    flag: int,
    version: int,
    fields: dict[str, str],
    remark: str | None,
    language: LanguageCode,
) -> None:
    command = RemotingCommand(code, opaque, flag, fields, b"", remark, language, version, JSON)
    assert decode_header(JSON, encode_header(command)) == command


@given(int16, int32, int32, int16, ext_fields, texts, st.sampled_from(LanguageCode))
def test_a_binary_header_comes_back(
    code: int,
    opaque: int,
    flag: int,
    version: int,
    fields: dict[str, str],
    remark: str,
    language: LanguageCode,
) -> None:
    command = RemotingCommand(
        code, opaque, flag, fields, b"", remark or None, language, version, ROCKETMQ
    )
    assert decode_header(ROCKETMQ, encode_header(command)) == command


@pytest.mark.parametrize(
    "header",
    [
        {"code": "34", "opaque": "-1", "flag": "0", "version": "399", "language": "JAVA"},
        {"code": 34, "opaque": -1, "version": 399, "extFields": None, "remark": None},
        {"code": 34, "opaque": -1, "version": 399, "extFields": {"n": None}},
        {"code": 34, "opaque": -1, "version": 399, "unknown": [{"deep": 1}]},
        {"code": 34.0, "opaque": -1.0, "version": 399.0},
    ],
)
def test_what_fastjson_tolerates_is_tolerated(header: dict[str, object]) -> None:
    command = decode_header(JSON, json.dumps(header).encode())
    assert (command.code, command.opaque, command.version) == (34, -1, 399)
    assert (command.ext_fields, command.remark) == ({}, None)


def test_values_that_are_no_strings_become_strings() -> None:
    header = b'{"code":1,"extFields":{"i":5,"b":true,"f":1.5,"o":{"a":1},7:"n"},"remark":4}'
    command = decode_header(JSON, header)
    assert command.ext_fields == {"i": "5", "b": "true", "f": "1.5", "o": '{"a":1}', "7": "n"}
    assert command.remark == "4"


@pytest.mark.parametrize(
    ("language", "kept", "written"),
    [('"RUST"', "RUST", "RUST"), ('"PYTHON"', 3, "PYTHON"), ("null", 0, "JAVA")],
)
def test_an_unknown_language_is_kept_by_name(language: str, kept: int | str, written: str) -> None:
    command = decode_header(JSON, f'{{"code":1,"language":{language}}}'.encode())
    assert command.language == kept
    assert json.loads(encode_header(command))["language"] == written


def test_an_unknown_language_number_is_kept() -> None:
    command = decode_header(ROCKETMQ, BINARY[:2] + b"\xee" + BINARY[3:])
    assert command.language == 0xEE
    assert encode_header(command)[2] == LanguageCode.OTHER


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"code":}',
        b'{"code":1}x',
        b'{"code":"x"}',
        b'{"code":1.5}',
        b'{"code":true,"opaque":[]}',
        b'{"code":2147483648}',
        b'{"opaque":-2147483649}',
        b'{"code":1,"extFields":[1]}',
        b'{"code":1,"unknown":"\\ud800","flag":"x"}',
        b'{"code":1,"x":' + b"[" * 100_000,
        b'{"code":' + b"9" * 10_000 + b"}",
    ],
)
def test_a_bad_json_header_is_the_peers_fault(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(JSON, header)


@pytest.mark.parametrize("cut", range(len(BINARY)))
def test_a_binary_header_cut_short_is_the_peers_fault(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(ROCKETMQ, BINARY[:cut])


@pytest.mark.parametrize(
    ("position", "width", "value"),
    [
        (13, 4, -1),  # remark
        (13, 4, 2**31 - 1),
        (19, 4, -1),  # extFields
        (19, 4, 2**31 - 1),
        (23, 2, -1),  # the first key
        (23, 2, 2**15 - 1),
        (30, 4, -1),  # its value
        (30, 4, 2**31 - 1),
    ],
)
def test_a_length_that_lies_is_the_peers_fault(position: int, width: int, value: int) -> None:
    header = bytearray(BINARY)
    header[position : position + width] = value.to_bytes(width, "big", signed=True)
    with pytest.raises(RemoteProtocolError):
        decode_header(ROCKETMQ, bytes(header))


@pytest.mark.parametrize("position", [17, 25, 34])
def test_what_is_not_utf_8_in_a_binary_header_is_replaced(position: int) -> None:
    header = bytearray(BINARY)
    header[position] = 0xFF
    command = decode_header(ROCKETMQ, bytes(header))
    texts = [command.remark, *command.ext_fields, *command.ext_fields.values()]
    assert sum("\ufffd" in (text or "") for text in texts) == 1


def test_properties_in_another_encoding_do_not_lose_the_message() -> None:
    properties = "TAGS\x01订单\x02k\x01v".encode("gbk")
    header = b'{"code":310,"opaque":7,"extFields":{"b":"T","i":"' + properties + b'"}}'
    command = decode_header(JSON, header)
    assert (command.code, command.opaque, command.ext_fields["b"]) == (310, 7, "T")
    tags, other = command.ext_fields["i"].split("\x02")
    assert (tags.startswith("TAGS\x01\ufffd"), other) == (True, "k\x01v")


@given(st.integers(0, 255), st.binary())
def test_garbage_raises_nothing_else(serialize_type: int, header: bytes) -> None:
    try:
        decode_header(serialize_type, header)
    except RemoteProtocolError as error:
        assert error.code == 1


@given(st.text("{}[]:,\"\\u01codeflagextFields-. tn'"))
def test_nearly_json_raises_nothing_else(text: str) -> None:
    try:
        command = decode_header(JSON, b'{"code":1,' + text.encode() + b"}")
    except RemoteProtocolError:
        return
    assert isinstance(command.ext_fields, dict)


@pytest.mark.parametrize(
    "command",
    [
        RemotingCommand(1 << 15, serialize_type=ROCKETMQ),
        RemotingCommand(1, 1 << 31, serialize_type=ROCKETMQ),
        RemotingCommand(1, ext_fields={"k" * 40_000: ""}, serialize_type=ROCKETMQ),
        RemotingCommand(1, remark="\ud800"),
        RemotingCommand(1, remark="\ud800", serialize_type=ROCKETMQ),
        RemotingCommand(1, serialize_type=2),
    ],
)
def test_what_cannot_be_written_is_our_mistake(command: RemotingCommand) -> None:
    with pytest.raises(LocalProtocolError):
        encode_header(command)


def test_a_header_in_another_encoding_may_have_many_entries() -> None:
    other = b",".join([b'"\xff"'] * 1_000)
    header = b'{"code":10,"other":[' + other + b'],"extFields":{"a":"\xff"}}'
    assert decode_header(JSON, header).ext_fields == {"a": "\ufffd"}


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_header_has_few_fields(serialize_type: int) -> None:
    """40,000 fields in 256 KiB keep 6 MB, and hold up everybody for 40 ms."""

    def header(count: int) -> bytes:
        fields = {str(number): "" for number in range(count)}
        return encode_header(RemotingCommand(34, 1, 0, fields, serialize_type=serialize_type))

    assert len(decode_header(serialize_type, header(256)).ext_fields) == 256
    with pytest.raises(RemoteProtocolError, match="fields"):
        decode_header(serialize_type, header(257))


@pytest.mark.parametrize("entry", [b"1", b"[]", b"'a'"])
def test_a_header_in_the_dialect_has_few_entries(entry: bytes) -> None:
    def header(count: int) -> bytes:
        return b"{code:34,x:[" + entry + (b"," + entry) * (count - 1) + b"]}"

    assert decode_header(JSON, header(250)).code == 34
    with pytest.raises(RemoteProtocolError, match="more than 256 entries"):
        decode_header(JSON, header(257))
