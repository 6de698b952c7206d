"""RunResponses: the bytes of many responses are those of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.protocol.command import RESPONSE_FLAG
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.run_responses import RunResponses

STORED = [(1, 0, "7F000001", 12), (-5, 3, "7F000002", 1 << 62)]
FIELDS = {"MSG_REGION": "Default%sRegion\u00e9", "TRACE_ON": "true"}

stored = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 100),
    st.text("0123456789ABCDEF", min_size=32, max_size=56),
    st.integers(0, 2**63 - 1),
)


@given(st.integers(0, 300), st.lists(stored, max_size=5))
def test_together_they_are_what_each_is(code: int, given: list[tuple[int, int, str, int]]) -> None:
    responses = RunResponses(code=code, ext_fields=FIELDS, stored=given)
    assert responses.encode() == b"".join(map(encode_frame, responses.commands()))


def test_each_repeats_its_opaque_and_says_where_its_message_is() -> None:
    responses = RunResponses(code=0, ext_fields=FIELDS, stored=STORED)
    first, second = FrameDecoder().feed(responses.encode())
    assert (first.opaque, first.flag, first.code) == (1, RESPONSE_FLAG, 0)
    assert second.opaque == -5
    assert second.ext_fields == FIELDS | {
        "msgId": "7F000002",
        "queueId": "3",
        "queueOffset": str(1 << 62),
    }


@pytest.mark.parametrize("remark", [None, "not flushed"])
def test_a_refusal_has_no_field_of_a_stored_message(remark: str | None) -> None:
    responses = RunResponses(code=1, ext_fields=FIELDS, stored=STORED)
    responses.ext_fields, responses.remark = {}, remark
    found = FrameDecoder().feed(responses.encode())
    assert [(each.opaque, each.ext_fields, each.remark) for each in found] == [
        (1, {}, remark),
        (-5, {}, remark),
    ]
