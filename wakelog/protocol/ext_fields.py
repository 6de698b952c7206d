"""Header Structs from and to extFields, where every value travels as a string.

msgspec converts the usual request in one call. When it refuses, `_read_slowly` reads the fields one
by one as Java does, and reports the fault in 4.9.3's words. An optional field that cannot be parsed
counts as absent, as in 4.9.3.

Invariants: a header that is returned has every required field; whatever the strings were, the only
error raised is RemoteProtocolError.

Difference from 4.9.3: there the exception about an absent field is caught and logged. The request
then fails at the first use of the null, also with SYSTEM_ERROR, and the remark is a
NullPointerException. Here the remark names the field.

Source: org.apache.rocketmq.remoting.protocol.RemotingCommand.decodeCommandCustomHeader,
makeCustomHeaderToNet (4.9.3)
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Final, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    boolean_text,
    parse_boolean,
    parse_integer,
)
from wakelog.typed_values import convert

Int32 = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=LONG_MIN, le=LONG_MAX)]


class Header(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of every header. Its fields are texts and numbers, which refer to nothing."""


HeaderType = TypeVar("HeaderType", bound=Header)

_COMMAND_EXCEPTION: Final = "org.apache.rocketmq.remoting.exception.RemotingCommandException"
_NUMBER_EXCEPTION: Final = "java.lang.NumberFormatException"


class _Field(NamedTuple):
    attribute: str
    wire_name: str
    parse: Callable[[str], object]
    required: bool


def read_header(header_type: type[HeaderType], ext_fields: Mapping[str, str]) -> HeaderType:
    """Read the header of a request or response from its extFields; unknown names are ignored.

    Raises:
        RemoteProtocolError: SYSTEM_ERROR, if a required field is absent or cannot be parsed.
    """
    try:
        return convert(ext_fields, header_type, strict=False)
    except msgspec.ValidationError:
        return _read_slowly(header_type, ext_fields)


def to_ext_fields(header: msgspec.Struct) -> dict[str, str]:
    """Write a header as extFields; a field that is None is left out."""
    ext_fields: dict[str, str] = {}
    for attribute, wire_name in _names(type(header)):
        value = getattr(header, attribute)
        if value.__class__ is str:
            ext_fields[wire_name] = value
        elif value is not None:
            is_boolean = value.__class__ is bool
            ext_fields[wire_name] = boolean_text(value) if is_boolean else str(value)
    return ext_fields


def _read_slowly(header_type: type[HeaderType], ext_fields: Mapping[str, str]) -> HeaderType:
    values: dict[str, object] = {}
    for field in _fields(header_type):
        text = ext_fields.get(field.wire_name)
        if text is None:
            if field.required:
                remark = f"{_COMMAND_EXCEPTION}: the custom field <{field.wire_name}> is null"
                raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
            continue
        try:
            values[field.attribute] = field.parse(text)
        except ValueError as error:
            if not field.required:
                continue
            remark = f"{_NUMBER_EXCEPTION}: {error}"
            raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark) from error
    return header_type(**values)


@cache
def _names(header_type: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple(
        zip(header_type.__struct_fields__, header_type.__struct_encode_fields__, strict=True)
    )


@cache
def _fields(header_type: type[msgspec.Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(header_type, include_extras=True)
    required = {f.name: f.required for f in msgspec.structs.fields(header_type)}
    return tuple(
        _Field(attribute, wire_name, _parser(hints[attribute]), required[attribute])
        for attribute, wire_name in _names(header_type)
    )


def _parser(hint: object) -> Callable[[str], object]:
    alternatives = (hint, *get_args(hint)) if hint not in (Int32, Int64) else (hint,)
    if Int32 in alternatives:
        return parse_integer
    if Int64 in alternatives:
        return _parse_long
    if bool in alternatives:
        return parse_boolean
    assert str in alternatives, f"no parser for {hint}"
    return str


def _parse_long(text: str) -> int:
    return parse_integer(text, minimum=LONG_MIN, maximum=LONG_MAX)
