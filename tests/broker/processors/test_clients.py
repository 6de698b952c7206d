"""Codes 34, 35, 46 and 301."""

from collections.abc import Callable, Generator, Sequence

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness, sql_subscription, subscription
from tests.fakes.registrations import decode_register_broker
from wakelog.broker import filter_servers
from wakelog.broker import state as broker_state
from wakelog.broker.consumer_notices import PERIOD_MS_MAX
from wakelog.broker.decision import (
    Appender,
    CloseChannel,
    Persist,
    RegisterBroker,
    WriteLine,
)
from wakelog.broker.effects import Work
from wakelog.broker.registration import registration
from wakelog.broker.table_limits import TableLimits
from wakelog.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    SubscriptionGroupConfig,
    encode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand

MakeHarness = Callable[..., Harness]
NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def test_a_heartbeat_makes_the_groups_retry_topic_and_routes_it(harness: Harness) -> None:
    """Section 12: it must be created and routed on heartbeat."""
    assert harness.beat("g", subscription()).code == ResponseCode.SUCCESS
    topic = harness.topic("%RETRY%g")
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert RegisterBroker(("%RETRY%g",)) in harness.instructions()


def test_the_retry_topic_has_the_groups_number_of_queues(harness: Harness) -> None:
    group = SubscriptionGroupConfig("g", retry_queue_nums=3)
    harness.broker.state.groups.update(group, NOW_MS)
    harness.beat("g", unit_mode=True)
    topic = harness.topic("%RETRY%g")
    assert (topic.read_queue_nums, topic.topic_sys_flag) == (3, 0x2)


def test_a_group_whose_retry_topic_would_be_too_long_has_none(harness: Harness) -> None:
    group = "g" * 125
    assert harness.beat(group, subscription()).code == ResponseCode.SUCCESS
    assert harness.broker.state.topics.get(f"%RETRY%{group}") is None
    assert harness.broker.state.consumers.get(group) is not None


def test_the_second_heartbeat_changes_nothing(harness: Harness) -> None:
    harness.beat("g", subscription())
    harness.instructions()
    harness.now_ms += 30_000
    harness.beat("g", subscription())
    assert harness.instructions() == []


def test_a_second_consumer_makes_all_rebalance(harness: Harness) -> None:
    harness.beat("g", subscription())
    assert harness.pushed(NOTIFY) == [1]
    harness.beat("g", subscription(), channel=FakeChannel(2), client_id="c2")
    assert sorted(harness.pushed(NOTIFY)) == [1, 2]


@pytest.mark.parametrize(
    ("keys", "group_notifies", "notified"),
    [({}, True, [1]), ({}, False, []), ({"notifyConsumerIdsChangedEnable": "false"}, True, [])],
)
def test_telling_can_be_switched_off(
    make_harness: MakeHarness, keys: dict[str, str], group_notifies: bool, notified: list[int]
) -> None:
    harness = make_harness(**keys)
    group = SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=group_notifies)
    harness.broker.state.groups.update(group, NOW_MS)
    harness.beat("g", subscription())
    assert harness.pushed(NOTIFY) == notified


def test_a_group_that_may_not_be_made_is_still_a_member(make_harness: MakeHarness) -> None:
    harness = make_harness(autoCreateSubscriptionGroup="false")
    assert harness.beat("g", subscription()).code == ResponseCode.SUCCESS
    assert harness.broker.state.consumers.get("g") is not None
    assert harness.broker.state.topics.get("%RETRY%g") is None


@pytest.mark.parametrize("group", ["", "../g", "a b"])
def test_a_group_that_is_no_name_is_refused(harness: Harness, group: str) -> None:
    assert harness.beat(group, subscription()).code == ResponseCode.SYSTEM_ERROR
    assert harness.beat_producer(group).code == ResponseCode.SYSTEM_ERROR
    statistics = harness.broker.statistics()
    assert statistics["consumers"]["group_count"] == statistics["producers"]["group_count"] == 0


def test_a_producer_is_known_by_its_group(harness: Harness) -> None:
    harness.beat_producer("pg")
    (client,) = harness.broker.state.producers.clients("pg")
    assert (client.client_id, client.version) == ("p1", 399)
    # A producer's heartbeat makes no group of consumers.
    assert Persist("subscriptionGroup") not in harness.instructions()


def test_a_heartbeat_of_the_go_client_is_understood(harness: Harness) -> None:
    """Section 12: code sets are strings, versions are nanoseconds."""
    body = (
        b'{"clientID":"10.0.0.9@1","producerDataSet":[],"consumerDataSet":[{"groupName":"g",'
        b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
        b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","unitMode":false,'
        b'"subscriptionDataSet":[{"classFilterMode":false,"topic":"T","subString":"A",'
        b'"tagsSet":["A"],"codeSet":["65"],"subVersion":1700000000000000001,'
        b'"expressionType":"TAG"}]}]}'
    )
    assert harness.ask(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SUCCESS
    found = harness.broker.state.consumers.subscription("g", "T")
    assert found is not None
    assert (found.code_set, found.sub_version) == ({65}, 1_700_000_000_000_000_001)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"consumerDataSet":5}'])
def test_a_heartbeat_that_is_none_is_refused(harness: Harness, body: bytes) -> None:
    assert harness.ask(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SYSTEM_ERROR


def test_an_empty_heartbeat_is_fine(harness: Harness) -> None:
    body = encode_body(HeartbeatData("c1"))
    assert harness.ask(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("client_id", [{"clientID": "c1"}, {}], ids=["named", "unnamed"])
def test_a_client_that_unregisters_leaves_and_the_others_rebalance(
    harness: Harness, client_id: dict[str, str]
) -> None:
    harness.beat("g", subscription())
    harness.beat("g", subscription(), channel=FakeChannel(2), client_id="c2")
    harness.beat_producer("pg")
    harness.instructions()
    harness.now_ms += PERIOD_MS_MAX
    fields = {"consumerGroup": "g", "producerGroup": "pg"} | client_id
    assert harness.ask(RequestCode.UNREGISTER_CLIENT, fields).code == ResponseCode.SUCCESS
    assert harness.pushed(NOTIFY) == [2]
    assert harness.broker.state.producers.clients("pg") == []


LONG = [f"g{number}" for number in range(200)]
LEFT = {"consumerGroup": "g100", "producerGroup": "pg100"}


def long_heartbeat(harness: Harness, groups: Sequence[str] = LONG) -> Work:
    """Return the steps of a heartbeat that names so many groups of each kind."""
    producers = [ProducerData(f"p{name}") for name in groups]
    consumers = [ConsumerData(name, subscription_data_set=[subscription()]) for name in groups]
    body = encode_body(HeartbeatData("c1", producers, consumers))
    request = harness.request(RequestCode.HEART_BEAT, body=body)
    steps = harness.broker.process(request, harness.channel, harness.now_ms)
    assert isinstance(steps, Generator)
    return steps


def groups_of(harness: Harness) -> set[str]:
    state = harness.broker.state
    return {*state.consumers.groups_of(1), *state.producers.groups_of(1)}


@pytest.mark.parametrize("steps_before", [0, 1, 8, 14, 20, 25])
def test_a_client_that_leaves_while_its_heartbeat_is_read_has_left(
    harness: Harness, steps_before: int
) -> None:
    """Whatever the heartbeat has registered by then: nothing, or the group, or all of them."""
    everything = {*LONG, *(f"p{name}" for name in LONG)}
    steps = long_heartbeat(harness)
    for _ in range(steps_before):
        next(steps)
    assert harness.ask(RequestCode.UNREGISTER_CLIENT, LEFT).code == ResponseCode.SUCCESS
    harness.answered(steps)
    assert groups_of(harness) == everything - {"g100", "pg100"}
    assert harness.broker.state.consumers.get("g100") is None
    assert len(harness.broker.state.heartbeats) == 0
    harness.validate()


def test_a_heartbeat_that_is_refused_has_left_as_well(harness: Harness) -> None:
    steps = long_heartbeat(harness, ["g100", "no group/", *LONG])
    harness.ask(RequestCode.UNREGISTER_CLIENT, LEFT)
    assert harness.answered(steps).code == ResponseCode.SYSTEM_ERROR
    assert groups_of(harness) == set()
    assert len(harness.broker.state.heartbeats) == 0


def test_a_client_that_comes_back_meanwhile_stays(harness: Harness) -> None:
    steps = long_heartbeat(harness)
    next(steps)
    harness.ask(RequestCode.UNREGISTER_CLIENT, LEFT)
    harness.beat("g100", subscription())
    harness.settle(steps)
    assert "g100" in groups_of(harness) and "pg100" not in groups_of(harness)


@pytest.mark.parametrize("steps_before", [0, 5])
def test_a_heartbeat_that_is_dropped_keeps_nothing(harness: Harness, steps_before: int) -> None:
    """Its connection has closed, or too many are under way."""
    steps = long_heartbeat(harness)
    for _ in range(steps_before):
        next(steps)
    harness.ask(RequestCode.UNREGISTER_CLIENT, LEFT)
    steps.close()
    del steps
    assert len(harness.broker.state.heartbeats) == 0


def test_another_connection_leaves_for_itself_only(harness: Harness) -> None:
    steps = long_heartbeat(harness)
    harness.ask(RequestCode.UNREGISTER_CLIENT, LEFT, channel=FakeChannel(2))
    harness.settle(steps)
    assert {"g100", "pg100"} < groups_of(harness)


def test_a_client_without_a_group_may_unregister(harness: Harness) -> None:
    fields = {"clientID": "c1"}
    assert harness.ask(RequestCode.UNREGISTER_CLIENT, fields).code == ResponseCode.SUCCESS
    assert harness.ask(RequestCode.UNREGISTER_CLIENT, {}).code == ResponseCode.SUCCESS


# Code 46: body, code.
CHECKS = [
    (b"{}", ResponseCode.SUCCESS),
    (b'{"subscriptionData":{"topic":"T","expressionType":"TAG"}}', ResponseCode.SUCCESS),
    (b'{"subscriptionData":{"topic":"T","subString":"A"}}', ResponseCode.SUCCESS),
    (b'{"subscriptionData":{"topic":"T","expressionType":"SQL92"}}', ResponseCode.SYSTEM_ERROR),
]


# Code 46 with enablePropertyFilter: type, expression, code, remark.
EXPRESSIONS = [
    ("SQL92", "a > 1", 0, None),
    ("SQL92", "a = NULL", 23, "java.lang.RuntimeException: 'NULL' cannot be compared."),
    ("XX", "a > 1", 23, "there is no filter language XX"),
    ("TAG", "a >", 0, None),
]


@pytest.mark.parametrize(("kind", "expression", "code", "remark"), EXPRESSIONS)
def test_an_expression_is_compiled_to_see_whether_it_can_be(
    make_harness: MakeHarness, kind: str, expression: str, code: int, remark: str | None
) -> None:
    harness = make_harness(enablePropertyFilter="true")
    checked = SubscriptionData(topic="T", sub_string=expression, expression_type=kind)
    body = encode_body(CheckClientRequestBody(subscription_data=checked))
    response = harness.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    assert response.code == code
    assert (response.remark or "").startswith(remark or "")
    lines = [i for i in harness.instructions() if isinstance(i, WriteLine)]
    assert [line.appender for line in lines] == [Appender.FILTER] * bool(code)


def test_filters_live_as_long_as_the_group_has_clients(harness: Harness) -> None:
    filters, second = harness.broker.state.filters, FakeChannel(2)
    for channel in (harness.channel, second):
        harness.beat("g", sql_subscription("a > 1"), channel=channel)
    kept = filters.get("T", "g")
    assert kept is not None
    fields = {"clientID": "c1", "consumerGroup": "g"}
    harness.ask(RequestCode.UNREGISTER_CLIENT, fields)
    assert not kept.is_dead
    harness.ask(RequestCode.UNREGISTER_CLIENT, fields, channel=second)
    assert kept.is_dead
    harness.beat("g", sql_subscription("a > 1"))
    assert not kept.is_dead
    harness.broker.channel_closed(harness.channel, harness.now_ms)
    assert kept.is_dead


@pytest.mark.parametrize(("body", "code"), CHECKS)
def test_only_tags_are_supported(harness: Harness, body: bytes, code: int) -> None:
    response = harness.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    assert response.code == code
    if code:
        assert response.remark == "The broker does not support consumer to filter message by SQL92"


def test_a_subscription_without_a_version_is_as_new_as_its_heartbeat(harness: Harness) -> None:
    for tags in ("A", "B"):
        beat = subscription("T", tags)
        beat.sub_version = None
        assert harness.beat("g", beat).code == ResponseCode.SUCCESS
        found = harness.broker.state.consumers.subscription("g", "T")
        assert found is not None
        assert (found.sub_string, found.sub_version) == (tags, harness.now_ms)
        harness.now_ms += 1
    pulled = harness.pulled(sysFlag=0, subscription="", subVersion=harness.now_ms - 1)
    assert pulled.code != ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_a_filter_server_is_announced_to_name_servers(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def register(channel_id: int, address: str = "10.0.0.7:9") -> RemotingCommand:
        fields = {"filterServerAddr": address}
        channel = FakeChannel(channel_id)
        return harness.ask(RequestCode.REGISTER_FILTER_SERVER, fields, channel=channel)

    def announced() -> list[str]:
        harness.validate()
        (request,) = registration(harness.broker.state)()
        return decode_register_broker(request.body, compressed=False).filter_server_list

    monkeypatch.setattr(filter_servers, "FILTER_SERVERS_MAX", 2)
    response = register(7)
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    assert response.ext_fields == {"brokerName": "broker-a", "brokerId": "0"}
    assert register(8, "x" * 256).code == ResponseCode.SYSTEM_ERROR
    register(8, "10.0.0.8:9")
    assert register(9).code == ResponseCode.SYSTEM_ERROR  # the limit
    assert announced() == ["10.0.0.7:9", "10.0.0.8:9"]
    harness.broker.channel_closed(FakeChannel(8), harness.now_ms)
    harness.now_ms += 30_000
    harness.broker.tick(harness.now_ms)
    register(7, "other")  # its first address stays
    assert announced() == ["10.0.0.7:9"]
    harness.instructions()
    harness.now_ms += 30_001
    harness.broker.tick(harness.now_ms)
    assert CloseChannel(7) in harness.instructions()
    assert announced() == []


@pytest.mark.parametrize("more", [0, 1])
def test_a_heartbeat_names_as_many_groups_as_a_connection_may_have(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    limits = TableLimits(memberships_per_connection=4)
    monkeypatch.setattr(broker_state, "DEFAULT_LIMITS", limits)
    harness = make_harness()
    consumers = [ConsumerData(f"g{number}") for number in range(2)]
    producers = [ProducerData(f"p{number}") for number in range(2 + more)]
    body = encode_body(HeartbeatData("c", producers, consumers))
    response = harness.ask(RequestCode.HEART_BEAT, body=body)
    assert (response.code == ResponseCode.SUCCESS) == (not more)
    assert (harness.broker.state.consumers.get("g0") is None) == bool(more)
