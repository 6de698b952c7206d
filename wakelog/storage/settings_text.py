"""Settings as text: Java properties, values by 4.9.3's keys, and the change of live settings.

Codes 25 and 318 change a running broker or name server, until it stops. They change only live keys,
which are read again at every use. No path, command, address or name is among them. 4.9.3 accepts
any key: hence CVE-2023-33246 (a start script run from a changed home) and CVE-2023-37582 (a file
written to a changed path). 4.9.3 also rewrites its file, which opened the second hole.

Source: org.apache.rocketmq.common.Configuration, MixAll.properties2Object (4.9.3).
"""

import enum
import re
import types
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple, TypeVar, get_args

import javaproperties
import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.errors import IllegalConfiguration

ConfigT = TypeVar("ConfigT", bound=msgspec.Struct)

BODY_BYTES_MAX = 65_536  # all 191 keys of 4.9.3's broker with long values are under 16 KiB

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class SettingsUpdate(NamedTuple):
    """The keys of one update, by what happened to them."""

    applied: tuple[str, ...]
    ignored: tuple[str, ...]


def decode_settings(body: bytes) -> str:
    """Return the text in the body of a request. Raises: RemoteProtocolError."""
    if len(body) > BODY_BYTES_MAX:
        remark = f"a configuration of {len(body)} bytes"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None


def parse_properties(
    text: str, *, name: str = "broker.conf", what: str = "the text"
) -> dict[str, str]:
    """Read java.util.Properties text. Blanks around values are removed; MixAll keeps them.

    Raises: IllegalConfiguration, with `name` and `what`, for an escape that Java would refuse.
    """
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise IllegalConfiguration(name, what, f"Java properties: {error}") from None


def convert_value(key: str, text: str, annotation: Any) -> Any:
    """Turn the text of one key into its field's type.

    Raises: IllegalConfiguration naming the accepted form.
    """
    if isinstance(annotation, types.UnionType):
        (annotation,) = [kind for kind in get_args(annotation) if kind is not types.NoneType]
    if annotation is bool:
        if text.lower() not in ("true", "false"):
            raise IllegalConfiguration(key, text, "true or false")
        return text.lower() == "true"
    if annotation is int:
        if _WHOLE_NUMBER.fullmatch(text) is None:
            raise IllegalConfiguration(key, text, "a whole number")
        return int(text)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        members = {member.value: member for member in annotation}
        if text not in members:
            raise IllegalConfiguration(key, text, " or ".join(members))
        return members[text]
    return text


def read_settings(struct: type[ConfigT], given: Mapping[str, str]) -> ConfigT:
    """Make a configuration of the settings that are given; keys of others are left alone.

    Raises: IllegalConfiguration for a value that cannot be used.
    """
    fields = [field for field in msgspec.structs.fields(struct) if field.encode_name in given]
    values = {
        field.name: convert_value(field.encode_name, given[field.encode_name], field.type)
        for field in fields
    }
    return struct(**values)


def update_settings(
    config: msgspec.Struct,
    given: Mapping[str, str],
    live_keys: Set[str],
    check: Callable[[str, object], None],
) -> SettingsUpdate:
    """Apply the live keys that are given; either all of them or, when one is wrong, none.

    check: raises for a value that cannot be used.

    Raises: IllegalConfiguration for a live key with a value that cannot be used.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(config)}
    applied = sorted(given.keys() & live_keys)
    changes = {}
    for key in applied:
        changes[key] = convert_value(key, given[key], fields[key].type)
        check(key, changes[key])
    for key, value in changes.items():
        setattr(config, fields[key].name, value)
    return SettingsUpdate(tuple(applied), tuple(sorted(given.keys() - live_keys)))


def settings_of(config: msgspec.Struct) -> dict[str, str]:
    """Return the settings that a configuration has, by key, in the form of 4.9.3."""
    values = {f.encode_name: getattr(config, f.name) for f in msgspec.structs.fields(config)}
    return {key: _to_text(value) for key, value in values.items() if value is not None}


def settings_text(settings: Mapping[str, str]) -> str:
    """Write settings, one ``key=value`` a line, as in the responses to codes 26 and 319."""
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, enum.Enum) else value)
