"""Headers about groups and clients, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.headers import clients


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "ConsumerGroupRequestHeader": "consumerGroup!",
        "UnregisterClientRequestHeader": "clientID producerGroup consumerGroup",
        "DeleteSubscriptionGroupRequestHeader": "groupName! removeOffset",
        "GetSubscriptionGroupConfigRequestHeader": "group!",
        "RegisterFilterServerRequestHeader": "filterServerAddr!",
        "ProducerGroupRequestHeader": "producerGroup!",
        "ResetOffsetRequestHeader": "topic! group! timestamp! isForce",
        "GetConsumerStatusRequestHeader": "topic! group! clientAddr",
        "ConsumerClientRequestHeader": "consumerGroup! clientId msgId",
    }
    check_headers(clients, fields)
