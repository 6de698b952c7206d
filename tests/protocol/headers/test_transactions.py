"""Headers of requests about transactions, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.headers import transactions


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "EndTransactionRequestHeader": (
            "producerGroup! tranStateTableOffset! commitLogOffset! commitOrRollback! "
            "fromTransactionCheck msgId transactionId"
        ),
        "CheckTransactionStateRequestHeader": (
            "tranStateTableOffset! commitLogOffset! msgId transactionId offsetMsgId"
        ),
        "ResumeCheckHalfMessageRequestHeader": "msgId",
    }
    check_headers(transactions, fields)
