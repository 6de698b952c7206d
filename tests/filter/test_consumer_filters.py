"""What becomes of a group's filters, and the file they are kept in."""

from pathlib import Path

import pytest

from tests.golden_stores import open_golden
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilter, ConsumerFilters
from wakelog.protocol.bodies import SubscriptionData

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
DEFAULT = BloomFilter(error_percent=20, names_count=32)


def filters(now_ms: int = NOW_MS, bloom: BloomFilter = DEFAULT) -> ConsumerFilters:
    return ConsumerFilters(bloom, now_ms, dead_ms_max=DAY_MS)


def wanted(
    expression: str = "a > 1", version: int = 5, topic: str = "T", kind: str = "SQL92"
) -> SubscriptionData:
    return SubscriptionData(
        topic=topic, sub_string=expression, expression_type=kind, sub_version=version
    )


def registered(*subscriptions: SubscriptionData) -> ConsumerFilters:
    """Filters of the group g after one heartbeat at NOW_MS."""
    table = filters()
    table.register("g", subscriptions, NOW_MS)
    table.validate()
    return table


def of(table: ConsumerFilters, topic: str = "T") -> ConsumerFilter:
    found = table.get(topic, "g")
    assert found is not None
    return found


@pytest.fixture
def file_text(tmp_path: Path) -> str:
    """The file that a real broker wrote when it stopped."""
    store, _ = open_golden("filter_ext", tmp_path)
    return (store / "config" / "consumerFilter.json").read_text()


def test_a_subscription_by_expression_is_kept_with_the_bits_of_its_group() -> None:
    kept = of(registered(wanted()))
    assert kept.compiled.matches({"a": "2"}) and not kept.compiled.matches({"a": "1"})
    assert kept.positions == DEFAULT.positions("g#T")
    assert (kept.version, kept.born_ms, kept.is_dead) == (5, NOW_MS, False)


@pytest.mark.parametrize(
    "subscription",
    [wanted(kind="TAG"), wanted(kind=""), wanted(""), wanted("a >"), wanted(kind="XX")],
)
def test_what_is_no_expression_is_not_kept(subscription: SubscriptionData) -> None:
    table = registered(subscription)
    assert len(table) == 0 and table.get("T", "g") is None
    assert not table.dirty


# The second heartbeat, 10 ms later: its expression and version; then expression, version, born.
SECOND = [
    ("a > 2", 4, ("a > 1", 5, 0)),
    ("a > 2", 5, ("a > 1", 5, 0)),
    ("a > 1", 6, ("a > 1", 6, 0)),
    ("a > 2", 6, ("a > 2", 6, 10)),
]


@pytest.mark.parametrize(("expression", "version", "kept_ms"), SECOND)
def test_a_newer_version_counts(
    expression: str, version: int, kept_ms: tuple[str, int, int]
) -> None:
    table = registered(wanted())
    table.register("g", [wanted(expression, version)], NOW_MS + 10)
    kept = of(table)
    assert (kept.compiled.text, kept.version, kept.born_ms - NOW_MS) == kept_ms
    table.validate()


def test_a_newer_expression_that_does_not_compile_leaves_none() -> None:
    table = registered(wanted())
    table.register("g", [wanted("a >", 6)], NOW_MS)
    assert table.get("T", "g") is None and not list(table.all())
    table.validate()


@pytest.mark.parametrize("version", [4, 5, 6])
def test_the_dead_live_again_with_their_own_version_or_a_newer_one(version: int) -> None:
    table = registered(wanted())
    table.register("g", [], NOW_MS + 1)
    assert of(table).is_dead
    table.register("g", [wanted(version=version)], NOW_MS + 2)
    assert of(table).is_dead is (version < 5)
    assert of(table).born_ms == NOW_MS


def test_a_topic_that_is_no_longer_subscribed_to_is_dead_and_others_are_not() -> None:
    table = registered(wanted(topic="T"), wanted(topic="U"))
    table.register("h", [wanted(topic="T")], NOW_MS)
    table.register("g", [wanted(topic="U")], NOW_MS + 1)
    assert of(table, "T").dead_ms == NOW_MS + 1 and not of(table, "U").is_dead
    assert sorted((kept.topic, kept.group, kept.is_dead) for kept in table.all()) == [
        ("T", "g", True),
        ("T", "h", False),
        ("U", "g", False),
    ]
    assert table.of_group("g").keys() == {"T", "U"}


def test_a_topic_that_is_now_subscribed_to_by_tags_stays_as_it_was() -> None:
    """As in 4.9.3: the topic is among the subscriptions, which is all that is asked."""
    table = registered(wanted())
    table.register("g", [wanted("A", 6, kind="TAG")], NOW_MS + 1)
    assert not of(table).is_dead


def test_the_dead_are_forgotten_after_a_day() -> None:
    table = registered(wanted())
    table.clean(NOW_MS + 2 * DAY_MS)
    assert len(table) == 1, "it lives"
    table.register("g", [], NOW_MS)
    table.clean(NOW_MS + DAY_MS - 1)
    assert len(table) == 1
    table.clean(NOW_MS + DAY_MS)
    assert len(table) == 0
    table.validate()


def test_a_filter_above_the_limit_is_refused() -> None:
    table = ConsumerFilters(DEFAULT, NOW_MS, dead_ms_max=DAY_MS, filters_max=1)
    assert not table.register("g", [wanted(topic="T"), wanted(topic="U")], NOW_MS)
    assert len(table) == 1 and table.get("U", "g") is None
    assert not table.register("g", [wanted(topic="U")], NOW_MS)
    assert table.register("g", [wanted("a > 2", 6)], NOW_MS)
    assert of(table).compiled.text == "a > 2", "a change needs no room"


def test_the_file_of_a_real_broker_is_written_as_it_was_read(file_text: str) -> None:
    table = filters()
    table.load(file_text)
    table.validate()
    assert len(table) == 3 and all(kept.is_dead for kept in table.all())
    assert table.snapshot()() == file_text


def test_after_a_start_all_are_dead_until_their_groups_come() -> None:
    text = registered(wanted()).snapshot()()
    for start_ms, dead_ms in ((NOW_MS + 60_000, NOW_MS + 30_000), (NOW_MS + 1, NOW_MS)):
        table = filters(start_ms)
        table.load(text)
        assert of(table).is_dead and of(table).dead_ms == dead_ms
        table.register("g", [wanted()], start_ms)
        assert not of(table).is_dead and of(table).born_ms == NOW_MS


def test_nothing_is_taken_over_if_the_bits_are_of_another_filter(file_text: str) -> None:
    table = filters(bloom=BloomFilter(error_percent=20, names_count=64))
    table.load(file_text)
    assert len(table) == 0


def test_an_expression_in_the_file_that_does_not_compile_is_left_out(file_text: str) -> None:
    table = filters()
    table.load(file_text.replace("a > 5 AND b = 'x'", "a > 5 AND"))
    assert {kept.group for kept in table.all()} == {"sql_g2", "sql_g3"}
    table.validate()


def test_an_empty_table_is_written_as_4_9_3_does() -> None:
    assert filters().snapshot()() == '{\n\t"filterDataByTopic":{}\n}'


@pytest.mark.parametrize(
    "text", ["", "[]", '{"filterDataByTopic":3}', '{"filterDataByTopic":{"T":[]}}']
)
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        filters().load(text)


def test_only_changes_have_to_be_written() -> None:
    table = registered(wanted())
    assert table.dirty
    table.snapshot()
    table.register("g", [wanted()], NOW_MS + 30_000)
    assert not table.dirty
    table.register("g", [], NOW_MS + 40_000)
    assert table.dirty


def test_what_changes_the_bits_of_messages_is_counted() -> None:
    table = registered(wanted(topic="T"))
    first = table.change_count
    table.register("g", [wanted(topic="T")], NOW_MS + 1)
    table.register("g", [], NOW_MS + 2)
    assert table.change_count == first
    table.register("h", [wanted(topic="T")], NOW_MS + 3)
    second = table.change_count
    table.clean(NOW_MS + 2 * DAY_MS)
    assert first < second < table.change_count
