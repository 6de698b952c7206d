"""For each key, a value that it does not have yet and that can be used."""

import enum
from typing import Any, Final

import msgspec

from wakelog.broker.config import BrokerConfig
from wakelog.nameserver.config import NameServerConfig
from wakelog.storage.config import StoreConfig
from wakelog.storage.settings_text import plain_type

_FIELDS: Final[dict[str, Any]] = {
    field.encode_name: plain_type(field.type)
    for config in (BrokerConfig, StoreConfig, NameServerConfig)
    for field in msgspec.structs.fields(config)
}

_TEXTS: Final = {
    "brokerIP1": "127.0.0.2",
    "brokerIP2": "127.0.0.2",
    "deleteWhen": "05",
    "haMasterAddress": "127.0.0.1:10912",
    "messageDelayLevel": "1s 2s",
    "namesrvAddr": "127.0.0.1:9877",
}

ONE_VALUE: Final = {"enableDLegerCommitLog": "false"}
"""Keys that can have one value only."""


def other_value(key: str, present: str) -> str:
    """Return a value of the kind of a key, other than the present one."""
    kind = _FIELDS.get(key)
    if present in ("true", "false"):
        return "false" if present == "true" else "true"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(str(one.value) for one in reversed(kind) if one.value != present)
    if kind is int or present.lstrip("-").isdecimal():
        return str(int(present) - 1) if int(present) > 1 else str(int(present) + 1)
    return _TEXTS.get(key, f"other{present}")
