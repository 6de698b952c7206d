"""Every table that a client can fill refuses what is above its limit, and keeps what it has."""

from collections.abc import Callable

import msgspec
import pytest

from tests.broker.harness import FakeChannel, Harness, sql_subscription, subscription
from wakelog.broker import state as broker_state
from wakelog.broker.config import RANGES
from wakelog.broker.consumer_offsets import PAIR_BYTES
from wakelog.broker.decision import Appender, WriteLine
from wakelog.broker.table_limits import DEFAULT_LIMITS, TableLimits
from wakelog.nameserver.route_table import TOPICS_MAX
from wakelog.protocol.bodies import LockBatchRequestBody, SubscriptionGroupConfig, encode_body
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.fastjson import FILE_ENTRIES_MAX

MakeHarness = Callable[..., Harness]
Attempt = Callable[[Harness, int], RemotingCommand]


def create(harness: Harness, number: int) -> RemotingCommand:
    fields = {
        **{"topic": f"T{number}", "defaultTopic": "TBW102", "readQueueNums": "1"},
        **{"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"},
    }
    return harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def define_group(harness: Harness, number: int) -> RemotingCommand:
    body = encode_body(SubscriptionGroupConfig(f"g{number}"))
    return harness.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def pull_as(harness: Harness, number: int) -> RemotingCommand:
    return harness.pulled(consumerGroup=f"g{number}", sysFlag=0x4)


def commit(harness: Harness, number: int, topic: str = "T") -> RemotingCommand:
    fields = {"consumerGroup": "g", "topic": topic, "queueId": str(number), "commitOffset": "1"}
    return harness.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def lock(harness: Harness, group: str, number: int) -> RemotingCommand:
    body = LockBatchRequestBody(group, "c", {MessageQueue("T", "b", number)})
    return harness.ask(RequestCode.LOCK_BATCH_MQ, body=encode_body(body))


LIMITS: dict[str, tuple[str, Attempt]] = {
    "topics, by code 17": ("topics", create),
    "topics, by sends": ("topics", lambda h, n: h.send(f"T{n}")),
    "topics, by heartbeats": ("topics", lambda h, n: h.beat(f"g{n}")),
    "groups": ("groups", define_group),
    "groups, by heartbeats": ("groups", lambda h, n: h.beat(f"g{n}")),
    "groups, by pulls": ("groups", pull_as),
    "memberships of consumers": (
        "memberships",
        lambda h, n: h.beat("g", channel=FakeChannel(n)),
    ),
    "memberships of producers": (
        "memberships",
        lambda h, n: h.beat_producer("p", FakeChannel(n)),
    ),
    "groups of a consumer": ("memberships_per_connection", lambda h, n: h.beat(f"g{n}")),
    "groups of a producer": ("memberships_per_connection", lambda h, n: h.beat_producer(f"p{n}")),
    "subscriptions": (
        "subscription_bytes",
        lambda h, n: h.beat(f"g{n}", subscription("T", "a" * 500)),
    ),
    "offsets": ("committed_offsets", commit),
    "topics with offsets": ("committed_pair_bytes", lambda h, n: commit(h, 0, f"T{n}")),
    "filters": ("filters", lambda h, n: h.beat(f"g{n}", sql_subscription("a > 1"))),
    "characters of filters": (
        "filter_characters",
        lambda h, n: h.beat(f"g{n}", sql_subscription("a > 1".ljust(1_000))),
    ),
    "locks": ("locks", lambda h, n: lock(h, f"g{n}", 0)),
    "locks of a group": ("locks_per_group", lambda h, n: lock(h, "g", n)),
}
"""Every limit, and what goes against it: a request that takes a place for each number."""

ROOM = 3
_BYTES_EACH = 1_122
"""What `subscriptions` takes: 500, the topic, 500 letters, and a tag of 120."""


def limit_lines(harness: Harness) -> list[WriteLine]:
    lines = [i for i in harness.instructions() if isinstance(i, WriteLine)]
    return [line for line in lines if line.appender is Appender.PROTECTION]


@pytest.mark.parametrize(("name", "attempt"), LIMITS.values(), ids=LIMITS)
def test_what_has_no_room_is_refused_and_logged(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch, name: str, attempt: Attempt
) -> None:
    room = ROOM
    if name in ("topics", "groups"):
        own_count = getattr(make_harness().broker.state, name).statistics()[f"{name[:-1]}_count"]
        room += own_count
    if name == "filter_characters":
        room = ROOM * 1_000
    if name == "committed_pair_bytes":
        room = ROOM * (PAIR_BYTES + 4)
    if name == "subscription_bytes":
        room = ROOM * (_BYTES_EACH + 500)
    monkeypatch.setattr(broker_state, "DEFAULT_LIMITS", TableLimits(**{name: room}))
    harness = make_harness(enablePropertyFilter="true")
    numbers = range(1, 4 * ROOM)
    answers = [attempt(harness, number) for number in numbers]
    refused = [a for a in answers if a.code == ResponseCode.SYSTEM_ERROR]
    assert refused, name
    assert len(refused) < len(answers), name
    assert answers[-1].code == ResponseCode.SYSTEM_ERROR
    assert (refused[0].remark or "").startswith(f"the broker keeps at most {room} ")
    assert "tableLimitFactor" in (refused[0].remark or "")
    assert len(limit_lines(harness)) == len(refused)
    # What has its place goes on as before.
    assert attempt(harness, 1).code == answers[0].code != ResponseCode.SYSTEM_ERROR
    harness.validate()


def test_every_limit_has_its_attempt() -> None:
    assert {name for name, _ in LIMITS.values()} == set(TableLimits.__struct_fields__)


def test_the_factor_multiplies_every_limit(harness: Harness, make_harness: MakeHarness) -> None:
    assert harness.broker.state.limits == DEFAULT_LIMITS
    most = make_harness(tableLimitFactor="4").broker.state.limits
    ours = msgspec.structs.asdict(DEFAULT_LIMITS)
    assert msgspec.structs.asdict(most) == {name: 4 * limit for name, limit in ours.items()}


def test_a_full_table_can_be_registered_and_read_again() -> None:
    """A start reads files of so many entries, a name server keeps so many topics."""
    limits = DEFAULT_LIMITS.multiplied(RANGES["tableLimitFactor"][1])
    topic_entries_count, group_entries_count, filter_entries_count = 7, 10, 16
    assert limits.topics <= TOPICS_MAX
    assert limits.topics * topic_entries_count <= FILE_ENTRIES_MAX
    assert limits.groups * group_entries_count <= FILE_ENTRIES_MAX
    assert 2 * limits.committed_offsets <= FILE_ENTRIES_MAX
    assert limits.filters * filter_entries_count <= FILE_ENTRIES_MAX


@pytest.mark.parametrize(
    "changes", [{"group": "g" * 256}, {"client": "c" * 256}, {"topic": "t" * 256}]
)
def test_a_lock_with_a_name_that_nothing_has_is_refused(
    harness: Harness, changes: dict[str, str]
) -> None:
    names = {"group": "g", "client": "c", "topic": "T"} | changes
    queues = {MessageQueue(names["topic"], "b", 0)}
    body = encode_body(LockBatchRequestBody(names["group"], names["client"], queues))
    assert harness.ask(RequestCode.LOCK_BATCH_MQ, body=body).code == ResponseCode.SYSTEM_ERROR
    assert harness.broker.state.locks.statistics()["lock_count"] == 0


def test_a_heartbeat_keeps_no_long_text_of_its_own(harness: Harness) -> None:
    assert harness.beat("g", client_id="c" * 256).code == ResponseCode.SYSTEM_ERROR
    assert harness.beat("g", consume_type="x" * 1_000).code == ResponseCode.SUCCESS
    group = harness.broker.state.consumers.get("g")
    # A constant that 4.9.3 does not know counts as none.
    assert group is not None and group.consume_type == ""
