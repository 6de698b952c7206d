"""docs/configuration.md: every key of 4.9.3's configuration and of wakelog's own, and what it does.

The rows come from the modules that read the keys: fields of the configurations, and the tables of
keys without effect.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from wakelog.actors.deploy.up_keys import UP_KEYS
from wakelog.broker import config as broker
from wakelog.broker.config_file import FIXED_KEYS
from wakelog.nameserver import config as name_server
from wakelog.storage import config as store
from wakelog.storage.settings_text import WithoutEffect, is_live, plain_type, setting_text

HEADS: Final = ("key", "default", "accepts", "here")
INTRODUCTION: Final = """\
The keys of 4.9.3's configuration objects, and those that only wakelog has. They stand in
broker.conf (`--config`) or after `--set`. Codes 26 and 319 (`getBrokerConfig`, `getNamesrvConfig`)
show them. Codes 25 and 318 (`updateBrokerConfig`, `updateNamesrvConfig`) change them, for now and
for later starts. [Changes while it runs](tools.md#changes-while-it-runs) says where they are kept,
and how long they hold. A key "at once" is used by the next request. A key "at start" waits for a
restart: the response, the log and `getBrokerConfig` say so. A key without effect is kept and shown.
The last table has the keys of `wakelog up`, which no client sees."""

_NOTES: Final = {"brokerRole": "; a SLAVE needs a brokerId above 0"}

_WHATEVER: Final = "any"


class Row(NamedTuple):
    """One line of the table."""

    key: str
    default: str
    accepts: str
    here: str


class _Place(NamedTuple):
    """One configuration: its Struct and the tables of its module; ranges are by key."""

    config: type[msgspec.Struct]
    ranges: Mapping[str, tuple[int, int]]
    without_effect: Mapping[str, WithoutEffect]
    refused: Mapping[str, str]
    fixed: Mapping[str, str]


_NAME_SERVER = _Place(
    name_server.NameServerConfig,
    name_server.RANGES,
    name_server.KEYS_WITHOUT_EFFECT,
    {},
    name_server.FIXED_KEYS,
)
_BROKER = _Place(
    broker.BrokerConfig,
    broker.RANGES,
    broker.KEYS_WITHOUT_EFFECT,
    {},
    FIXED_KEYS,
)
_STORE = _Place(
    store.StoreConfig,
    store.RANGES,
    store.KEYS_WITHOUT_EFFECT,
    store.KEYS_REFUSED_WHEN_TRUE,
    FIXED_KEYS,
)

SECTIONS: Final[dict[str, _Place]] = {
    "Broker: BrokerConfig, NettyServerConfig, NettyClientConfig": _BROKER,
    "Store: MessageStoreConfig": _STORE,
    "Name server: NamesrvConfig, NettyServerConfig": _NAME_SERVER,
}
"""Titles and places, in the order of the document."""


def configuration_rows(place: _Place) -> Iterator[Row]:
    """Return one row for each key, in the order of their names."""
    rows = [_field_row(place, field) for field in msgspec.structs.fields(place.config)]
    rows += [Row(key, "false", "false", f"refused: {why}") for key, why in place.refused.items()]
    rows += [
        Row(key, _shown(one.default), _WHATEVER, f"no effect: {one.reason}")
        for key, one in place.without_effect.items()
    ]
    yield from sorted(rows, key=lambda row: row.key.lower())


def own_rows() -> Iterator[Row]:
    """Return one row for each key of a deployment."""
    for key, (default, accepts, meaning) in UP_KEYS.items():
        yield Row(key, _shown(default), accepts, meaning)


def _field_row(place: _Place, field: msgspec.structs.FieldInfo) -> Row:
    key = field.encode_name
    own = "wakelog's own, " if key in store.WAKELOG_KEYS else ""
    note = _NOTES.get(key, "")
    when = "at once" if is_live(field.type) else "at start"
    if key in place.fixed:
        when = f"at start only: {place.fixed[key]}"
    default = None if field.required or field.default is None else setting_text(field.default)
    accepts = _accepted(field.type, place.ranges.get(key))
    return Row(key, _shown(default), accepts, own + when + note)


def _shown(default: str | None) -> str:
    return "-" if default in (None, "") else f"`{default}`"


def _accepted(annotation: Any, limits: tuple[int, int] | None) -> str:
    kind = plain_type(annotation)
    if kind is bool:
        return "true or false"
    if issubclass(kind, enum.Enum):
        return " or ".join(member.value for member in kind)
    if kind is not int:
        return "text"
    if limits is None:
        return "a number"
    return f"{limits[0]} to {limits[1]}"
