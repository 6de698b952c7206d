"""Commands about the accounts of access control."""

from collections.abc import AsyncIterator
from typing import Any, Final

from wakelog.cli.admin.command import (
    BROKER,
    CLUSTER,
    Command,
    Flags,
    Output,
    Table,
    Text,
    may,
    need,
)
from wakelog.cli.admin.java_text import bean_text, bean_values, plain_time, word
from wakelog.cli.admin.topics import targets
from wakelog.client import access
from wakelog.client.admin import Admin
from wakelog.protocol.bodies import AclConfig
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode as Code

VERSION_LAYOUT: Final = "%-16s  %-22s  %-22s  %-20s  %-22s  %-22s"


async def _members(admin: Admin, flags: Flags) -> list[str]:
    """Return the broker that -b names, or the masters and slaves of the cluster that -c names."""
    return [flags["b"]] if "b" in flags else await admin.members(flags["c"])


async def update_account(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Create an account, or change it; the secret key is not shown."""
    fields = {
        "accessKey": flags["a"],
        "whiteRemoteAddress": flags.get("w"),
        "admin": flags.truth("m"),
        "defaultTopicPerm": flags.get("i"),
        "defaultGroupPerm": flags.get("u"),
        "topicPerms": flags.get("t"),
        "groupPerms": flags.get("g"),
    }
    for address in await _members(admin, flags):
        code = Code.UPDATE_AND_CREATE_ACL_CONFIG
        await admin.ask(address, code, {**fields, "secretKey": flags.get("s")})
        text = f"create or update plain access config to {address} success."
        yield Text(text, {"broker": address, "accessKey": flags["a"]})
    yield Text(bean_text("PlainAccessConfig", fields), fields)


async def delete_account(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Delete an account."""
    fields = {"accessKey": flags["a"]}
    for address in await _members(admin, flags):
        await admin.ask(address, Code.DELETE_ACL_CONFIG, fields)
        text = f"delete plain access config account from {address} success."
        yield Text(text, {"broker": address, **fields})
    yield Text(f"account's accesskey is:{flags['a']}", fields)


async def update_white_addresses(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Replace the addresses that need no account."""
    for address in await _members(admin, flags):
        fields = {"globalWhiteAddrs": flags["g"]}
        await admin.ask(address, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)
        text = f"update global white remote addresses to {address} success."
        yield Text(text, {"broker": address, "globalWhiteRemoteAddresses": flags["g"]})


async def account_versions(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show how often each file of accounts was changed, and when."""
    rows: list[tuple[str, ...]] = []
    for address in await targets(admin, flags):
        header, versions = await access.account_versions(admin, address)
        place = header.cluster_name, header.broker_name, header.broker_addr
        for path, found in versions.items():
            rows.append((*place, path, str(found.counter), plain_time(found.timestamp)))
    heads = ["Cluster Name", "Broker Name", "Broker Addr", "AclFilePath"]
    heads += ["AclConfigVersionNum", "AclLastUpdateTime"]
    yield Table(VERSION_LAYOUT, heads, rows, shows_heads="c" in flags)
    kind = "broker" if "b" in flags else "cluster"
    yield Text(f"get {kind}'s plain access config version success.", {"files": len(rows)})


async def show_accounts(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Show the accounts; secret keys only if the broker gives them, which needs an admin."""
    for address in await targets(admin, flags):
        response = await admin.ask(address, Code.GET_BROKER_CLUSTER_ACL_CONFIG)
        found = decode_response(AclConfig, response.body)
        white = f"[{', '.join(found.global_white_addrs)}]"
        lines = ["", f"{'globalWhiteRemoteAddresses':<20}: {white}", "", "accounts:"]
        accounts = [bean_values(account) for account in found.plain_access_configs]
        for account in accounts:
            lines += [f"  {name:<18}: {_field_text(value)}" for name, value in account.items()]
            lines.append("")
        value = {"globalWhiteRemoteAddresses": found.global_white_addrs, "accounts": accounts}
        yield Text("\n".join(lines), {"broker": address, **value})


def _field_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return "" if value is None else word(value)


ACCESS_KEY: Final = need("a", "accessKey", "Access key of the account.")
MEMBERS: Final = may("c", "clusterName", "Name of a cluster: all its brokers.")

COMMANDS: Final = (
    Command(
        "updateAclConfig",
        "Create an account of access control, or change it.",
        update_account,
        (
            BROKER,
            MEMBERS,
            ACCESS_KEY,
            may("s", "secretKey", "Its secret key."),
            may("w", "whiteRemoteAddress", "Addresses that need no signature."),
            may("i", "defaultTopicPerm", "DENY, PUB, SUB or PUB|SUB, for other topics."),
            may("u", "defaultGroupPerm", "DENY, PUB, SUB or PUB|SUB, for other groups."),
            may("t", "topicPerms", "TOPIC=PERMISSION, `,` between."),
            may("g", "groupPerms", "GROUP=PERMISSION, `,` between."),
            may("m", "admin", "true for an admin.  [default: false]"),
        ),
        one_of="bc",
        differs="The account is shown, without its secret key; mqadmin shows an address in memory.",
    ),
    Command(
        "deleteAccessConfig",
        "Delete an account of access control.",
        delete_account,
        (BROKER, MEMBERS, ACCESS_KEY),
        one_of="bc",
    ),
    Command(
        "clusterAclConfigVersion",
        "Show how often the files of accounts were changed.",
        account_versions,
        (BROKER, CLUSTER),
        one_of="bc",
    ),
    Command(
        "updateGlobalWhiteAddr",
        "Replace the addresses that need no account.",
        update_white_addresses,
        (
            BROKER,
            MEMBERS,
            need("g", "globalWhiteRemoteAddresses", "Addresses, `,` between."),
        ),
        one_of="bc",
    ),
    Command(
        "getAccessConfigSubCommand",
        "Show the accounts of access control.",
        show_accounts,
        (BROKER, CLUSTER),
        one_of="bc",
    ),
)
