"""Commands about accounts, against a running cluster with access control."""

import pytest

from tests.cli.admin.conftest import SIGNED, AdminCommand
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_an_account_is_made_shown_and_deleted(admin: AdminCommand) -> None:
    line = "updateAclConfig -c DefaultCluster -a new-account -s its-secret -t T=PUB,U=DENY"
    made = admin(line, *SIGNED)
    assert made[0] == f"create or update plain access config to {admin.cluster.broker} success."
    assert "topicPerms=T=PUB,U=DENY" in made[1]
    assert "its-secret" not in made[1]
    [found] = admin.json(f"getAccessConfigSubCommand -b {admin.cluster.broker}", *SIGNED)
    accounts = {account["accessKey"]: account for account in found["accounts"]}
    assert accounts["new-account"]["secretKey"] == "its-secret"
    assert accounts["new-account"]["topicPerms"] == ["T=PUB", "U=DENY"]
    shown = admin(f"getAccessConfigSubCommand -b {admin.cluster.broker}")
    assert "  topicPerms        : [T=PUB, U=DENY]" in shown
    assert "its-secret" not in "\n".join(shown)  # not signed by an admin
    deleted = admin("deleteAccessConfig -c DefaultCluster -a new-account", *SIGNED)
    assert deleted[-1] == "account's accesskey is:new-account"
    with pytest.raises(ClientError, match="new-account"):
        admin(f"deleteAccessConfig -b {admin.cluster.broker} -a new-account", *SIGNED)


def test_the_white_list_is_replaced_and_its_version_counts(admin: AdminCommand) -> None:
    def count() -> int:
        *rows, last = admin.json("clusterAclConfigVersion -c DefaultCluster")
        assert last == {"files": 1}
        return int(rows[0]["aclConfigVersionNum"])

    before = count()
    line = f"updateGlobalWhiteAddr -b {admin.cluster.broker} -g 127.0.0.1,10.0.0.*"
    assert admin(line, *SIGNED)[0].startswith("update global white remote addresses to ")
    assert count() == before + 1
    shown = admin(f"getAccessConfigSubCommand -b {admin.cluster.broker}")
    assert shown[1] == "globalWhiteRemoteAddresses: [127.0.0.1, 10.0.0.*]"
    versions = admin(f"clusterAclConfigVersion -b {admin.cluster.broker}")
    assert versions[-1] == "get broker's plain access config version success."
