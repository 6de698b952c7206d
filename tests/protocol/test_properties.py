"""Tests of the properties string, also against what the real broker stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.golden_records import raw_records
from tests.protocol.strategies import names
from wakelog.protocol.properties import (
    CLUSTER,
    FORM_NAMES_MAX,
    WAIT,
    decode_properties,
    encode_properties,
    read_send_properties,
    split_keys,
)
from wakelog.protocol.record import decode_record

SINGLE_SENDS = ["basic", "crash", "delay_tx_retry", "filter_ext", "multi_dispatch", "transient"]


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        (None, {}),
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),  # a separator after the last, as the Go client writes it
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("a\x01\x02c\x01d", {"c": "d"}),  # an empty value
        ("\x01b\x02c\x01d", {"c": "d"}),  # an empty name
        ("ab\x02c\x01d", {"c": "d"}),  # no separator inside: a's would be c's
        ("abc", {}),
        ("a\x01b\x01c", {"a": "b\x01c"}),  # only the first separator counts
        ("a\x01b\x02a\x01c", {"a": "c"}),  # the last value counts
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
    ],
)
def test_a_properties_string_is_read_as_4_9_3_reads_it(
    text: str | None, properties: dict[str, str]
) -> None:
    assert decode_properties(text) == properties


def test_an_empty_value_is_written_although_it_would_not_be_read() -> None:
    assert encode_properties({"a": ""}) == "a\x01"


def test_names_are_written_in_hash_map_order() -> None:
    assert encode_properties({"o": "1", "p": "2", "a": "3"}) == "p\x012\x02a\x013\x02o\x011"


@given(st.dictionaries(names, names))
def test_what_is_written_is_read_again(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@given(st.text("ab\x01\x02"))
def test_a_rewritten_string_holds_what_was_read_and_the_cluster(text: str) -> None:
    rewritten = read_send_properties(text, "c1")[1]
    assert decode_properties(rewritten) == {**decode_properties(text), CLUSTER: "c1"}
    assert not rewritten.endswith("\x02")


def test_a_single_send_loses_wait_and_gets_the_cluster() -> None:
    text = "UNIQ_KEY\x017F00000100\x02WAIT\x01true\x02TAGS\x01TagA\x02empty\x01"
    properties, rewritten = read_send_properties(text, "DefaultCluster")
    assert rewritten == "UNIQ_KEY\x017F00000100\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
    assert properties[WAIT] == "true", "it is obeyed although it is not stored"
    assert properties[CLUSTER] == "DefaultCluster"


def test_a_cluster_that_the_producer_named_is_replaced() -> None:
    assert read_send_properties("CLUSTER\x01mine", "theirs")[1] == "CLUSTER\x01theirs"


def test_wait_counts_for_the_growth_of_the_table_before_it_goes() -> None:
    # Eleven names and CLUSTER are twelve and fit 16 buckets; with WAIT the table has 32, in
    # which P has bucket 16 instead of 0 and comes after the others.
    letters = "ABCDEFGHIJ"
    text = "\x02".join(f"{name}\x011" for name in letters + "P")
    assert read_send_properties(text, "c")[1].startswith("P\x01")
    assert not read_send_properties(text + "\x02WAIT\x01true", "c")[1].startswith("P\x01")


@pytest.mark.golden
@pytest.mark.parametrize("fixture", SINGLE_SENDS)
def test_the_real_brokers_order_comes_out_again(fixture: str) -> None:
    checked = 0
    for raw in raw_records(fixture):
        text = decode_record(raw).properties_text
        properties = decode_properties(text)
        assert encode_properties(properties) == text
        checked += len(properties) > 2
    assert checked > 100


@pytest.mark.golden
def test_a_send_is_rewritten_to_what_the_real_broker_stored() -> None:
    for raw in raw_records("basic"):
        stored = decode_record(raw).properties_text
        properties = decode_properties(stored)
        del properties[CLUSTER]
        # Names of one bucket keep the order in which they were sent, so that order is kept.
        pairs = [(WAIT, "true"), *properties.items(), ("gone", "")]
        sent = "\x02".join(f"{name}\x01{value}" for name, value in pairs)
        assert read_send_properties(sent, "DefaultCluster")[1] == stored


def test_keys_are_split_at_spaces() -> None:
    assert split_keys("k1  k2 ") == ["k1", "k2"]
    assert split_keys("") == []


@pytest.mark.parametrize("count", [1, FORM_NAMES_MAX + 1])
def test_a_send_stores_signs_of_a_format_as_they_are(count: int) -> None:
    sent = {f"%s%{number}": f"100 %(x)s {number}" for number in range(count)}
    properties, text = read_send_properties(encode_properties({**sent, WAIT: "true"}), "c")
    assert decode_properties(text) == {**sent, CLUSTER: "c"}
    assert properties == {**sent, CLUSTER: "c", WAIT: "true"}
