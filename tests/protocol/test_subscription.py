"""Tests of subscriptions, also against what the real broker gave to tag pulls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_stores import read_manifest
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.subscription import build_subscription, is_tag_type, matches
from wakelog.protocol.tags import tags_code


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_everything(expression: str | None) -> None:
    subscription = build_subscription("T", expression, sub_version=5)
    assert subscription == SubscriptionData(topic="T", sub_string="*", sub_version=5)
    assert matches(subscription, 12345)


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", {"TagA"}),
        ("TagA||TagB", {"TagA", "TagB"}),
        (" TagA ||\tTagB\x01|| ", {"TagA", "TagB"}),
        ("||TagA||||TagA", {"TagA"}),
        ("with space", {"with space"}),
        ("a|b", {"a|b"}),
        (" ", set()),
        ("标签\u3000", {"标签\u3000"}),  # Java's trim stops at the ASCII space
    ],
)
def test_an_expression_lists_tags(expression: str, tags: set[str]) -> None:
    subscription = build_subscription("T", expression, "TAG")
    assert subscription.sub_string == expression
    assert subscription.tags_set == tags
    assert subscription.code_set == {tags_code(tag) for tag in tags}


@pytest.mark.parametrize(
    ("expression", "expression_type"), [("||", "TAG"), ("||||", None), ("", "SQL92"), (None, "X")]
)
def test_an_expression_of_nothing_is_refused(
    expression: str | None, expression_type: str | None
) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        build_subscription("T", expression, expression_type)
    assert refused.value.code == 23


def test_another_type_is_kept_and_matches_every_entry() -> None:
    subscription = build_subscription("T", "a > 5", "SQL92")
    assert (subscription.expression_type, subscription.sub_string) == ("SQL92", "a > 5")
    assert matches(subscription, 1)


@pytest.mark.parametrize(
    ("expression_type", "tag"), [(None, True), ("", True), ("TAG", True), ("SQL92", False)]
)
def test_no_type_is_a_tag_type(expression_type: str | None, tag: bool) -> None:
    assert is_tag_type(expression_type) is tag


@given(st.text("ab|* ", max_size=12))
def test_a_subscription_matches_its_own_tags_and_is_refused_otherwise(expression: str) -> None:
    try:
        subscription = build_subscription("T", expression)
    except RemoteProtocolError:
        assert expression.strip("|") == ""
        return
    assert all(matches(subscription, tags_code(tag)) for tag in subscription.tags_set)


def test_an_entry_matches_by_the_low_half_of_its_code() -> None:
    subscription = build_subscription("T", "polygenelubricants")
    assert matches(subscription, -(2**31))
    assert matches(subscription, 2**31)
    assert not matches(subscription, 0)


def test_what_is_not_known_matches() -> None:
    subscription = build_subscription("T", "TagA")
    assert matches(None, 1)
    assert matches(subscription, None)
    subscription.class_filter_mode = True
    assert matches(subscription, 1)


@pytest.mark.golden
def test_tag_pulls_give_what_the_real_broker_gave() -> None:
    manifest = read_manifest("basic")
    queues = {
        (queue["topic"], queue["queueId"]): queue["entries"]
        for queue in manifest["consumeQueueEntries"]
    }
    pulled = 0
    for tag_pull in manifest["tagPulls"]:
        subscription = build_subscription(tag_pull["topic"], tag_pull["expr"])
        entries = queues[tag_pull["topic"], tag_pull["queueId"]]
        for pull in tag_pull["pulls"]:
            scanned = entries[pull["offset"] : pull["nextBeginOffset"]]
            expected = [offset for offset, _, code in scanned if matches(subscription, code)]
            assert pull["commitLogOffsets"] == expected
            pulled += len(expected)
    assert pulled > 20


@pytest.mark.parametrize(("tags", "code"), [(None, 0), ("", 0), ("TagA", 2598919)])
def test_a_tag_has_its_hash_as_code(tags: str | None, code: int) -> None:
    assert tags_code(tags) == code


def test_a_negative_hash_stays_negative() -> None:
    assert tags_code("polygenelubricants") == -(2**31)


def test_a_long_tag_has_the_same_code_as_by_the_short_way() -> None:
    assert tags_code("\0" * 200 + "TagA") == tags_code("TagA")


@pytest.mark.golden
@pytest.mark.parametrize("fixture", ["basic", "batch", "transient"])
def test_codes_are_those_in_the_real_brokers_queues(fixture: str) -> None:
    manifest = read_manifest(fixture)
    tags = {message["commitLogOffset"]: message["tags"] for message in manifest["messages"]}
    compared = 0
    for queue in manifest.get("consumeQueueEntries", []):
        for physical_offset, _, code in queue["entries"]:
            assert tags_code(tags[physical_offset]) == code
            compared += code != 0
    assert compared > 50
