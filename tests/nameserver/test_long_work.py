"""Requests about many topics go on in steps, and what comes meanwhile finds sound tables.

Calls are counted, not time: they are always the same.
"""

from collections.abc import Callable, Generator
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.calls import calls_of_steps, count_calls, counted
from tests.nameserver.harness import NOW_MS, Announced, FakeChannel, Harness, topic
from wakelog.nameserver import kv_config, name_server, route_table
from wakelog.nameserver.decision import ForgetTopics
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import DataVersion, encode_body
from wakelog.protocol.codes import VERSION_3_0_11, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.register_broker import body_checksum
from wakelog.protocol.steps import Steps

TOPICS_COUNT = 10_000
CALLS_MAX = 12_000
"""Calls of functions in one step: some 2 ms, and no more for more topics."""

MANY = Announced(topics=tuple(topic(f"T{number}") for number in range(TOPICS_COUNT)))
SOME = Announced(topics=tuple(topic(f"T{number}") for number in range(1_000)))
NEWER = DataVersion(NOW_MS, 2)


def begin(harness: Harness, request: RemotingCommand, channel: int = 1) -> Steps[Any]:
    steps = harness.core.process(request, FakeChannel(channel), harness.now_ms)
    assert isinstance(steps, Generator)
    return steps


def ends(steps: Steps[Any]) -> RemotingCommand:
    """Do the rest of the steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert isinstance(end.value, RemotingCommand)
            return end.value


def of_an_old_broker() -> RemotingCommand:
    request = MANY.request()
    request.body = encode_body(MANY.body().topic_config_serialize_wrapper)
    request.ext_fields["bodyCrc32"] = str(body_checksum(request.body))
    request.version = VERSION_3_0_11 - 1
    return request


REGISTRATIONS: dict[str, Callable[[], RemotingCommand]] = {
    "plain": MANY.request,
    "compressed": lambda: MANY.request(compressed=True),
    "of an old broker": of_an_old_broker,
}


@pytest.mark.parametrize("make", REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_a_registration_of_many_topics_goes_on_in_steps(
    harness: Harness, make: Callable[[], RemotingCommand]
) -> None:
    calls, response = calls_of_steps(begin(harness, make()))
    assert response.code == ResponseCode.SUCCESS, response.remark
    assert max(calls) < CALLS_MAX
    assert len(harness.topics()) == TOPICS_COUNT
    harness.core.validate()


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
        (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "c1"}),
        (RequestCode.GET_UNIT_TOPIC_LIST, {}),
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": MANY.name}),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": MANY.name}),
    ],
)
def test_many_topics_are_listed_or_changed_in_steps(
    harness: Harness, code: int, fields: dict[str, str]
) -> None:
    harness.register(MANY)
    calls, response = calls_of_steps(begin(harness, make_request(code, fields, opaque=1)))
    assert response.code == ResponseCode.SUCCESS
    assert len(calls) > 10
    assert max(calls) < CALLS_MAX


def test_many_values_are_listed_in_steps(harness: Harness) -> None:
    """Else 100,000 take 30 ms in one call of C, at each registration as well."""
    order = {f"T{number}": "broker-a:4" for number in range(TOPICS_COUNT)}
    for key, value in order.items():
        harness.ask(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key=key, value=value)
    fields = {"namespace": "ORDER_TOPIC_CONFIG"}
    asked = make_request(RequestCode.GET_KVLIST_BY_NAMESPACE, fields, opaque=1)
    for number, request in enumerate((asked, SOME.request())):
        order[f"new{number}"] = "x"
        key = f"new{number}"
        harness.ask(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key=key, value="x")
        calls, response = calls_of_steps(begin(harness, request))
        assert len(calls) > TOPICS_COUNT // kv_config.VALUES_PER_STEP
        assert fastjson.loads(response.body) == {"table": order}
        calls, again = calls_of_steps(begin(harness, asked))
        assert len(calls) == 1, "it is kept"
        assert again.body is response.body
        harness.core.validate()


def test_values_that_change_while_they_are_listed_are_not_kept(harness: Harness) -> None:
    for key in range(2 * kv_config.VALUES_PER_STEP):
        harness.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key=f"k{key}", value="v")
    asked = make_request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}, opaque=1)
    listing = begin(harness, asked)
    next(listing)
    harness.ask(RequestCode.DELETE_KV_CONFIG, namespace="n", key="k7")
    assert "k7" in fastjson.loads(ends(listing).body)["table"]
    harness.core.validate()
    assert "k7" not in fastjson.loads(ends(begin(harness, asked)).body)["table"]


def test_a_permission_changes_after_the_registration_that_came_before(harness: Harness) -> None:
    registration = begin(harness, SOME.request())
    next(registration)
    fields = {"brokerName": SOME.name}
    wiping = begin(harness, make_request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields, opaque=1))
    for _ in range(100):
        next(wiping)
    ends(registration)
    assert harness.route("T0")["queueDatas"][0]["perm"] == 6
    assert ends(wiping).ext_fields == {"wipeTopicCount": str(len(SOME.topics))}
    assert harness.route("T0")["queueDatas"][0]["perm"] == 4
    harness.core.validate()


def test_a_thousand_brokers_that_expire_in_one_tick_are_forgotten_in_steps() -> None:
    """With a step for each of them in the tick, 1,000 with 1,000 topics each took 13 s."""

    def calls_of_expiry(brokers_count: int) -> int:
        harness = Harness()
        for number in range(brokers_count):
            address = f"10.0.0.{number}:1"
            harness.register(msgspec.structs.replace(SOME, name=f"b{number}", address=address))
        harness.core.take_instructions()
        calls = count_calls(lambda: harness.tick_at(NOW_MS + 2 * route_table.LIVE_MS))
        assert harness.brokers() == {}
        assert max(forgotten(harness)) < CALLS_MAX
        assert harness.topics() == set()
        harness.core.validate()
        return calls

    assert calls_of_expiry(100) - calls_of_expiry(50) < 50 * 100


def test_between_two_steps_the_tables_are_sound_and_the_version_is_the_old_one(
    harness: Harness,
) -> None:
    def is_known() -> bool:
        version = b'{"timestamp":%d,"counter":1}' % NOW_MS
        fields = SOME.identity()
        asked = harness.ask(RequestCode.QUERY_DATA_VERSION, version, **fields)
        return asked.ext_fields["changed"] == "false"

    steps = begin(harness, SOME.request())
    counts = []
    while True:
        try:
            next(steps)
        except StopIteration:
            break
        harness.core.validate()
        counts.append(len(harness.topics()))
        assert not is_known()
    assert is_known()
    grown = [after - before for before, after in pairwise(counts)]
    assert max(grown) == route_table.TOPICS_PER_STEP


def test_a_registration_waits_for_those_of_its_broker_that_came_before(harness: Harness) -> None:
    older = begin(harness, SOME.request())
    next(older)
    increment = Announced(topics=(topic("T999", 9),), version=NEWER)
    newer = begin(harness, increment.request())
    for _ in range(100):
        next(newer)
    other = Announced(name="b", address="10.0.0.9:1", topics=(topic("U"),), channel=2)
    harness.register(other)
    assert ends(older).code == ends(newer).code == ResponseCode.SUCCESS
    assert [queue["readQueueNums"] for queue in harness.route("T999")["queueDatas"]] == [9]
    assert not harness.core._state.routes._registering


def forgotten(harness: Harness) -> list[int]:
    """Do what is left to do of a broker that has left; return the calls of each step."""
    assert len(harness.instructions(ForgetTopics)) == 1
    calls = []
    is_left = True
    while is_left:
        count, is_left = counted(harness.core.forget_some)
        calls.append(count)
    return calls


def test_a_broker_with_many_topics_leaves_the_route_at_once_and_is_forgotten_in_steps(
    harness: Harness,
) -> None:
    other = Announced(name="b", address="10.0.0.9:1", topics=(topic("T1"),), channel=2)
    for announced in (MANY, other):
        harness.register(announced)
    harness.close(MANY.channel)
    assert harness.topics() != {"T1"}
    assert harness.route(f"T{TOPICS_COUNT - 1}") is None
    assert [queue["brokerName"] for queue in harness.route("T1")["queueDatas"]] == ["b"]
    harness.core.validate()
    again = begin(harness, SOME.request())
    next(again)
    calls = forgotten(harness)
    assert max(calls) < CALLS_MAX
    assert len(calls) > 10
    assert harness.topics() == {"T1"}
    assert ends(again).code == ResponseCode.SUCCESS
    assert len(harness.topics()) == len(SOME.topics)
    harness.core.validate()
    assert not harness.core._state.routes._leaving


def test_a_broker_that_leaves_meanwhile_is_not_registered(harness: Harness) -> None:
    steps = begin(harness, SOME.request())
    while harness.route("T0") is None:
        next(steps)
    harness.close(SOME.channel)
    refused = ends(steps)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "not registered: 10.0.0.1:10911 has left the route meanwhile"
    forgotten(harness)
    assert harness.topics() == set()
    harness.core.validate()


def test_steps_that_are_given_up_hold_up_no_later_registration(harness: Harness) -> None:
    steps = begin(harness, SOME.request())
    next(steps)
    steps.close()
    harness.register(SOME)
    assert len(harness.topics()) == len(SOME.topics)


@pytest.mark.parametrize("how", ["closes", "expires"])
def test_thousands_of_brokers_of_one_connection_leave_in_pieces(how: str) -> None:
    """9,000 that left at once held up a name server for half a second."""
    harness = Harness()
    for number in range(500):
        announced = Announced(name=f"b{number}", address=f"10.0.0.{number}:1")
        harness.register(announced)
    pieces: list[int] = []
    channel, now_ms = FakeChannel(1), NOW_MS + 2 * route_table.LIVE_MS
    while harness.brokers():
        if how == "closes":
            calls = count_calls(lambda: harness.core.channel_closed(channel))
        else:
            now_ms += name_server.REST_MS if pieces else 0
            calls = count_calls(partial(harness.core.tick, now_ms))
        pieces.append(calls)
        harness.core.validate()
    assert len(pieces) == -(-500 // route_table.REMOVED_AT_ONCE_MAX)
    assert max(pieces) < CALLS_MAX
    assert harness.core.next_tick_ms() <= now_ms + name_server.SCAN_MS
