"""Every request code has an answer or a reason, and not both."""

from itertools import chain

import pytest

from scripts.requests_document import UNANSWERED, Row, request_rows
from tests.broker.harness import Harness
from wakelog.broker.processors.table import PROCESSORS
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.protocol.codes import RequestCode, ResponseCode

NOT_ANSWERED = list(chain.from_iterable(UNANSWERED.values()))
ANSWERED = PROCESSORS.keys() | NAME_SERVER_PROCESSORS.keys()


def test_every_code_is_answered_or_has_one_reason() -> None:
    assert len(NOT_ANSWERED) == len(set(NOT_ANSWERED))
    assert not ANSWERED & set(NOT_ANSWERED)
    assert ANSWERED | set(NOT_ANSWERED) == set(RequestCode)


@pytest.mark.parametrize("row", list(request_rows()), ids=lambda row: row.name)
def test_a_row_names_the_processor_or_the_reason(row: Row) -> None:
    assert (row.answered_by == "-") is not (row.why_not == "-")


@pytest.mark.parametrize("code", NOT_ANSWERED, ids=lambda code: code.name)
def test_a_code_that_is_not_answered_gets_code_3(code: RequestCode) -> None:
    answer = Harness().ask(code)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert code.name in (answer.remark or "")
