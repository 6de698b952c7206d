"""Headers about accounts, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.headers import accounts


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "CreateAccessConfigRequestHeader": (
            "accessKey secretKey whiteRemoteAddress admin defaultTopicPerm defaultGroupPerm "
            "topicPerms groupPerms"
        ),
        "DeleteAccessConfigRequestHeader": "accessKey",
        "UpdateGlobalWhiteAddrsConfigRequestHeader": "globalWhiteAddrs",
        "GetBrokerAclConfigResponseHeader": (
            "version! allAclFileVersion brokerName! brokerAddr! clusterName!"
        ),
    }
    check_headers(accounts, fields)


def test_a_secret_key_is_not_shown() -> None:
    header = accounts.CreateAccessConfigRequestHeader(access_key="who", secret_key="hush")
    assert "who" in repr(header) and "hush" not in repr(header)
