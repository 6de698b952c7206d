"""docs/requests.md: the request codes, and which program answers each here.

The answered codes come from the request tables of broker and name server. The others are in
`UNANSWERED`, with the reason. A test checks that each code is in exactly one of the two.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from wakelog.broker.processors.table import PROCESSORS
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.protocol.codes import RequestCode as Code

TO_CLIENTS: Final = "a broker sends it to a client; no client sends it to a broker"
NOT_IN_4_9_3: Final = "4.9.3 has no processor for it either, and answers as here"

UNANSWERED: Final[dict[str, tuple[Code, ...]]] = {
    TO_CLIENTS: (
        Code.CHECK_TRANSACTION_STATE,
        Code.NOTIFY_CONSUMER_IDS_CHANGED,
        Code.RESET_CONSUMER_CLIENT_OFFSET,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT,
        Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
    ),
    NOT_IN_4_9_3: (
        Code.QUERY_BROKER_OFFSET,
        Code.GET_TOPIC_CONFIG_LIST,
        Code.GET_TOPIC_NAME_LIST,
        Code.TRIGGER_DELETE_FILES,
        Code.SUSPEND_CONSUMER,
        Code.RESUME_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_BROKER,
        Code.ADJUST_CONSUMER_THREAD_POOL,
        Code.WHO_CONSUME_THE_MESSAGE,
        Code.REGISTER_MESSAGE_FILTER_CLASS,
    ),
}
"""Codes that get code 3, REQUEST_CODE_NOT_SUPPORTED, by the reason."""

HEADS: Final = ("code", "name", "answered by", "or why not")
INTRODUCTION: Final = """\
The request codes of 4.9.3, and which program answers them here. A code that is not answered, or not
known, gets code 3, REQUEST_CODE_NOT_SUPPORTED. The remark says when the code belongs to the name
server, or to the broker.

Code 328 is of 4.9.4, and codes 351 and 352 are of 5.0.0. [Tools](tools.md) of these versions send
them."""


class Row(NamedTuple):
    """One line of the table; the last two are never both empty."""

    code: str
    name: str
    answered_by: str
    why_not: str


def request_rows() -> Iterator[Row]:
    """Return one row for each code, in their order."""
    reasons = {code: reason for reason, codes in UNANSWERED.items() for code in codes}
    for code in Code:
        answering = []
        if code in PROCESSORS:
            answering.append(f"broker, lane {PROCESSORS[code].lane}")
        if code in NAME_SERVER_PROCESSORS:
            answering.append("name server")
        yield Row(str(code.value), code.name, "; ".join(answering) or "-", reasons.get(code, "-"))
