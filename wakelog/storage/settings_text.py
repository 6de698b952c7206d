"""Settings as text: Java properties, and values by 4.9.3's keys.

A key of 4.9.3 is either a field of a configuration's Struct, and obeyed, or a row of that module's
table of keys without effect, with the reason. `docs/configuration.md` is drawn from both.

`live_settings` has the changes of a running program.

Source: org.apache.rocketmq.common.Configuration, MixAll.properties2Object (4.9.3).
"""

import enum
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.errors import IllegalConfiguration

ConfigT = TypeVar("ConfigT", bound=msgspec.Struct)
T = TypeVar("T")

_LIVE: Final = msgspec.Meta(extra={"live": True})

Live = Annotated[T, _LIVE]
"""Marks a field that is read again at every use, so that a running program can change it."""

BODY_BYTES_MAX = 65_536  # all 191 keys of 4.9.3's broker with long values are under 16 KiB

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class WithoutEffect(NamedTuple):
    """A key of 4.9.3 that means nothing here.

    default: what 4.9.3 shows for it; None if it is shown only when it was given.
    """

    default: str | None
    reason: str

    def convert(self, key: str, text: str) -> str:
        """Return a value of the kind of the default. Raises: IllegalConfiguration."""
        kinds = {"true": bool, "false": bool}
        kind = int if (self.default or "").isdecimal() else kinds.get(self.default or "", str)
        return setting_text(convert_value(key, text, kind))


def keys_without_effect(rows: Mapping[str, str]) -> dict[str, WithoutEffect]:
    """Make a table by key of rows by reason; a row has ``key=default`` or ``key`` words."""
    found = {}
    for reason, words in rows.items():
        for word in words.split():
            key, equals, default = word.partition("=")
            assert key not in found, key
            found[key] = WithoutEffect(default if equals else None, reason)
    return found


def shown_defaults(table: Mapping[str, WithoutEffect]) -> dict[str, str]:
    """Return what 4.9.3 shows for keys without effect that were not given."""
    return {key: row.default for key, row in table.items() if row.default is not None}


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
    import javaproperties  # takes 18 ms, and a start without a file does without it

    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise IllegalConfiguration(name, what, f"Java properties: {error}") from None


def settings_named_in(body: bytes) -> dict[str, str]:
    """Return the keys in the body of a request, for the audit log.

    Raises: RemoteProtocolError; ValueError for a text that has no keys.
    """
    try:
        return {"keys": ", ".join(sorted(parse_properties(decode_settings(body))))}
    except IllegalConfiguration as error:
        raise ValueError(str(error)) from None


def is_live(annotation: Any) -> bool:
    """Whether a field is marked as one that changes at once."""
    return _LIVE in getattr(annotation, "__metadata__", ())


def plain_type(annotation: Any) -> Any:
    """Return the type of a field's values, without its mark and without None."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if isinstance(annotation, types.UnionType):
        (annotation,) = [kind for kind in get_args(annotation) if kind is not types.NoneType]
    return annotation


def convert_value(key: str, text: str, annotation: Any) -> Any:
    """Turn the text of one key into its field's type.

    Raises: IllegalConfiguration naming the accepted form.
    """
    annotation = plain_type(annotation)
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


def fields_by_key(
    configs: Iterable[msgspec.Struct],
) -> dict[str, tuple[msgspec.Struct, msgspec.structs.FieldInfo]]:
    """Return by key the configuration that has it, and its field there."""
    return {
        field.encode_name: (config, field)
        for config in configs
        for field in msgspec.structs.fields(config)
    }


def settings_of(config: msgspec.Struct) -> dict[str, str]:
    """Return the settings that a configuration has, by key, in the form of 4.9.3."""
    values = {f.encode_name: getattr(config, f.name) for f in msgspec.structs.fields(config)}
    return {key: setting_text(value) for key, value in values.items() if value is not None}


def settings_text(settings: Mapping[str, str]) -> str:
    """Write settings, one ``key=value`` a line, as in the responses to codes 26 and 319."""
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))


def setting_text(value: Any) -> str:
    """Write one value in the form of 4.9.3."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, enum.Enum) else value)
