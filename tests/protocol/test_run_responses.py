"""RunResponses: the bytes of many responses are those of each."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twins import twins, use_twin
from wakelog.protocol.command import RESPONSE_FLAG
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.run_responses import RunResponses
from wakelog.protocol.send_run import STORED

ID_BEGIN = "7F00000100002A9F"
ROWS = ((1, 0, 1, 12), (-5, 3, (1 << 63) - 1, 1 << 62))
BATCH = ((9, 2, 100, 7), (9, 2, 250, -1), (9, 2, 1 << 40, -1))
FIELDS = {"MSG_REGION": "Default%sRegion\u00e9", "TRACE_ON": "true"}

row = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
)


@pytest.fixture(params=twins(), autouse=True)
def _twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_twin(request.param, monkeypatch)


def responses_of(
    *rows: tuple[int, int, int, int], code: int = 0, region: str = "DefaultRegion"
) -> RunResponses:
    fields = FIELDS | {"MSG_REGION": region}
    stored = b"".join(STORED.pack(*row) for row in rows)
    count = sum(row[3] >= 0 for row in rows)
    return RunResponses(code=code, ext_fields=fields, id_begin=ID_BEGIN, stored=stored, count=count)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 300),
    st.lists(row, max_size=5).filter(lambda rows: not rows or rows[0][3] >= 0),
    st.text(max_size=5),
)
def test_together_they_are_what_each_is(
    code: int, rows: list[tuple[int, int, int, int]], region: str
) -> None:
    try:
        region.encode()
    except UnicodeEncodeError:
        return  # no broker.conf can have it
    responses = responses_of(*rows, code=code, region=region)
    assert responses.count == len(responses.commands())
    assert responses.encode() == b"".join(map(encode_frame, responses.commands()))


@pytest.mark.parametrize(
    "region", ["%s%d%%", "@", "@@ \0", "\\u0000", '"opaque":1234567890', "\u4e2d"]
)
def test_a_region_is_written_as_it_is(region: str) -> None:
    responses = responses_of(*ROWS, region=region)
    assert responses.encode() == b"".join(map(encode_frame, responses.commands()))


def test_each_repeats_its_opaque_and_says_where_its_message_is() -> None:
    responses = responses_of(*ROWS)
    first, second = FrameDecoder().feed(responses.encode())
    assert (first.opaque, first.flag, first.code) == (1, RESPONSE_FLAG, 0)
    assert second.opaque == -5
    assert second.ext_fields == FIELDS | {
        "MSG_REGION": "DefaultRegion",
        "msgId": f"{ID_BEGIN}7FFFFFFFFFFFFFFF",
        "queueId": "3",
        "queueOffset": str(1 << 62),
    }


def test_a_batch_has_one_response_with_the_ids_of_its_messages() -> None:
    responses = responses_of(ROWS[0], *BATCH, ROWS[1])
    assert responses.count == 3
    _, batch, last = FrameDecoder().feed(responses.encode())
    assert batch.opaque == 9
    assert batch.ext_fields["msgId"] == (
        f"{ID_BEGIN}0000000000000064,{ID_BEGIN}00000000000000FA,{ID_BEGIN}0000010000000000"
    )
    assert (batch.ext_fields["queueId"], batch.ext_fields["queueOffset"]) == ("2", "7")
    assert last.opaque == -5


@pytest.mark.parametrize("remark", [None, "not flushed"])
def test_a_refusal_has_no_field_of_a_stored_message(remark: str | None) -> None:
    responses = responses_of(*ROWS, code=1)
    responses.ext_fields, responses.remark = {}, remark
    found = FrameDecoder().feed(responses.encode())
    assert [(each.opaque, each.ext_fields, each.remark) for each in found] == [
        (1, {}, remark),
        (-5, {}, remark),
    ]
