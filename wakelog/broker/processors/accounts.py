"""Codes 50 to 54: change and show the accounts of access control.

A change is written to the file of the account, or to plain_acl.yml for a new one. It is durable and
in force when it is answered with success.

Secret keys are shown to an admin's signature only. 4.9.3 shows them to every account
(CVE-2024-23321), and lets every account make itself an admin.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateAndCreateAccessConfig,
deleteAccessConfig, updateGlobalWhiteAddrsConfig, getBrokerAclConfigVersion,
getBrokerClusterAclConfig (4.9.3).
"""

from functools import partial
from typing import Any

import msgspec

from wakelog.broker.access.accounts import AccessFileRefused, AccessTable, Version
from wakelog.broker.access.control import Edit
from wakelog.broker.access.edits import delete_account as without_account
from wakelog.broker.access.edits import put_account, put_white_addresses
from wakelog.broker.decision import Outcome
from wakelog.broker.effects import InPool, Work, WorkKind, make_body
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import PlainAccessConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.accounts import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)

ACCESS_IS_OFF = "this broker has no access control; start it with aclEnable=true"


def update_account(
    state: BrokerState, request: Request[CreateAccessConfigRequestHeader]
) -> Outcome | Work:
    """Create or change an account (code 50)."""
    header = request.header
    entry = PlainAccessConfig(
        access_key=header.access_key,
        secret_key=header.secret_key,
        white_remote_address=header.white_remote_address,
        admin=header.admin,
        default_topic_perm=header.default_topic_perm,
        default_group_perm=header.default_group_perm,
        topic_perms=_split(header.topic_perms),
        group_perms=_split(header.group_perms),
    )
    edit = partial(put_account, entry=entry, now_ms=request.now_ms)
    code = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    name = _shown_field(header.access_key)
    failed = f"The accesskey[{name}] corresponding to accessConfig has been updated failed."
    return _change(state, request, header.access_key, edit, code, failed)


def delete_account(
    state: BrokerState, request: Request[DeleteAccessConfigRequestHeader]
) -> Outcome | Work:
    """Delete an account (code 51)."""
    key = request.header.access_key
    code = ResponseCode.DELETE_ACL_CONFIG_FAILED
    name = _shown_field(key)
    failed = f"The accesskey[{name}] corresponding to accessConfig has been deleted failed."
    if state.access is not None and (key is None or state.access.table.find(key) is None):
        return request.refusal(code, failed)
    edit = partial(without_account, access_key=key or "", now_ms=request.now_ms)
    return _change(state, request, key, edit, code, failed)


def update_white_addresses(
    state: BrokerState, request: Request[UpdateGlobalWhiteAddrsConfigRequestHeader]
) -> Outcome | Work:
    """Replace the global white list of plain_acl.yml (code 53)."""
    given = request.header.global_white_addrs
    code = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
    failed = f"The globalWhiteAddresses[{_shown_field(given)}] has been updated failed."
    if state.access is not None and given is None:
        return request.refusal(code, failed)
    edit = partial(put_white_addresses, addresses=_split(given) or [], now_ms=request.now_ms)
    return _change(state, request, None, edit, code, failed)


def get_versions(state: BrokerState, request: Request[None]) -> Outcome | Work:
    """Return how often each file was changed (code 52)."""
    if state.access is None:
        return request.refusal(ResponseCode.SYSTEM_ERROR, ACCESS_IS_OFF)
    table = state.access.table
    versions = {
        path: msgspec.to_builtins((file.data_version or [Version()])[0])
        for path, file in table.files.items()
    }
    main = versions.get(state.access.main_file, msgspec.to_builtins(Version()))
    header = GetBrokerAclConfigResponseHeader(
        version=fastjson.dumps(main).decode(),
        all_acl_file_version=fastjson.dumps(versions).decode(),
        broker_name=state.config.broker_name,
        broker_addr=state.config.broker_addr,
        cluster_name=state.config.broker_cluster_name,
    )
    return request.success(to_ext_fields(header))


def get_accounts(state: BrokerState, request: Request[None]) -> Outcome | Work:
    """Return the accounts, to an admin with their secret keys (code 54)."""
    access = state.access
    if access is None:
        return request.refusal(ResponseCode.SYSTEM_ERROR, ACCESS_IS_OFF)
    with_secrets = access.is_signed_by_admin(request.command)
    work = partial(_encode_accounts, access.table, with_secrets)
    return make_body(request, work, WorkKind.ENCODE)


def _encode_accounts(table: AccessTable, with_secrets: bool) -> bytes:
    accounts, white = [], []
    for path, file in table.files.items():
        white += file.global_white_remote_addresses or []
        accounts += [
            _shown(entry, with_secrets)
            for entry in file.accounts or ()
            if table.path_of(entry.access_key or "") == path
        ]
    return fastjson.dumps({"globalWhiteAddrs": white, "plainAccessConfigs": accounts})


def _shown(entry: PlainAccessConfig, with_secrets: bool) -> dict[str, Any]:
    found = {**msgspec.to_builtins(entry), "admin": entry.admin}
    return {
        name: value
        for name, value in sorted(found.items())
        if value is not None and (with_secrets or name != "secretKey")
    }


def _change(
    state: BrokerState,
    request: Request[Any],
    access_key: str | None,
    edit: Edit,
    code: ResponseCode,
    failed: str,
) -> Work:
    """Edit the file of an account, or the main one, in the pool; one change after the other.

    edit: returns the new text, None if it cannot be made.
    """
    access = state.access
    if access is None:
        return request.refusal(code, ACCESS_IS_OFF)
    path = access.table.path_of(access_key) if access_key is not None else None

    try:
        table = yield InPool(partial(access.change, path, edit), WorkKind.ENCODE)
    except (AccessFileRefused, ValueError, OSError) as error:
        return request.refusal(code, str(error))
    if table is None:
        return request.refusal(code, failed)
    access.replace(table)
    return request.success()


def _shown_field(value: str | None) -> str:
    """Write a header field into a remark as Java does."""
    return "null" if value is None else value


def _split(text: str | None) -> list[str] | None:
    """Split at commas as Java does: empty parts at the end are left out."""
    return None if text is None else text.rstrip(",").split(",")
