"""Headers about offsets, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.headers import offsets


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "QueueRequestHeader": "topic! queueId!",
        "SearchOffsetRequestHeader": "topic! queueId! timestamp!",
        "QueryConsumerOffsetRequestHeader": "consumerGroup! topic! queueId!",
        "UpdateConsumerOffsetRequestHeader": "consumerGroup! topic! queueId! commitOffset!",
        "CloneGroupOffsetRequestHeader": "srcGroup! destGroup! topic offline",
        "OffsetResponseHeader": "offset!",
    }
    check_headers(offsets, fields)
