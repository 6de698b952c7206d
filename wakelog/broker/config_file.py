"""Reading RocketMQ's broker.conf: java.util.Properties text into BrokerConfig and StoreConfig.

One file feeds both, as in 4.9.3. Three layers override each other, all with 4.9.3's keys: defaults
of the machine (host name, address, home directory), the file, and the command line. An unknown key
is kept and shown by code 26; the warning has the nearest known name. An unusable value is an error
that names key, value and accepted form. 4.9.3 goes on with its default.

Source: org.apache.rocketmq.broker.BrokerStartup.createBrokerController and MixAll.properties2Object
(4.9.3).
"""

import difflib
import enum
import re
import types
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import javaproperties
import msgspec

from wakelog.broker.config import (
    DEFAULTS_WITHOUT_EFFECT,
    KEYS_REFUSED_WHEN_TRUE,
    KEYS_WITHOUT_EFFECT,
    MASTER_ID,
    BrokerConfig,
)
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.errors import IllegalConfiguration

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NEAR_ENOUGH = 0.6  # difflib's own default: a third of the letters may differ

_T = TypeVar("_T", bound=msgspec.Struct)


class BrokerSettings(msgspec.Struct, frozen=True):
    """The settings of a broker, with unknown keys and warnings."""

    broker: BrokerConfig
    store: StoreConfig
    unknown: dict[str, str]
    warnings: tuple[str, ...]


def read_broker_conf(
    text: str,
    *,
    defaults: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Make the settings of a broker from the text of a broker.conf.

    defaults: values of keys that the file does not have. One of the three must have
    storePathRootDir.

    Raises: IllegalConfiguration for a value that cannot be used.
    """
    layers = {**(defaults or {}), **parse_properties(text), **(overrides or {})}
    broker_keys, store_keys = field_types(BrokerConfig), field_types(StoreConfig)
    without_effect = KEYS_WITHOUT_EFFECT | KEYS_REFUSED_WHEN_TRUE.keys()
    known = broker_keys.keys() | store_keys.keys() | without_effect
    unknown = {key: value for key, value in layers.items() if key not in known}
    warnings = [_unknown_key_warning(key, known) for key in unknown]
    warnings += [
        f"{key} has no effect here"
        for key, value in layers.items()
        if key in KEYS_WITHOUT_EFFECT and value != DEFAULTS_WITHOUT_EFFECT.get(key)
    ]
    _refuse_promises(layers)
    store_values = {key: layers[key] for key in store_keys if key in layers}
    broker_values = {key: layers[key] for key in broker_keys if key in layers}
    broker = _build(BrokerConfig, broker_values)
    # BrokerStartup overwrites haListenPort, so the file's value is ignored here too.
    store_values["haListenPort"] = str(broker.listen_port + 1)
    store_values.setdefault("storePathRootDir", "")
    store = _build(StoreConfig, store_values)
    _settle_role(broker, store)
    kept = {key: layers[key] for key in layers if key in without_effect}
    return BrokerSettings(broker, store, unknown | kept, tuple(warnings))


def parse_properties(text: str) -> dict[str, str]:
    """Read java.util.Properties text. Blanks around values are removed; MixAll keeps them.

    Raises: IllegalConfiguration for an escape that Java would refuse.
    """
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise IllegalConfiguration("broker.conf", "the text", f"Java properties: {error}") from None


def field_types(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return 4.9.3's key of each field of a configuration with the field's type."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


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


def to_text(value: Any) -> str:
    """Write one setting in the form of 4.9.3."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    return str(value)


def all_settings(settings: BrokerSettings) -> dict[str, str]:
    """Return every key of 4.9.3 and of wakelog with its value, and the file's unknown keys."""
    found = {**DEFAULTS_WITHOUT_EFFECT, **dict.fromkeys(KEYS_REFUSED_WHEN_TRUE, "false")}
    found |= settings.unknown
    for config in (settings.store, settings.broker):
        for field in msgspec.structs.fields(config):
            value = getattr(config, field.name)
            if value is not None:
                found[field.encode_name] = to_text(value)
    found.setdefault("storePathCommitLog", ",".join(settings.store.paths.commit_log_directories))
    return found


def _build(struct: type[_T], values: Mapping[str, str]) -> _T:
    converted = {}
    for field in msgspec.structs.fields(struct):
        if field.encode_name in values:
            text = values[field.encode_name]
            converted[field.name] = convert_value(field.encode_name, text, field.type)
    return struct(**converted)


def _settle_role(broker: BrokerConfig, store: StoreConfig) -> None:
    """Let the role decide the broker id, as BrokerStartup does."""
    if store.broker_role is not BrokerRole.SLAVE:
        broker.broker_id = MASTER_ID
    elif broker.broker_id <= MASTER_ID:
        raise IllegalConfiguration("brokerId", broker.broker_id, "above 0 for brokerRole=SLAVE")


def _refuse_promises(layers: Mapping[str, str]) -> None:
    for key, reason in KEYS_REFUSED_WHEN_TRUE.items():
        if convert_value(key, layers.get(key, "false"), bool):
            raise IllegalConfiguration(key, layers[key], f"false: {reason}")


def _unknown_key_warning(key: str, known: set[str] | frozenset[str]) -> str:
    by_lower = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=_NEAR_ENOUGH)
    hint = f"; did you mean {by_lower[near[0]]}?" if near else ""
    return f"{key} is not a key of RocketMQ 4.9.3 and is ignored{hint}"
