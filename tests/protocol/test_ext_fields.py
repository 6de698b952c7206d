"""Tests of reading and writing extFields, over a header that has a field of every kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import ext_fields, int32, int64, texts
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import (
    Header,
    Int32,
    Int64,
    read_header,
    to_ext_fields,
)


class ExampleHeader(Header, frozen=True, kw_only=True):
    topic_name: str
    queue_id: Int32
    queue_offset: Int64
    is_order: bool = False
    max_times: Int32 | None = None
    commit_offset: Int64 | None = None
    sub_string: str | None = None


REQUIRED = {"topicName": "T", "queueId": "1", "queueOffset": "2"}
SIMPLE = ExampleHeader(topic_name="T", queue_id=1, queue_offset=2)


@given(
    st.builds(
        ExampleHeader,
        topic_name=texts,
        queue_id=int32,
        queue_offset=int64,
        is_order=st.booleans(),
        max_times=st.none() | int32,
        commit_offset=st.none() | int64,
        sub_string=st.none() | texts,
    )
)
def test_a_header_comes_back(header: ExampleHeader) -> None:
    assert read_header(ExampleHeader, to_ext_fields(header)) == header


def test_values_travel_as_java_writes_them() -> None:
    header = ExampleHeader(topic_name="T", queue_id=-1, queue_offset=2, is_order=True)
    assert to_ext_fields(header) == {
        "topicName": "T",
        "queueId": "-1",
        "queueOffset": "2",
        "isOrder": "true",
    }


def test_unknown_fields_are_ignored() -> None:
    assert read_header(ExampleHeader, {**REQUIRED, "x": "y"}) == SIMPLE


@pytest.mark.parametrize("name", list(REQUIRED))
def test_an_absent_required_field_is_named_in_upstreams_words(name: str) -> None:
    present = {key: value for key, value in REQUIRED.items() if key != name}
    with pytest.raises(RemoteProtocolError) as refused:
        read_header(ExampleHeader, present)
    assert refused.value.code == 1
    assert refused.value.remark == (
        "org.apache.rocketmq.remoting.exception.RemotingCommandException: "
        f"the custom field <{name}> is null"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("queueId", "x"), ("queueId", ""), ("queueId", "2147483648"), ("queueOffset", str(2**63))],
)
def test_a_required_number_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        read_header(ExampleHeader, {**REQUIRED, name: value})
    expected = f'java.lang.NumberFormatException: For input string: "{value}"'
    assert refused.value.remark == expected


@pytest.mark.parametrize(
    ("name", "value"), [("maxTimes", "x"), ("maxTimes", "99999999999"), ("commitOffset", "")]
)
def test_an_optional_number_that_is_none_counts_as_absent(name: str, value: str) -> None:
    assert read_header(ExampleHeader, {**REQUIRED, name: value}) == SIMPLE


@pytest.mark.parametrize(
    ("value", "read"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)]
)
def test_a_boolean_is_true_or_not(value: str, read: bool) -> None:
    assert read_header(ExampleHeader, {**REQUIRED, "isOrder": value}).is_order is read


def test_numbers_may_have_a_sign_and_zeros_as_in_java() -> None:
    fields = {**REQUIRED, "queueId": "+0001", "queueOffset": "0002"}
    assert read_header(ExampleHeader, fields) == SIMPLE


@given(ext_fields | st.dictionaries(st.sampled_from([*REQUIRED, "isOrder", "maxTimes"]), texts))
def test_garbage_raises_nothing_else(fields: dict[str, str]) -> None:
    try:
        header = read_header(ExampleHeader, fields)
    except RemoteProtocolError as error:
        assert error.code == 1
    else:
        assert set(REQUIRED) <= set(fields) and header.topic_name == fields["topicName"]
