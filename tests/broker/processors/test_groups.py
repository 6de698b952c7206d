"""Tests of codes 38, 200, 201, 203, 204, 207, 328 and 352."""

import json

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness, subscription
from tests.calls import count_calls
from wakelog.protocol.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    decode_body,
    encode_body,
)
from wakelog.protocol.codes import LanguageCode, RequestCode, ResponseCode


def test_a_group_is_defined(harness: Harness) -> None:
    body = encode_body(SubscriptionGroupConfig("g", retry_max_times=3))
    response = harness.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert response.code == ResponseCode.SUCCESS
    found = harness.broker.state.groups.find("g", NOW_MS)
    assert found is not None
    assert found.retry_max_times == 3
    assert harness.saved == ["subscriptionGroup"]


@pytest.mark.parametrize("body", [b"", b'{"groupName":"../g"}', b'{"retryMaxTimes":3}'])
def test_a_group_that_cannot_be_is_refused(harness: Harness, body: bytes) -> None:
    response = harness.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert harness.instructions() == []


def test_all_groups_are_listed(harness: Harness) -> None:
    harness.beat("g", subscription())
    response = harness.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    listed = decode_body(SubscriptionGroupWrapper, response.body)
    assert {"g", "TOOLS_CONSUMER"} <= listed.subscription_group_table.keys()
    assert listed.data_version.counter == 1


@pytest.mark.parametrize(
    ("language", "name"),
    [(int(LanguageCode.GO), "GO"), (0, "JAVA"), (200, "OTHER"), ("RUST", "RUST")],
)
def test_the_connections_of_a_group_are_shown(
    harness: Harness, language: int | str, name: str
) -> None:
    harness.beat("g", subscription("T", "A"), channel=FakeChannel(7, "10.0.0.3", 555))
    group = harness.broker.state.consumers.get("g")
    assert group is not None
    group.clients[7].language = language
    fields = {"consumerGroup": "g"}
    response = harness.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
    shown = json.loads(response.body)
    assert shown["connectionSet"] == [
        {"clientAddr": "10.0.0.3:555", "clientId": "c1", "language": name, "version": 399}
    ]
    assert shown["subscriptionTable"]["T"]["subString"] == "A"
    assert (shown["consumeType"], shown["messageModel"], shown["consumeFromWhere"]) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
    )


def test_a_constant_that_is_none_of_4_9_3s_is_left_out(harness: Harness) -> None:
    """As with fastjson, which reads an unknown name of an enumeration as null."""
    body = (
        b'{"clientID":"c1","consumerDataSet":[{"groupName":"g","consumeType":"NOPE",'
        b'"messageModel":"broadcasting","consumeFromWhere":"NEVER"}]}'
    )
    assert harness.ask(RequestCode.HEART_BEAT, {}, body).code == ResponseCode.SUCCESS
    response = harness.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    shown = json.loads(response.body)
    assert "consumeType" not in shown and "consumeFromWhere" not in shown
    assert shown["messageModel"] == "BROADCASTING"


def test_a_group_without_connections_is_not_online(harness: Harness) -> None:
    fields = {"consumerGroup": "g"}
    response = harness.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
    assert response.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert response.remark == "the consumer group[g] not online"


def test_the_clients_of_a_group_are_listed(harness: Harness) -> None:
    harness.beat("g", subscription())
    harness.beat("g", subscription(), channel=FakeChannel(2), client_id="c2")
    response = harness.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert response.code == ResponseCode.SUCCESS
    assert json.loads(response.body) == {"consumerIdList": ["c1", "c2"]}


def test_the_list_of_clients_is_encoded_once_for_all_that_ask(harness: Harness) -> None:
    """Each of 5,000 members asks for it: 4 ms each for 5,000."""

    def ask() -> str:
        harness.validate()
        fields = {"consumerGroup": "g"}
        return harness.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields).body.decode()

    for number in range(200):
        harness.beat("g", subscription(), channel=FakeChannel(number), client_id=f"c{number}")
    group = harness.broker.state.consumers.get("g")
    assert group is not None
    first, again = (count_calls(group.encoded_client_ids) for _ in range(2))
    assert first > 50 * again
    harness.beat("g", subscription(), channel=FakeChannel(7), client_id="renamed")
    assert '"renamed"' in ask() and '"c7"' not in ask()
    harness.broker.channel_closed(FakeChannel(7), NOW_MS)
    assert '"renamed"' not in ask()


def test_a_group_without_clients_is_an_error(harness: Harness) -> None:
    response = harness.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "no consumer for this group, g"


@pytest.mark.parametrize(("fields", "left"), [({}, 5), ({"removeOffset": "true"}, -1)])
def test_a_group_is_deleted(harness: Harness, fields: dict[str, str], left: int) -> None:
    harness.beat("g", subscription())
    offsets = harness.broker.state.offsets
    offsets.commit("g", "T", 0, 5)
    offsets.commit("gg", "T", 0, 6)
    version = harness.broker.state.groups.data_version.counter
    harness.saved.clear()
    asked = {"groupName": "g", **fields}
    assert harness.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, asked).code == ResponseCode.SUCCESS
    groups = harness.broker.state.groups
    assert "g" not in groups.wrapper().subscription_group_table
    assert groups.data_version.counter == version + 1
    assert harness.saved == ["subscriptionGroup", *(["consumerOffset"] if fields else [])]
    assert (offsets.query("g", "T", 0), offsets.query("gg", "T", 0)) == (left, 6)
    harness.validate()


def test_an_unknown_group_is_deleted_without_a_trace(harness: Harness) -> None:
    fields = {"groupName": "never"}
    assert harness.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields).code == ResponseCode.SUCCESS
    assert harness.broker.state.groups.data_version.counter == 0
    assert harness.instructions() == []


@pytest.mark.parametrize("setting", ["true", "false"])
def test_a_deleted_group_loses_its_statistics_if_that_is_configured(setting: str) -> None:
    harness = Harness(autoDeleteUnusedStats=setting)
    harness.broker.state.traffic.count_get("T", "g", 1, 1)
    harness.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
    found = harness.broker.state.traffic.snapshots("GROUP_GET_NUMS", "T@g")
    assert (found is None) == (setting == "true")


def test_all_producers_are_listed_as_4_9_4_lists_them(harness: Harness) -> None:
    first, second = FakeChannel(7, "10.0.0.3", 555), FakeChannel(8, "10.0.0.4", 556)
    harness.beat_producer("pg", first)
    harness.now_ms += 5
    harness.beat_producer("pg", second)
    response = harness.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    assert response.body == (
        b'{"data":{"pg":['
        b'{"clientId":"p1","language":"JAVA","lastUpdateTimestamp":%d,'
        b'"remoteIP":"/10.0.0.3:555","version":399},'
        b'{"clientId":"p1","language":"JAVA","lastUpdateTimestamp":%d,'
        b'"remoteIP":"/10.0.0.4:556","version":399}]}}' % (NOW_MS, NOW_MS + 5)
    )
    for channel in (first, second):
        harness.broker.channel_closed(channel, harness.now_ms)
    assert harness.ask(RequestCode.GET_ALL_PRODUCER_INFO).body == b'{"data":{}}'


def test_the_clients_of_a_producer_group_are_shown(harness: Harness) -> None:
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    absent = harness.ask(code, {"producerGroup": "pg"})
    assert absent.code == ResponseCode.SYSTEM_ERROR
    assert absent.remark == "the producer group[pg] not exist"
    harness.beat_producer("pg", FakeChannel(7, "10.0.0.3", 555))
    assert harness.ask(code, {"producerGroup": "pg"}).body == (
        b'{"connectionSet":[{"clientAddr":"10.0.0.3:555","clientId":"p1","language":"JAVA",'
        b'"version":399}]}'
    )


@pytest.mark.parametrize("creates", [True, False])
def test_one_group_is_shown(creates: bool) -> None:
    harness = Harness(autoCreateSubscriptionGroup=str(creates).lower())
    known = SubscriptionGroupConfig("g", retry_max_times=3)
    harness.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(known))
    response = harness.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert response.body == (
        b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"groupName":"g","notifyConsumerIdsChangedEnable":true,'
        b'"retryMaxTimes":3,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
    )
    response = harness.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "other"})
    assert "other" not in harness.broker.state.groups.wrapper().subscription_group_table
    if creates:
        shown = decode_body(SubscriptionGroupConfig, response.body)
        assert shown == SubscriptionGroupConfig("other")
    else:
        assert response.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert response.remark == "No group in this broker"
