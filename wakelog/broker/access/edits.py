"""The changes of a file of accounts that mqadmin makes: from its text to its new text.

What a file has besides stays, but comments do not. Each change counts `dataVersion` up. A changed
account moves to the end of the list, as in 4.9.3.

Every function raises ValueError with 4.9.3's words; no message has a secret key.

Source: org.apache.rocketmq.acl.plain.PlainPermissionManager.updateAccessConfig, deleteAccessConfig,
updateGlobalWhiteAddrsConfig, acl.common.Permission.checkResourcePerms (4.9.3).
"""

from typing import Any

import msgspec
import yaml

from wakelog.broker.access.accounts import KEY_LENGTH_MIN, load_yaml, read_file, read_permission
from wakelog.protocol.bodies import PlainAccessConfig

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_ACCOUNTS, _VERSION, _WHITE = "accounts", "dataVersion", "globalWhiteRemoteAddresses"


def put_account(text: str | None, entry: PlainAccessConfig, now_ms: int) -> str:
    """Create an account, or change the fields that are given.

    text: None if there is no file yet.
    """
    if min(len(entry.access_key or ""), len(entry.secret_key or "")) < KEY_LENGTH_MIN:
        raise ValueError(
            f"The accessKey={entry.access_key or 'null'} and its secretKey cannot be null "
            f"and length should longer than {KEY_LENGTH_MIN - 1}"
        )
    for permission in [*(entry.topic_perms or ()), *(entry.group_perms or ())]:
        _check_permission(permission)
    given = {
        name: value for name, value in msgspec.to_builtins(entry).items() if value not in ("", None)
    }
    data = {} if text is None else _read(text)
    accounts: list[dict[str, Any]] = data.get(_ACCOUNTS) or []
    old: dict[str, Any] = next(
        (one for one in accounts if str(one.get("accessKey")) == entry.access_key), {}
    )
    # Java's null leaves an address as it is, and an empty one removes it.
    white = {} if entry.white_remote_address != "" else {"whiteRemoteAddress": ""}
    others = [one for one in accounts if one is not old]
    data[_ACCOUNTS] = [*others, {**old, **given, **white, "admin": entry.admin}]
    return _write(data, now_ms)


def delete_account(text: str, access_key: str, now_ms: int) -> str:
    """Remove an account that the file has."""
    data = _read(text)
    data[_ACCOUNTS] = [one for one in data[_ACCOUNTS] if str(one.get("accessKey")) != access_key]
    return _write(data, now_ms)


def put_white_addresses(text: str, addresses: list[str], now_ms: int) -> str | None:
    """Replace the global white list; None if the file has none, which 4.9.3 does not change."""
    data = _read(text)
    if data.get(_WHITE) is None:
        return None
    data[_WHITE] = addresses
    return _write(data, now_ms)


def _check_permission(text: str) -> None:
    items = [item for item in text.split("=") if item]
    if len(items) != 2:
        raise ValueError(
            f"Parse Resource format error for {text}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    if items[1].strip() != "DENY" and not read_permission(items[1]):
        raise ValueError(
            f"Parse resource permission error for {text}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )


def _read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(text) or {}
    return found


def _write(data: dict[str, Any], now_ms: int) -> str:
    versions = read_file("", yaml.safe_dump({_VERSION: data.get(_VERSION)})).data_version or []
    counter = versions[0].counter + 1 if versions else 1
    data[_VERSION] = [{"counter": counter, "timestamp": now_ms}]
    return str(yaml.dump(data, Dumper=_DUMPER, sort_keys=False, allow_unicode=True))
