"""Which messages a pull wants."""

from collections.abc import Callable
from types import GeneratorType
from typing import Any

import pytest
from msgspec.structs import replace

from tests.broker.harness import (
    NOW_MS,
    Harness,
    Waiting,
    begun,
    pull_fields,
    sql_subscription,
    subscription,
)
from tests.filter.bits import bitmap_of
from wakelog.broker.decision import Continue, HoldPull, Outcome, Push
from wakelog.broker.effects import FilterPlace, InPool, WorkKind
from wakelog.filter.limits import LOOP_CHARACTERS_MAX
from wakelog.filter.sql92 import compile_filter
from wakelog.network.driver import NOW
from wakelog.protocol.bodies import MODEL_BROADCASTING, SubscriptionData, SubscriptionGroupConfig
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.record import decode_record
from wakelog.storage.errors import LacksVerdicts, StoreFailed

MakeHarness = Callable[..., Harness]


@pytest.fixture
def tagged(harness: Harness) -> Harness:
    """A broker whose queue holds messages with the tags A, B, A and none."""
    for tags in ("A", "B", "A", ""):
        harness.send("T", tags.encode(), i=f"TAGS\x01{tags}")
    return harness


def pulled(harness: Harness, **changes: object) -> list[bytes]:
    return bodies_of(harness.pulled(**changes))


def bodies_of(response: RemotingCommand) -> list[bytes]:
    bodies, position = [], 0
    while position < len(response.body):
        record = decode_record(response.body, position)
        bodies.append(record.body)
        position += record.size_bytes
    return bodies


EXPRESSIONS = [
    ("*", [b"A", b"B", b"A", b""]),
    ("", [b"A", b"B", b"A", b""]),
    ("A", [b"A", b"A"]),
    ("A || B", [b"A", b"B", b"A"]),
    ("C", []),
]


@pytest.mark.parametrize(("expression", "bodies"), EXPRESSIONS)
def test_a_pull_with_the_flag_brings_its_expression(
    tagged: Harness, expression: str, bodies: list[bytes]
) -> None:
    assert pulled(tagged, subscription=expression) == bodies


@pytest.mark.parametrize(("expression", "bodies"), EXPRESSIONS)
def test_a_pull_without_the_flag_is_served_by_the_heartbeat(
    tagged: Harness, expression: str, bodies: list[bytes]
) -> None:
    """Section 12: the Go client sends an empty subscription without the flag."""
    tagged.beat("g", subscription("T", expression or "*"))
    assert pulled(tagged, sysFlag=0, subscription="") == bodies


def test_class_filter_mode_lets_all_pass(tagged: Harness) -> None:
    wanted = subscription("T", "A")
    wanted.class_filter_mode = True
    tagged.beat("g", wanted)
    assert len(pulled(tagged, sysFlag=0)) == 4


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_an_expression_of_nothing_cannot_be_parsed(tagged: Harness, expression: str) -> None:
    outcome = tagged.pulled(subscription=expression)
    assert outcome.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert outcome.remark == "parse the consumer's subscription failed"


@pytest.mark.parametrize("flag", [0x4, 0x0])
def test_sql_is_not_supported(tagged: Harness, flag: int) -> None:
    wanted = SubscriptionData(topic="T", sub_string="a > 1", sub_version=1, expression_type="SQL92")
    tagged.beat("g", wanted)
    outcome = tagged.pulled(sysFlag=flag, subscription="a > 1", expressionType="SQL92")
    assert outcome.code == ResponseCode.SYSTEM_ERROR
    assert outcome.remark == "The broker does not support consumer to filter message by SQL92"


@pytest.fixture
def with_properties(make_harness: MakeHarness) -> Harness:
    """A broker that filters by properties; its queue holds messages whose a is 1, 2, 3 and none."""
    harness = make_harness(enablePropertyFilter="true")
    for properties in ("a\x011", "a\x012", "a\x013", "b\x012"):
        harness.send("T", properties.encode()[-1:], i=properties)
    return harness


SQL = {"subscription": "a > 1", "expressionType": "SQL92"}


def test_a_pull_with_the_flag_brings_its_own_expression(with_properties: Harness) -> None:
    assert pulled(with_properties, **SQL) == [b"2", b"3"]
    assert pulled(with_properties, **SQL | {"subscription": "b IS NOT NULL"}) == [b"2"]
    assert pulled(with_properties, **SQL | {"subscription": "a > 3"}) == []


def test_a_pull_without_the_flag_is_filtered_by_the_heartbeats_expression(
    with_properties: Harness,
) -> None:
    with_properties.beat("g", sql_subscription("a > 1"))
    assert pulled(with_properties, sysFlag=0, subscription="") == [b"2", b"3"]
    with_properties.beat("g", sql_subscription("a < 3", version=2))
    assert pulled(with_properties, sysFlag=0, subscription="", subVersion=2) == [b"1", b"2"]


def test_a_record_is_read_in_a_pool_if_the_disk_is_needed(with_properties: Harness) -> None:
    with_properties.store.cold = True
    assert pulled(with_properties, **SQL) == [b"2", b"3"]


@pytest.mark.parametrize("is_long", [False, True])
def test_by_a_long_expression_a_pool_reads_records_and_the_loop_filters_them(
    with_properties: Harness, is_long: bool
) -> None:
    text = " OR ".join([SQL["subscription"]] * (LOOP_CHARACTERS_MAX // 9 + 2 * is_long))
    assert (len(text) > LOOP_CHARACTERS_MAX) is is_long
    wanted = SQL | {"subscription": text}
    compile_filter(text)
    request = with_properties.request(RequestCode.PULL_MESSAGE, pull_fields(**wanted))
    with_properties.store.verdicts_at_once_max = 3
    assert len(pulled(with_properties)) == 4  # the group is there
    found = with_properties.broker.process(request, with_properties.channel, NOW_MS)
    outcome = Waiting(None, found).resume() if isinstance(found, GeneratorType) else found
    effects, given_back = list[type](), list[int]()
    while isinstance(outcome, Waiting):
        effects.append(type(outcome.effect))
        match outcome.effect:
            case FilterPlace():
                outcome = outcome.resume(lambda: given_back.append(len(effects)))
            case InPool(work, kind):
                assert kind is WorkKind.READ
                outcome = read(outcome, work)
            case other:
                outcome = outcome.resume(NOW_MS if other is NOW else None)
    filtered_one = type(None)
    three, one = [InPool, *[filtered_one] * 3], [InPool, filtered_one]
    assert effects == ([FilterPlace, *three, *one, InPool, type(NOW)] if is_long else [])
    assert given_back == [len(effects) - 1] * is_long, "behind the last read"
    assert isinstance(outcome, RemotingCommand)
    assert bodies_of(outcome) == [b"2", b"3"]


def read(waiting: Waiting, work: Callable[[], Any]) -> Outcome | Waiting:
    """Do the work of a pool, and go on with its result or its failure."""
    try:
        return waiting.resume(work())
    except LacksVerdicts as lacking:
        return waiting.resume(error=lacking)


@pytest.mark.parametrize("fails", ["read", "client leaves"])
def test_a_place_is_given_back_whatever_happens(with_properties: Harness, fails: str) -> None:
    text = " OR ".join([SQL["subscription"]] * (LOOP_CHARACTERS_MAX // 9 + 2))
    compile_filter(text)
    assert len(pulled(with_properties)) == 4  # the group is there
    fields = pull_fields(**SQL | {"subscription": text})
    request = with_properties.request(RequestCode.PULL_MESSAGE, fields)
    outcome = with_properties.broker.process(request, with_properties.channel, NOW_MS)
    given_back = list[int]()
    place = begun(outcome)
    assert isinstance(place, Waiting) and isinstance(place.effect, FilterPlace)
    reading = place.resume(lambda: given_back.append(1))
    assert isinstance(reading, Waiting) and not given_back
    if fails == "read":
        failed = reading.resume(error=StoreFailed("commitlog", "read", OSError(5, "broken")))
        assert isinstance(failed, RemotingCommand) and failed.code == ResponseCode.SYSTEM_ERROR
    else:
        reading.work.close()
    assert given_back == [1]


def test_a_pull_by_expression_waits_for_any_message(with_properties: Harness) -> None:
    note = with_properties.hold(queueOffset=4, **SQL)
    assert note.codes is None


def woken(harness: Harness, note: HoldPull, now_ms: int) -> Push | Continue:
    """Wake a held pull and return what becomes of it."""
    harness.instructions()
    harness.broker.wake([note.hold_id], now_ms)
    [instruction] = harness.instructions()
    assert isinstance(instruction, Push | Continue)
    return instruction


@pytest.mark.parametrize("wants", [SQL, {"subscription": "A"}], ids=["SQL92", "TAG"])
def test_a_pull_that_is_woken_by_what_it_does_not_want_waits_on(
    with_properties: Harness, wants: dict[str, str]
) -> None:
    harness = with_properties
    note = harness.hold(queueOffset=4, suspendTimeoutMillis=20_000, **wants)
    harness.send("T", b"1", i="a\x011")
    instruction = woken(harness, note, NOW_MS + 1)
    # Under its id, and to be woken by what comes behind.
    later = replace(note, queue_offset=5)
    assert isinstance(instruction, Continue) and instruction.outcome == later
    assert harness.broker.state.held.notes() == [later]
    harness.validate()
    harness.send("T", b"A", i="a\x012\x02TAGS\x01A")
    harness.store.tags_code = lambda properties: 65
    harness.send("T", b"B", i="a\x012\x02TAGS\x01A")
    pushed = woken(harness, note, NOW_MS + 2)
    assert isinstance(pushed, Push)
    assert pushed.command.code == ResponseCode.SUCCESS
    assert pushed.command.ext_fields["nextBeginOffset"] == "7"
    assert harness.broker.state.held.notes() == []


def test_at_its_deadline_it_gets_the_next_offset(with_properties: Harness) -> None:
    note = with_properties.hold(queueOffset=4, **SQL)
    with_properties.send("T", b"1", i="a\x011")
    pushed = woken(with_properties, note, note.deadline_ms)
    assert isinstance(pushed, Push)
    assert pushed.command.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert pushed.command.ext_fields["nextBeginOffset"] == "5"


def test_a_pull_with_more_entries_than_one_read_is_answered(with_properties: Harness) -> None:
    note = with_properties.hold(queueOffset=4, **SQL)
    with_properties.store.read_count_max = 2
    for _ in range(3):
        with_properties.send("T", b"1", i="a\x011")
    pushed = woken(with_properties, note, NOW_MS + 1)
    assert isinstance(pushed, Push)
    assert pushed.command.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert pushed.command.ext_fields["nextBeginOffset"] == "6"


def test_a_bitmap_saves_reading_unwanted_records(with_properties: Harness) -> None:
    harness = with_properties
    harness.now_ms = NOW_MS + 1  # those before were stored before the filter was known
    harness.beat("g", sql_subscription("a > 1"))
    filters = harness.broker.state.filters
    kept = filters.get("T", "g")
    assert kept is not None
    mine, none = bitmap_of([kept.positions]), bitmap_of([])
    harness.now_ms = NOW_MS + 2
    for bitmap in (none, mine, b"", none + b"\0"):
        harness.store.bitmaps[harness.store.end] = bitmap
        harness.send("T", b"%d" % len(bitmap), i="a\x012")
    for stored in list(harness.store.log.values())[:4]:
        harness.store.bitmaps[stored.physical_offset] = none
    expected = [b"2", b"3", b"14", b"0", b"15"]
    assert pulled(harness, sysFlag=0, subscription="", subVersion=1) == expected
    # With an expression of its own, of which no bitmap speaks.
    assert pulled(harness, **SQL) == [b"2", b"3", b"14", b"14", b"0", b"15"]


def test_a_bitmap_does_not_stand_in_for_the_properties(with_properties: Harness) -> None:
    harness = with_properties
    harness.beat("g", sql_subscription("a > 1"))
    harness.now_ms = NOW_MS + 1
    harness.store.bitmaps[harness.store.end] = b"\xff" * 14
    harness.send("T", b"no", i="a\x011")
    assert pulled(harness, sysFlag=0, subscription="", queueOffset=4) == []


# With the flag: settings, expression, code and remark.
UNUSABLE = [
    ("true", "a >", 23, "parse the consumer's subscription failed"),
    ("true", "", 23, "parse the consumer's subscription failed"),
    ("false", "", 23, "parse the consumer's subscription failed"),
    ("false", "a >", 1, "The broker does not support consumer to filter message by SQL92"),
]


@pytest.mark.parametrize(("enabled", "expression", "code", "remark"), UNUSABLE)
def test_an_expression_that_does_not_compile_is_refused(
    make_harness: MakeHarness, enabled: str, expression: str, code: int, remark: str
) -> None:
    harness = make_harness(enablePropertyFilter=enabled)
    harness.send("T")
    outcome = harness.pulled(**SQL | {"subscription": expression})
    assert (outcome.code, outcome.remark) == (code, remark)


def test_an_unknown_language_is_refused(with_properties: Harness) -> None:
    outcome = with_properties.pulled(subscription="a", expressionType="XX")
    assert outcome.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


NO_FILTER = "The broker's consumer filter data is not exist!Your expression may be wrong!"


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_heartbeat_whose_expression_does_not_compile_leaves_no_filter(
    make_harness: MakeHarness, enabled: str
) -> None:
    """4.9.3 looks for the filter before it looks whether it may filter."""
    harness = make_harness(enablePropertyFilter=enabled)
    harness.send("T")
    harness.beat("g", sql_subscription("a >"))
    outcome = harness.pulled(sysFlag=0, subscription="")
    assert (outcome.code, outcome.remark) == (ResponseCode.FILTER_DATA_NOT_EXIST, NO_FILTER)


def test_a_filter_that_is_older_than_the_pull_is_not_used(with_properties: Harness) -> None:
    with_properties.beat("g", sql_subscription("a > 1", version=2))
    state = with_properties.broker.state
    kept = state.filters.get("T", "g")
    assert kept is not None
    kept.version = 1
    outcome = with_properties.pulled(sysFlag=0, subscription="", subVersion=2)
    assert outcome.code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert outcome.remark == "the consumer's consumer filter data not latest"


@pytest.mark.parametrize(("supports", "bodies"), [("true", [b"2"]), ("false", [b"1", b"2"])])
def test_retries_are_filtered_again_if_that_is_asked_for(
    make_harness: MakeHarness, supports: str, bodies: list[bytes]
) -> None:
    harness = make_harness(enablePropertyFilter="true", filterSupportRetry=supports)
    harness.beat("g", sql_subscription("a > 1"), subscription("%RETRY%g"))
    for a in "12":
        harness.send("%RETRY%g", a.encode(), i=f"a\x01{a}\x02RETRY_TOPIC\x01T")
    assert pulled(harness, topic="%RETRY%g", sysFlag=0) == bodies


# Without the flag: what the group's heartbeat was, code and begin of the remark.
REFUSALS = [
    (
        "no heartbeat",
        None,
        {},
        (ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist\nSee http"),
    ),
    (
        "another topic",
        subscription("U"),
        {},
        (ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist\nSee http"),
    ),
    (
        "an older subscription",
        subscription("T", version=1),
        {"subVersion": 2},
        (ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"),
    ),
]


@pytest.mark.parametrize(
    ("wanted", "changes", "refusal"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_a_heartbeat_that_does_not_fit_is_said(
    tagged: Harness,
    wanted: SubscriptionData | None,
    changes: dict[str, object],
    refusal: tuple[int, str],
) -> None:
    if wanted is not None:
        tagged.beat("g", wanted)
    outcome = tagged.pulled(sysFlag=0, **changes)
    assert outcome.code == refusal[0]
    assert (outcome.remark or "").startswith(refusal[1])


@pytest.mark.parametrize(
    ("allowed", "code"), [(True, ResponseCode.SUCCESS), (False, ResponseCode.NO_PERMISSION)]
)
def test_broadcasting_has_to_be_allowed(tagged: Harness, allowed: bool, code: int) -> None:
    """Section 7.1: consumeBroadcastEnable=false refuses (16)."""
    group = SubscriptionGroupConfig("g", consume_broadcast_enable=allowed)
    tagged.broker.state.groups.update(group, NOW_MS)
    tagged.beat("g", subscription(), message_model=MODEL_BROADCASTING)
    outcome = tagged.pulled(sysFlag=0)
    assert outcome.code == code
    if not allowed:
        assert outcome.remark == "the consumer group[g] can not consume by broadcast way"


def test_the_real_hash_decides_and_not_the_tag(harness: Harness) -> None:
    """Fact 8's sibling for tags: "Aa" and "BB" have one hash; the client compares again."""
    harness.send("T", b"collision", i="TAGS\x01BB")
    assert pulled(harness, subscription="Aa") == [b"collision"]
