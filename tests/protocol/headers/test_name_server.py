"""Headers of requests to a name server, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.headers import name_server


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "PutKVConfigRequestHeader": "namespace! key! value!",
        "KVConfigKeyRequestHeader": "namespace! key!",
        "GetKVListByNamespaceRequestHeader": "namespace!",
        "RegisterBrokerRequestHeader": (
            "brokerName! brokerAddr! clusterName! haServerAddr! brokerId! compressed bodyCrc32"
            " electionEpoch"
        ),
        "RegisterBrokerResponseHeader": "haServerAddr masterAddr",
        "BrokerIdentityRequestHeader": "brokerName! brokerAddr! clusterName! brokerId!",
        "BrokerNameRequestHeader": "brokerName!",
        "GetTopicsByClusterRequestHeader": "cluster!",
    }
    check_headers(name_server, fields)
