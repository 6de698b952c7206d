"""Every request code has an answer or a reason, and not both."""

import re
from itertools import chain
from pathlib import Path

import pytest

from scripts.requests_document import UNANSWERED, Row, request_rows
from scripts.tested_requests import BESIDE_4_9_3, RULES, by_code
from tests.broker.harness import Harness
from wakelog.broker.processors.table import PROCESSORS
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.protocol.codes import RequestCode, ResponseCode

NOT_ANSWERED = list(chain.from_iterable(UNANSWERED.values()))
TESTS = Path(__file__).resolve().parent
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


def test_every_code_has_tests_of_its_rules_and_beside_4_9_3() -> None:
    assert by_code(RULES).keys() == set(RequestCode)
    assert by_code(BESIDE_4_9_3).keys() == set(RequestCode)


@pytest.mark.parametrize(
    ("path", "codes"),
    [*RULES.items(), *BESIDE_4_9_3.items()],
    ids=lambda x: x if type(x) is str else "",
)
def test_the_tests_have_the_codes_that_they_are_said_to_cover(
    path: str, codes: tuple[int, ...]
) -> None:
    text = (TESTS / path).read_text(encoding="utf-8")
    if path == "test_requests_document.py":
        assert set(codes) <= set(NOT_ANSWERED)
        return
    missing = [x for x in codes if not re.search(rf"\b({x}|{RequestCode(x).name})\b", text)]
    assert not missing


def test_no_code_is_in_two_files() -> None:
    with pytest.raises(ValueError, match="code 7 is in a and in b"):
        by_code({"a": (7,), "b": (7,)})
