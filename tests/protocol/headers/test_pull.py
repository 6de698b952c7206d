"""Headers of pulls and queries, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.headers import pull


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "PullMessageRequestHeader": (
            "consumerGroup! topic! queueId! queueOffset! maxMsgNums! sysFlag! commitOffset "
            "suspendTimeoutMillis subscription subVersion expressionType"
        ),
        "PullMessageResponseHeader": "suggestWhichBrokerId! nextBeginOffset! minOffset! maxOffset!",
        "QueryMessageRequestHeader": (
            "topic! key! maxNum! beginTimestamp! endTimestamp! _UNIQUE_KEY_QUERY"
        ),
        "ViewMessageRequestHeader": "offset!",
    }
    check_headers(pull, fields)
