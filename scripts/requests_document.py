"""docs/requests.md: the request codes, and which program answers each here.

The answered codes come from the request tables of broker and name server. The others are in
`UNANSWERED`, with the reason. A test checks that each code is in exactly one of the two.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from scripts.tested_requests import BESIDE_4_9_3, RULES, by_code
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

HEADS: Final = ("code", "name", "answered by", "or why not", "tests", "tests beside 4.9.3")
INTRODUCTION: Final = """\
The request codes of 4.9.3, and which program answers them here. A code that is not answered, or not
known, gets code 3, REQUEST_CODE_NOT_SUPPORTED. The remark says when the code belongs to the name
server, or to the broker.

Code 328 is of 4.9.4, and codes 351 and 352 are of 5.0.0. [Tools](tools.md) of these versions send
them; 4.9.3 answers code 3.

The tests of rules run without Java. Those beside 4.9.3 send the same to its own broker or name
server, and compare the answers. Every code of a broker is also sent
[by every kind of sender](../tests/broker/access/test_every_request.py), and as
[hostile frames](../tests/broker/test_hostile_frames.py)."""


class Row(NamedTuple):
    """One line of the table; of `answered_by` and `why_not` one is empty."""

    code: str
    name: str
    answered_by: str
    why_not: str
    tests: str
    tests_beside: str


def request_rows() -> Iterator[Row]:
    """Return one row for each code, in their order."""
    reasons = {code: reason for reason, codes in UNANSWERED.items() for code in codes}
    rules, beside = by_code(RULES), by_code(BESIDE_4_9_3)
    for code in Code:
        answering = []
        if code in PROCESSORS:
            answering.append(f"broker, lane {PROCESSORS[code].lane}")
        if code in NAME_SERVER_PROCESSORS:
            answering.append("name server")
        yield Row(
            str(code.value),
            code.name,
            "; ".join(answering) or "-",
            reasons.get(code, "-"),
            _link(rules.get(code)),
            _link(beside.get(code)),
        )


def _link(path: str | None) -> str:
    """Return a link to a file of tests, a dash if there is none."""
    return "-" if path is None else f"[{PurePosixPath(path).stem}](../tests/{path})"
