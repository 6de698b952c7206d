"""Which tags a pull wants (rocketmq.md 1.1 code 11, 4.1, section 12)."""

from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness, subscription
from wakelog.protocol.bodies import MODEL_BROADCASTING, SubscriptionData, SubscriptionGroupConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.message_record import decode_record

MakeHarness = Callable[..., Harness]


@pytest.fixture
def tagged(harness: Harness) -> Harness:
    """A broker whose queue holds messages with the tags A, B, A and none."""
    for tags in ("A", "B", "A", ""):
        harness.send("T", tags.encode(), i=f"TAGS\x01{tags}")
    return harness


def pulled(harness: Harness, **changes: object) -> list[bytes]:
    outcome = harness.pull(**changes)
    assert isinstance(outcome, RemotingCommand)
    bodies, position = [], 0
    while position < len(outcome.body):
        record = decode_record(outcome.body, position)
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
    outcome = tagged.pull(subscription=expression)
    assert isinstance(outcome, RemotingCommand)
    assert outcome.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert outcome.remark == "parse the consumer's subscription failed"


@pytest.mark.parametrize("flag", [0x4, 0x0])
def test_sql_is_not_supported(tagged: Harness, flag: int) -> None:
    wanted = SubscriptionData(topic="T", sub_string="a > 1", sub_version=1, expression_type="SQL92")
    tagged.beat("g", wanted)
    outcome = tagged.pull(sysFlag=flag, subscription="a > 1", expressionType="SQL92")
    assert isinstance(outcome, RemotingCommand)
    assert outcome.code == ResponseCode.SYSTEM_ERROR
    assert outcome.remark == "The broker does not support consumer to filter message by SQL92"


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
    outcome = tagged.pull(sysFlag=0, **changes)
    assert isinstance(outcome, RemotingCommand)
    assert outcome.code == refusal[0]
    assert (outcome.remark or "").startswith(refusal[1])


@pytest.mark.parametrize(
    ("allowed", "code"), [(True, ResponseCode.SUCCESS), (False, ResponseCode.NO_PERMISSION)]
)
def test_broadcasting_has_to_be_allowed(tagged: Harness, allowed: bool, code: int) -> None:
    """Section 7.1: consumeBroadcastEnable=false refuses (16)."""
    group = SubscriptionGroupConfig("g", consume_broadcast_enable=allowed)
    tagged.broker._state.groups.update(group, NOW_MS)
    tagged.beat("g", subscription(), message_model=MODEL_BROADCASTING)
    outcome = tagged.pull(sysFlag=0)
    assert isinstance(outcome, RemotingCommand)
    assert outcome.code == code
    if not allowed:
        assert outcome.remark == "the consumer group[g] can not consume by broadcast way"


def test_the_real_hash_decides_and_not_the_tag(harness: Harness) -> None:
    """Fact 8's sibling for tags: "Aa" and "BB" have one hash; the client compares again."""
    harness.send("T", b"collision", i="TAGS\x01BB")
    assert pulled(harness, subscription="Aa") == [b"collision"]
