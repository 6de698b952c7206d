"""The accounts of access control, as a broker answers for them.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor#{getBrokerAclConfigVersion,
getBrokerClusterAclConfig} (4.9.3).
"""

from collections.abc import Mapping

import msgspec

from wakelog.client.admin import Admin
from wakelog.client.errors import CHECK_LOG, ClientError
from wakelog.protocol.bodies import AclConfig, DataVersion
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.fastjson import loads
from wakelog.protocol.headers.accounts import GetBrokerAclConfigResponseHeader


async def accounts_at(admin: Admin, address: str) -> AclConfig:
    """Return the accounts and the white list of a broker, without secret keys.

    4.9.3 gives the secret keys to every account; they are dropped here. Raises: ClientError.
    """
    found = await admin.ask_for(AclConfig, address, Code.GET_BROKER_CLUSTER_ACL_CONFIG)
    accounts = [
        msgspec.structs.replace(each, secret_key=None) for each in found.plain_access_configs
    ]
    return AclConfig(found.global_white_addrs, accounts)


async def account_versions(
    admin: Admin, address: str
) -> tuple[GetBrokerAclConfigResponseHeader, Mapping[str, DataVersion]]:
    """Return which broker answers, and by file of accounts how often and when it was changed.

    Raises: ClientError.
    """
    response = await admin.ask(address, Code.GET_BROKER_CLUSTER_ACL_INFO)
    try:
        header = read_header(GetBrokerAclConfigResponseHeader, response.ext_fields)
        versions = loads(header.all_acl_file_version or "{}")
        return header, {
            path: DataVersion(version["timestamp"], version["counter"])
            for path, version in versions.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError, ProtocolError) as error:
        cause = f"the answer of {address} to {Code.GET_BROKER_CLUSTER_ACL_INFO.name}"
        raise ClientError(f"{cause} cannot be read: {error}", CHECK_LOG) from error
