"""The accounts of a cluster, read from brokers whose answers are given."""

import asyncio

from tests.client.clusters import NAME_SERVER, FakeCluster
from wakelog.client.admin import Admin
from wakelog.client.options import ClientOptions
from wakelog.console.cluster_accounts import BrokerAccounts, read_accounts
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.protocol.bodies import AclConfig, DataVersion, PlainAccessConfig
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

VERSIONS = {
    "version": "{}",
    "brokerName": "a",
    "brokerAddr": "a:1",
    "clusterName": "c",
    "allAclFileVersion": '{"plain_acl.yml":{"counter":3,"timestamp":17}}',
}


def read(
    settings: dict[str, str], refused: Code | None = None
) -> tuple[BrokerAccounts, list[Code]]:
    asked: list[Code] = []

    def give(address: str, command: RemotingCommand) -> RemotingCommand:
        code = Code(command.code)
        asked.append(code)
        if code is refused:
            return answer(command, ResponseCode.SYSTEM_ERROR, "refused")
        account = PlainAccessConfig("account", "its-secret")
        body = encode_body(AclConfig(["10.0.0.1"], [account]))
        return answer(command, ResponseCode.SUCCESS, ext_fields=VERSIONS, body=body)

    async def main() -> list[BrokerAccounts]:
        cluster = FakeCluster()
        cluster.fail = give
        admin = Admin(cluster, ClientOptions((NAME_SERVER,), retries_max=0))
        broker = BrokerReading("c", "a", 0, "a:1", {"wakelogVersion": "1"}, settings=settings)
        return await read_accounts(admin, ClusterReading(1, brokers=[broker]))

    [found] = asyncio.run(main())
    return found, asked


def test_a_broker_with_access_control_is_read_without_its_secrets() -> None:
    found, _ = read({"aclEnable": "true"})
    [account] = found.accounts
    assert (account.access_key, account.secret_key) == ("account", None)
    assert found.white_addresses == ["10.0.0.1"]
    assert found.versions == {"plain_acl.yml": DataVersion(17, 3)}
    assert (found.is_own, found.is_on, found.failure) == (True, True, None)


def test_a_broker_without_it_is_not_asked() -> None:
    for settings, is_on in (({"aclEnable": "false"}, False), ({}, None)):
        found, asked = read(settings)
        assert (found.is_on, asked) == (is_on, [])


def test_a_refusal_is_kept_beside_what_was_read() -> None:
    found, _ = read({"aclEnable": "true"}, Code.GET_BROKER_CLUSTER_ACL_INFO)
    assert found.failure is not None and len(found.accounts) == 1
    found, _ = read({"aclEnable": "true"}, Code.GET_BROKER_CLUSTER_ACL_CONFIG)
    assert found.failure is not None and not found.accounts
