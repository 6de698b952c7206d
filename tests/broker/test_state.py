"""What processors share."""

import pytest

from tests.broker.harness import NOW_MS, FakeChannel, Harness
from wakelog.broker.decision import Push
from wakelog.broker.membership import Client, GroupChange
from wakelog.protocol.bodies import ConsumerData, SubscriptionGroupConfig
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.errors import RemoteProtocolError


def test_an_unknown_group_is_refused_as_upstream_words_it() -> None:
    state = Harness(autoCreateSubscriptionGroup="false").broker.state
    with pytest.raises(RemoteProtocolError) as refusal:
        state.find_group("g", NOW_MS)
    assert refusal.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert refusal.value.remark.startswith("subscription group not exist, g \nSee http")


def test_consumers_are_notified_one_way_each_with_its_own_opaque(harness: Harness) -> None:
    for channel_id in (4, 7):
        client = Client(FakeChannel(channel_id), f"c{channel_id}", 0, 399, NOW_MS)
        harness.broker.state.consumers.register(client, ConsumerData("g"))
    harness.broker.state.notify_consumers(GroupChange("g", 2), now_ms=NOW_MS)
    pushes = [i for i in harness.instructions() if isinstance(i, Push)]
    assert [push.channel_id for push in pushes] == [4, 7]
    for push in pushes:
        assert push.command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert push.command.ext_fields == {"consumerGroup": "g"}
        assert push.command.is_oneway
    assert pushes[0].command.opaque != pushes[1].command.opaque


@pytest.mark.parametrize(
    ("keys", "enabled"), [({"notifyConsumerIdsChangedEnable": "false"}, True), ({}, False)]
)
def test_no_consumer_is_notified_when_that_is_off(keys: dict[str, str], enabled: bool) -> None:
    harness = Harness(**keys)
    group = SubscriptionGroupConfig("g", notify_consumer_ids_changed_enable=enabled)
    harness.broker.state.consumers.register(
        Client(FakeChannel(4), "c4", 0, 399, NOW_MS), ConsumerData("g")
    )
    harness.broker.state.notify_consumers(GroupChange("g", 1), group, now_ms=NOW_MS)
    harness.broker.state.notify_consumers(None, now_ms=NOW_MS)
    assert harness.instructions() == []
