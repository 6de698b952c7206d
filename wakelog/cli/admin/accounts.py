"""Commands about the accounts of access control."""

from collections.abc import AsyncIterator
from typing import Any, Final

from wakelog.cli.admin.command import BROKER, BROKER_OR_CLUSTER, CLUSTER, flag, mqadmin
from wakelog.cli.admin.java_text import bean_text, bean_values, plain_time, word
from wakelog.cli.admin.topics import targets
from wakelog.cli.output import Output, Table, Text
from wakelog.client import access
from wakelog.client.admin import Admin
from wakelog.protocol.bodies import AclConfig
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode as Code

VERSION_LAYOUT: Final = "%-16s  %-22s  %-22s  %-20s  %-22s  %-22s"


ACCESS_KEY = flag("a", "accessKey", "Access key of the account.")
MEMBERS = flag("c", "clusterName", "Name of a cluster: all its brokers.", "")


async def _members(admin: Admin, broker: str, cluster: str) -> list[str]:
    """Return the broker that -b names, or the masters and slaves of the cluster that -c names."""
    return [broker] if broker else await admin.members(cluster)


@mqadmin.command(
    "updateAclConfig",
    one_of=BROKER_OR_CLUSTER,
    differs="The account is shown, without its secret key; mqadmin shows an address in memory.",
)
async def update_account(
    admin: Admin,
    key: str = ACCESS_KEY,
    broker: str = BROKER,
    cluster: str = MEMBERS,
    secret: str | None = flag("s", "secretKey", "Its secret key."),
    white: str | None = flag("w", "whiteRemoteAddress", "Addresses that need no signature."),
    other_topics: str | None = flag(
        "i", "defaultTopicPerm", "DENY, PUB, SUB or PUB|SUB, for other topics."
    ),
    other_groups: str | None = flag(
        "u", "defaultGroupPerm", "DENY, PUB, SUB or PUB|SUB, for other groups."
    ),
    topics: str | None = flag("t", "topicPerms", "TOPIC=PERMISSION, `,` between."),
    groups: str | None = flag("g", "groupPerms", "GROUP=PERMISSION, `,` between."),
    is_admin: bool = flag("m", "admin", "true for an admin."),
) -> AsyncIterator[Output]:
    """Create an account of access control, or change it."""
    fields = {
        "accessKey": key,
        "whiteRemoteAddress": white,
        "admin": is_admin,
        "defaultTopicPerm": other_topics,
        "defaultGroupPerm": other_groups,
        "topicPerms": topics,
        "groupPerms": groups,
    }
    for address in await _members(admin, broker, cluster):
        code = Code.UPDATE_AND_CREATE_ACL_CONFIG
        await admin.ask(address, code, {**fields, "secretKey": secret})
        text = f"create or update plain access config to {address} success."
        yield Text(text, {"broker": address, "accessKey": key})
    yield Text(bean_text("PlainAccessConfig", fields), fields)


@mqadmin.command("deleteAccessConfig", one_of=BROKER_OR_CLUSTER)
async def delete_account(
    admin: Admin, key: str = ACCESS_KEY, broker: str = BROKER, cluster: str = MEMBERS
) -> AsyncIterator[Output]:
    """Delete an account of access control."""
    fields = {"accessKey": key}
    for address in await _members(admin, broker, cluster):
        await admin.ask(address, Code.DELETE_ACL_CONFIG, fields)
        text = f"delete plain access config account from {address} success."
        yield Text(text, {"broker": address, **fields})
    yield Text(f"account's accesskey is:{key}", fields)


@mqadmin.command("updateGlobalWhiteAddr", one_of=BROKER_OR_CLUSTER)
async def update_white_addresses(
    admin: Admin,
    white: str = flag("g", "globalWhiteRemoteAddresses", "Addresses, `,` between."),
    broker: str = BROKER,
    cluster: str = MEMBERS,
) -> AsyncIterator[Output]:
    """Replace the addresses that need no account."""
    for address in await _members(admin, broker, cluster):
        fields = {"globalWhiteAddrs": white}
        await admin.ask(address, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)
        text = f"update global white remote addresses to {address} success."
        yield Text(text, {"broker": address, "globalWhiteRemoteAddresses": white})


@mqadmin.command("clusterAclConfigVersion", one_of=BROKER_OR_CLUSTER)
async def account_versions(
    admin: Admin, broker: str = BROKER, cluster: str = CLUSTER
) -> AsyncIterator[Output]:
    """Show how often the files of accounts were changed."""
    rows: list[tuple[str, ...]] = []
    for address in await targets(admin, broker, cluster):
        header, versions = await access.account_versions(admin, address)
        place = header.cluster_name, header.broker_name, header.broker_addr
        for path, found in versions.items():
            rows.append((*place, path, str(found.counter), plain_time(found.timestamp)))
    heads = ["Cluster Name", "Broker Name", "Broker Addr", "AclFilePath"]
    heads += ["AclConfigVersionNum", "AclLastUpdateTime"]
    yield Table(VERSION_LAYOUT, heads, rows, shows_heads=not broker)
    kind = "broker" if broker else "cluster"
    yield Text(f"get {kind}'s plain access config version success.", {"files": len(rows)})


@mqadmin.command("getAccessConfigSubCommand", one_of=BROKER_OR_CLUSTER)
async def show_accounts(
    admin: Admin, broker: str = BROKER, cluster: str = CLUSTER
) -> AsyncIterator[Output]:
    """Show the accounts of access control."""
    for address in await targets(admin, broker, cluster):
        # Secret keys come only if the broker gives them, which needs an admin.
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
