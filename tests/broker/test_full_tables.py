"""Requests about full tables: no piece on the Broker's thread grows with them.

Calls are counted, not time: they are always the same. Work for the pool is not counted.
"""

import json
from collections.abc import Callable

import pytest

from tests.broker.attacks import Attack
from tests.broker.harness import FakeChannel, Harness, subscription
from tests.broker.test_attacks import Counted
from wakelog.network.signing import Credentials
from wakelog.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from wakelog.protocol.codes import RequestCode as Code

TOPICS_COUNT = 10_000
GROUPS_COUNT = 5_000
PRODUCERS_COUNT = 4_000
MEMBERS_COUNT = 2_000
CALLS_MAX = 6_000
"""Some 1 ms."""

PLAIN = {"consumerGroup": "g", "topic": "T0", "group": "g"}

REQUESTS = [
    Attack("topics", Code.GET_ALL_TOPIC_CONFIG, {}),
    Attack("groups", Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
    Attack("offsets", Code.GET_ALL_CONSUMER_OFFSET, {}),
    Attack("producers", Code.GET_ALL_PRODUCER_INFO, {}),
    Attack("clients of producers", Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p0"}),
    Attack("members", Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "members"}),
    Attack("progress", Code.GET_CONSUME_STATS, PLAIN | {"topic": ""}),
    Attack("progress of all", Code.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
    Attack("groups of a topic", Code.QUERY_TOPIC_CONSUME_BY_WHO, PLAIN),
    Attack("times", Code.QUERY_CONSUME_TIME_SPAN, PLAIN),
    Attack("lowest offsets", Code.QUERY_CORRECTION_OFFSET, PLAIN | {"compareGroup": "g"}),
    Attack("a clone", Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h"}),
    Attack(
        "the clone's end",
        Code.QUERY_CORRECTION_OFFSET,
        PLAIN | {"compareGroup": "g", "filterGroups": "h"},
    ),
    Attack("a reset", Code.INVOKE_BROKER_TO_RESET_OFFSET, PLAIN | {"timestamp": "-1"}),
    Attack(
        "many settings",
        Code.UPDATE_BROKER_CONFIG,
        {},
        b"".join(b"k%d=v\n" % n for n in range(6_000)),
    ),
    Attack(
        "a deletion",
        Code.DELETE_SUBSCRIPTIONGROUP,
        {"groupName": "g", "removeOffset": "true"},
    ),
]


@pytest.fixture(scope="module")
def full() -> Harness:
    harness = Harness()
    state = harness.broker.state
    for number in range(TOPICS_COUNT):
        state.topics.update(TopicConfig(f"T{number}", 16, 16), harness.now_ms)
        state.offsets.commit("g", f"T{number}", 0, 5)
        harness.instructions()
    for number in range(GROUPS_COUNT):
        state.groups.update(SubscriptionGroupConfig(f"g{number}"), harness.now_ms)
        state.offsets.commit(f"g{number}", "T0", 0, 5)
        harness.instructions()
    for number in range(MEMBERS_COUNT):
        channel = FakeChannel(100 + number)
        harness.beat("members", subscription(), channel=channel, client_id=f"c{number}")
        harness.instructions()
    producers = [{"groupName": f"p{number}"} for number in range(PRODUCERS_COUNT)]
    beat = json.dumps({"clientID": "p", "producerDataSet": producers}).encode()
    for number in range(4):
        harness.ask(Code.HEART_BEAT, body=beat, channel=FakeChannel(10 + number))
        harness.instructions()
    return harness


@pytest.mark.slow
@pytest.mark.parametrize("request_", REQUESTS, ids=[one.name for one in REQUESTS])
def test_a_request_about_full_tables_takes_short_pieces(
    full: Harness, request_: Attack, record_property: Callable[[str, object], None]
) -> None:
    counted = Counted(full, Credentials())
    counted.run(request_)
    record_property("said", f"{max(counted.pieces)} calls in one of {len(counted.pieces)} pieces")
    assert max(counted.pieces) < CALLS_MAX
    full.validate()
