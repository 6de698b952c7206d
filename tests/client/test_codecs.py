"""Values to bodies and back, by the codecs that come with the client and by a user's own."""

import io
from dataclasses import dataclass
from typing import Any, TypedDict

import fastavro
import msgspec
import pydantic
import pytest

from wakelog.client import Codec, InvalidArgument, JsonCodec, MsgpackCodec


class Struct(msgspec.Struct):
    name: str
    amount: int


@dataclass
class Data:
    name: str
    amount: int


class Words(TypedDict):
    name: str
    amount: int


class Model(pydantic.BaseModel):
    name: str
    amount: int


class Avro:
    """A codec of a user."""

    _schema = fastavro.parse_schema(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "name", "type": "string"}, {"name": "amount", "type": "int"}],
        }
    )

    def encode(self, value: dict[str, Any], /) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._schema, value)
        return body.getvalue()

    def decode(self, body: bytes, /) -> dict[str, Any]:
        found = fastavro.schemaless_reader(io.BytesIO(body), self._schema, None)
        assert isinstance(found, dict)
        return found


@pytest.mark.parametrize("form", [JsonCodec, MsgpackCodec])
@pytest.mark.parametrize("value", [Struct("a", 1), Data("a", 1), {"name": "a", "amount": 1}])
def test_a_value_comes_back(form: Any, value: object) -> None:
    codec = form(Words if isinstance(value, dict) else type(value))
    assert codec.decode(codec.encode(value)) == value


def test_json_is_what_other_programs_write() -> None:
    for kind in (Struct, Data, Model):
        codec: Codec[Any] = JsonCodec(kind)
        body = codec.encode(kind(name="ä", amount=1))
        assert body == '{"name":"ä","amount":1}'.encode()
        assert codec.decode(b'{"amount": 1, "name": "\\u00e4"}') == kind(name="ä", amount=1)


@pytest.mark.parametrize("names", [(), ("model_dump_json",), ("model_validate_json",)])
def test_a_class_with_one_method_of_a_model_is_none(names: tuple[str, ...]) -> None:
    kind = msgspec.defstruct("Near", [("name", str)], namespace=dict.fromkeys(names, print))
    codec: Codec[Any] = JsonCodec(kind)
    assert codec.encode(kind("a")) == b'{"name":"a"}'
    assert codec.decode(b'{"name":"a"}') == kind("a")


def test_msgpack_is_small() -> None:
    assert MsgpackCodec(Struct).encode(Struct("a", 1)) == b"\x82\xa4name\xa1a\xa6amount\x01"
    assert MsgpackCodec(list[int]).decode(MsgpackCodec(list[int]).encode([1])) == [1]


def test_avro_is_a_codec_of_a_user() -> None:
    codec: Codec[dict[str, Any]] = Avro()
    body = codec.encode({"name": "a", "amount": 1})
    assert (body, codec.decode(body)) == (b"\x02a\x02", {"name": "a", "amount": 1})


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        (JsonCodec(Struct), b"{"),
        (JsonCodec(Struct), b'{"name": "a"}'),
        (JsonCodec(Struct), b'{"name": "a", "amount": "1"}'),
        (JsonCodec(Data), b"\xff"),
        (JsonCodec(Model), b'{"name": "a", "amount": "one"}'),
        (MsgpackCodec(Struct), b"\xc1"),
        (MsgpackCodec(Struct), b"\x80"),
    ],
)
def test_a_body_of_something_else_is_refused(codec: Codec[Any], body: bytes) -> None:
    with pytest.raises(ValueError):
        codec.decode(body)


@pytest.mark.parametrize("codec", [JsonCodec(Struct), JsonCodec(Model), MsgpackCodec(Struct)])
def test_a_value_of_something_else_is_refused(codec: Codec[Any]) -> None:
    with pytest.raises(TypeError, match="it is of type Data, not"):
        codec.encode(Data("a", 1))


@pytest.mark.parametrize("form", [JsonCodec, MsgpackCodec])
def test_a_type_without_values_is_refused(form: Any) -> None:
    with pytest.raises(InvalidArgument, match="has no values of this type"):
        form(dict[int, Struct] | list[Struct] | set[int] | list[int])
