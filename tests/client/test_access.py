"""Accounts of access control, as brokers answer for them."""

import asyncio

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster
from wakelog.client.access import account_versions, accounts_at
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.protocol.bodies import AclConfig, DataVersion, PlainAccessConfig
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

BROKER = "a:10911"
PLACE = {"version": "{}", "brokerName": "a", "brokerAddr": BROKER, "clusterName": "c"}


def admin_of(
    expected: RequestCode, body: bytes = b"", fields: dict[str, str] | None = None
) -> Admin:
    def give(address: str, command: RemotingCommand) -> RemotingCommand:
        assert (address, command.code) == (BROKER, expected)
        return answer(command, ResponseCode.SUCCESS, ext_fields=fields or {}, body=body)

    cluster = FakeCluster()
    cluster.fail = give
    return Admin(cluster, ClientOptions((NAME_SERVER,), retries_max=0))


def test_secret_keys_are_dropped() -> None:
    entry = PlainAccessConfig("account", "its-secret", "10.0.0.*", True, topic_perms=["T=SUB"])
    body = encode_body(AclConfig(["10.1.0.1"], [entry]))
    assert b"its-secret" in body
    admin = admin_of(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, body)
    found = asyncio.run(accounts_at(admin, BROKER))
    assert found.global_white_addrs == ["10.1.0.1"]
    [account] = found.plain_access_configs
    assert (account.access_key, account.secret_key, account.admin) == ("account", None, True)
    assert (account.white_remote_address, account.topic_perms) == ("10.0.0.*", ["T=SUB"])


def test_files_come_with_their_versions() -> None:
    text = '{"/conf/plain_acl.yml":{"counter":3,"timestamp":17}}'
    fields = {**PLACE, "allAclFileVersion": text}
    admin = admin_of(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, fields=fields)
    header, versions = asyncio.run(account_versions(admin, BROKER))
    assert (header.broker_name, header.cluster_name) == ("a", "c")
    assert versions == {"/conf/plain_acl.yml": DataVersion(17, 3)}


@pytest.mark.parametrize("text", ["{", "[1]", '{"file":{"counter":3}}', '{"file":7}'])
def test_versions_that_are_none_are_an_error(text: str) -> None:
    fields = {**PLACE, "allAclFileVersion": text}
    admin = admin_of(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, fields=fields)
    with pytest.raises(ClientError, match="cannot be read"):
        asyncio.run(account_versions(admin, BROKER))
