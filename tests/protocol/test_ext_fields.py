"""Tests of reading and writing extFields, over a header that has a field of every kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import ext_fields, int32, int64, texts
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
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


def test_the_abstract_error_refuses_to_be_raised() -> None:
    with pytest.raises(TypeError):
        raise ProtocolError("whose fault?")


def test_both_kinds_are_protocol_errors_and_not_each_other() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(RemoteProtocolError, LocalProtocolError)


def test_a_remote_error_carries_the_answer() -> None:
    error = RemoteProtocolError(1, "the custom field <topic> is null")
    assert (error.code, error.remark) == (1, "the custom field <topic> is null")
    assert str(error) == "the custom field <topic> is null (response code 1)"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", ()),
        ("h:1; [::1]:65535;", ("h:1", "[::1]:65535")),
        ("h", None),
        ("h:0;g:1", None),
        ("h:65536", None),
        ("h:1,g:1", None),
    ],
)
def test_addresses_have_ports_and_semicolons(text: str, addresses: tuple[str, ...] | None) -> None:
    if addresses is None:
        with pytest.raises(ValueError, match="HOST:PORT"):
            read_name_servers(text)
    else:
        assert read_name_servers(text) == addresses
