"""Tests of the properties string, also against what the real broker stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.golden_records import raw_records
from tests.protocol.strategies import names
from wakelog.protocol import sys_flag
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, level_of, read_delay_levels
from wakelog.protocol.names import GROUP_LENGTH_MAX, NAME_LENGTH_MAX, is_legal_group, is_topic
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
from wakelog.protocol.versions import version_name

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


def test_the_transaction_type_is_a_field_of_two_bits() -> None:
    flag = sys_flag.MESSAGE_COMPRESSED | sys_flag.TRANSACTION_PREPARED
    assert sys_flag.transaction_type(flag) == sys_flag.TRANSACTION_PREPARED


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (14, "RW-")]
)
def test_permissions_are_written_as_in_4_9_3(perm: int, text: str) -> None:
    assert sys_flag.permission_text(perm) == text


def test_bits_are_those_on_the_wire() -> None:
    assert (sys_flag.MESSAGE_BORN_HOST_V6, sys_flag.MESSAGE_STORE_HOST_V6) == (0x10, 0x20)
    assert (sys_flag.PULL_COMMIT_OFFSET, sys_flag.PULL_SUSPEND) == (1, 2)
    assert sys_flag.PULL_SUBSCRIPTION == 4
    # 4.9.3's PullSysFlag has the bits 0 to 4.
    for own in (sys_flag.PULL_BY_BYTES, sys_flag.PULL_LARGE):
        assert own & 0x1F == 0 and own < 1 << 31
    assert len({sys_flag.PULL_BY_BYTES, sys_flag.PULL_LARGE}) == 2


@pytest.mark.parametrize(
    ("version", "name"),
    [(0, "V3_0_0"), (37, "V3_0_11"), (121, "V3_4_9"), (398, "V4_9_3_SNAPSHOT"), (399, "V4_9_3"),
     (479, "V5_3_3"), (611, "V5_9_9"), (612, "HIGHER_VERSION"), (9999, "HIGHER_VERSION")],
)  # fmt: skip
def test_a_version_has_the_name_of_4_9_3s_table(version: int, name: str) -> None:
    assert version_name(version) == name


def test_the_default_table_has_18_levels_up_to_two_hours() -> None:
    delays_ms = read_delay_levels(DEFAULT_DELAY_LEVELS)
    assert (len(delays_ms), delays_ms[0], delays_ms[17]) == (18, 1_000, 7_200_000)


@pytest.mark.parametrize("text", ["", "1s  5s", "1", "s", "1w", "-1s"])
def test_a_table_that_no_broker_accepts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="numbers with s, m, h or d"):
        read_delay_levels(text)


@pytest.mark.parametrize(
    ("delay_ms", "level"), [(1, 2), (1_000, 2), (1_001, 1), (5_000, 1), (60_000, 3), (60_001, None)]
)
def test_a_delay_gets_the_shortest_level_that_is_not_under_it(
    delay_ms: int, level: int | None
) -> None:
    assert level_of(delay_ms, read_delay_levels("5s 1s 1m")) == level


def test_a_group_is_longer_than_its_retry_topic_may_be() -> None:
    group = "g" * GROUP_LENGTH_MAX
    assert is_legal_group(group)
    assert not is_topic(f"%RETRY%{group}")
    assert is_topic(f"%RETRY%{group}"[:NAME_LENGTH_MAX])
