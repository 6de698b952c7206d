"""The two ways a frame's header is written: JSON and the compact ROCKETMQ form.

JSON, keys in alphabetical order, null ones left out, unknown ones ignored when read:

    code extFields flag language opaque remark serializeTypeCurrentRPC version

ROCKETMQ, big endian and signed:

    offset  width  field
    0       2      code
    2       1      language number
    3       2      version
    5       4      opaque
    9       4      flag
    13      4+n    remark, UTF-8; length 0 stands for none
    ..      4+n    extFields: entries of 2+n key, 4+n value

msgspec reads JSON. A header that it refuses (a number as string, a null field, an unquoted key,
bytes that are not UTF-8) is read again by the rules of fastjson.py. C++ clients send properties in
the encoding of their program. As in 4.9.3, bytes that are not UTF-8 become replacement characters,
in both forms.

Of a header above HEADER_BYTES_MAX only the fixed fields are read, which is enough to refuse it. One
with more than FIELDS_MAX fields is malformed.

Invariants: decoding raises only RemoteProtocolError, and copies no more than its input.

Source: org.apache.rocketmq.remoting.protocol.{RemotingCommand, RocketMQSerializable} (4.9.3)
"""

import struct
from typing import Any, Final

import msgspec

from wakelog.protocol import fastjson
from wakelog.protocol.codes import (
    LANGUAGE_BY_NAME,
    LANGUAGE_BY_NUMBER,
    LanguageCode,
    ResponseCode,
    language_name,
)
from wakelog.protocol.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, RemotingCommand
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.java import INT_MAX, INT_MIN, parse_integer
from wakelog.typed_values import json_decoder

HEADER_BYTES_MAX: Final = 262_144
"""The longest properties of a message, 32,767 bytes, have 196,602 if all of them are escaped."""

FIELDS_MAX: Final = 256
"""4.9.3's largest header has 14 fields. The slow readers take 1 to 3 us for each. The strings of a
field have 100 bytes and more: 40,000 fields in 256 KiB would keep 6 MB."""

_FIXED = struct.Struct(">hBhii")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")


class _JsonHeader(msgspec.Struct, gc=False):
    code: Int32 = 0
    flag: Int32 = 0
    language: str = LanguageCode.JAVA.name
    opaque: Int32 = 0
    version: Int32 = 0
    remark: str | None = None
    ext_fields: dict[str, str] | None = msgspec.field(default=None, name="extFields")


class _JsonHead(msgspec.Struct, gc=False):
    code: Int32 = 0
    flag: Int32 = 0
    opaque: Int32 = 0


class _JsonHeaderOut(msgspec.Struct, gc=False, kw_only=True, omit_defaults=True):
    # In the order on the wire.
    code: int
    ext_fields: dict[str, str] | None = msgspec.field(default=None, name="extFields")
    flag: int
    language: str
    opaque: int
    remark: str | None = None
    serialize_type: str = msgspec.field(name="serializeTypeCurrentRPC")
    version: int


_decode_json = json_decoder(_JsonHeader).decode
_decode_json_head = json_decoder(_JsonHead).decode
_encode_json = msgspec.json.Encoder().encode


def decode_header(
    serialize_type: int, header: bytes | memoryview, body: bytes = b""
) -> RemotingCommand:
    """Read a header and put the command together.

    Raises:
        RemoteProtocolError: if it is malformed or its type unknown.
    """
    if serialize_type == SERIALIZE_JSON:
        return _decode_json_header(header, body)
    if serialize_type == SERIALIZE_ROCKETMQ:
        return _decode_binary_header(bytes(header), body)
    raise _malformed(f"unknown serialise type {serialize_type}")


def decode_head(serialize_type: int, header: bytes | memoryview) -> RemotingCommand:
    """Read code, flag and opaque only; nothing is allocated for the rest of the header.

    Raises:
        RemoteProtocolError: if it is malformed or its type unknown.
    """
    try:
        if serialize_type == SERIALIZE_JSON:
            head = _decode_json_head(header)
            return RemotingCommand(head.code, head.opaque, head.flag)
        if serialize_type == SERIALIZE_ROCKETMQ:
            code, _, _, opaque, flag = _FIXED.unpack_from(header)
            return RemotingCommand(code, opaque, flag)
    except (ValueError, RecursionError, struct.error) as error:
        raise _malformed(str(error)) from error
    raise _malformed(f"unknown serialise type {serialize_type}")


def encode_header(command: RemotingCommand) -> bytes:
    """Write a command's header in the form its serialize_type names.

    Raises:
        LocalProtocolError: if a value does not fit.
    """
    try:
        if command.serialize_type == SERIALIZE_JSON:
            return _encode_json(
                _JsonHeaderOut(
                    code=command.code,
                    ext_fields=command.ext_fields or None,
                    flag=command.flag,
                    language=language_name(command.language),
                    opaque=command.opaque,
                    remark=command.remark,
                    serialize_type="JSON",
                    version=command.version,
                )
            )
        if command.serialize_type == SERIALIZE_ROCKETMQ:
            return _encode_binary_header(command)
    except (struct.error, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"a header value cannot be written: {error}") from error
    raise LocalProtocolError(f"unknown serialise type {command.serialize_type}")


def _decode_json_header(data: bytes | memoryview, body: bytes) -> RemotingCommand:
    try:
        header = _decode_json(data)
    except (ValueError, RecursionError):
        # The errors of msgspec, and those of Python for huge numbers, are ValueErrors.
        header = _read_text(str(data, "utf-8", "replace"))
    if header.ext_fields is not None and len(header.ext_fields) > FIELDS_MAX:
        raise _malformed(f"{len(header.ext_fields)} fields, at most {FIELDS_MAX} are allowed")
    return RemotingCommand(
        header.code,
        header.opaque,
        header.flag,
        {} if header.ext_fields is None else header.ext_fields,
        body,
        header.remark,
        LANGUAGE_BY_NAME.get(header.language, header.language),
        header.version,
        SERIALIZE_JSON,
    )


def _read_text(text: str) -> _JsonHeader:
    try:
        return _decode_json(text)
    except (ValueError, RecursionError):
        return _read_tolerantly(text)


def _read_tolerantly(text: str) -> _JsonHeader:
    try:
        values = fastjson.loads(text, entries_max=FIELDS_MAX)
        if not isinstance(values, dict):
            raise ValueError("a header is an object")
        ext_fields = values.get("extFields") or {}
        if not isinstance(ext_fields, dict):
            raise ValueError("extFields is an object")
        return _JsonHeader(
            _to_int(values.get("code")),
            _to_int(values.get("flag")),
            _to_text(values.get("language")) or LanguageCode.JAVA.name,
            _to_int(values.get("opaque")),
            _to_int(values.get("version")),
            _to_text(values.get("remark")),
            {
                _to_text(name) or "": _to_text(value) or ""
                for name, value in ext_fields.items()
                if value is not None
            },
        )
    except ValueError as error:
        raise _malformed(str(error)) from error


def _to_int(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return parse_integer(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # some languages have no other numbers
    if isinstance(value, int) and INT_MIN <= value <= INT_MAX:
        return value
    raise ValueError(f"{str(value)[:40]} is no 32-bit number")


def _to_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return fastjson.dumps(value).decode("utf-8")


def _decode_binary_header(data: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(data)
        remark_begin = _FIXED.size + 4
        remark_end = _block_end(data, remark_begin)
        entries_begin = remark_end + 4
        entries_end = _block_end(data, entries_begin)
        return RemotingCommand(
            code,
            opaque,
            flag,
            _decode_entries(data[entries_begin:entries_end]),
            body,
            data[remark_begin:remark_end].decode("utf-8", "replace") or None,
            LANGUAGE_BY_NUMBER.get(language, language),
            version,
            SERIALIZE_ROCKETMQ,
        )
    except struct.error as error:
        raise _malformed(str(error)) from error


def _decode_entries(data: bytes) -> dict[str, str]:
    ext_fields: dict[str, str] = {}
    position, end, count = 0, len(data), 0
    while position < end:
        count += 1
        if count > FIELDS_MAX:
            raise _malformed(f"more than {FIELDS_MAX} fields")
        (key_bytes,) = _SHORT.unpack_from(data, position)
        key_end = position + 2 + key_bytes
        (value_bytes,) = _INT.unpack_from(data, key_end) if key_bytes >= 0 else (-1,)
        value_end = key_end + 4 + value_bytes
        if value_bytes < 0 or value_end > end:
            raise _malformed(f"an entry of {key_bytes} and {value_bytes} bytes at {position}")
        name = data[position + 2 : key_end].decode("utf-8", "replace")
        ext_fields[name] = data[key_end + 4 : value_end].decode("utf-8", "replace")
        position = value_end
    return ext_fields


def _block_end(data: bytes, begin: int) -> int:
    (size,) = _INT.unpack_from(data, begin - 4)
    if not 0 <= size <= len(data) - begin:
        raise _malformed(f"a length of {size} with {len(data) - begin} bytes left")
    return begin + int(size)


def _encode_binary_header(command: RemotingCommand) -> bytes:
    known = LANGUAGE_BY_NAME.get(language_name(command.language), LanguageCode.OTHER)
    parts = [
        _FIXED.pack(command.code, known, command.version, command.opaque, command.flag),
        *_block((command.remark or "").encode("utf-8"), _INT),
    ]
    entries: list[bytes] = []
    for name, value in command.ext_fields.items():
        entries += _block(name.encode("utf-8"), _SHORT)
        entries += _block(value.encode("utf-8"), _INT)
    parts += _block(b"".join(entries), _INT)
    return b"".join(parts)


def _block(content: bytes, length: struct.Struct) -> tuple[bytes, bytes]:
    return length.pack(len(content)), content


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SYSTEM_ERROR, f"malformed header: {reason}")
