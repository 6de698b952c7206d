"""Settings and their ranges."""

from itertools import chain

import msgspec
import pytest

from wakelog.broker.config import (
    KEYS_WITHOUT_EFFECT,
    SETTING_CHECKS,
    BrokerConfig,
    java_key,
)
from wakelog.storage import config as store_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import plain_type

# Section 6: key and default of 4.9.3.
DEFAULTS = {
    "brokerClusterName": "DefaultCluster",
    "brokerId": 0,
    "brokerPermission": 6,
    "defaultTopicQueueNums": 8,
    "autoCreateTopicEnable": True,
    "autoCreateSubscriptionGroup": True,
    "flushConsumerOffsetInterval": 5_000,
    "sendThreadPoolQueueCapacity": 10_000,
    "pullThreadPoolQueueCapacity": 100_000,
    "queryThreadPoolQueueCapacity": 20_000,
    "clientManagerThreadPoolQueueCapacity": 1_000_000,
    "consumerManagerThreadPoolQueueCapacity": 1_000_000,
    "heartbeatThreadPoolQueueCapacity": 50_000,
    "endTransactionPoolQueueCapacity": 100_000,
    "longPollingEnable": True,
    "shortPollingTimeMills": 1_000,
    "slaveReadEnable": False,
    "traceOn": True,
    "regionId": "DefaultRegion",
    "registerNameServerPeriod": 30_000,
    "waitTimeMillsInSendQueue": 200,
    "waitTimeMillsInPullQueue": 5_000,
    "waitTimeMillsInHeartbeatQueue": 31_000,
    "waitTimeMillsInTransactionQueue": 3_000,
    "listenPort": 10911,
    "serverChannelMaxIdleTimeSeconds": 120,
}


def test_keys_and_defaults_are_upstreams() -> None:
    fields = {f.encode_name: f.default for f in msgspec.structs.fields(BrokerConfig)}
    assert {key: fields[key] for key in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("broker_ip1", "brokerIP1"),
        ("start_accept_send_request_time_stamp", "startAcceptSendRequestTimeStamp"),
        ("region_id", "regionId"),
    ],
)
def test_a_field_has_upstreams_spelling(name: str, key: str) -> None:
    assert java_key(name) == key


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("listen_port", 2, "3 to 65534"),
        ("listen_port", 65_535, "3 to 65534"),
        ("broker_permission", 16, "0 to 15"),
        ("default_topic_queue_nums", -1, "0 to 65535"),
        ("short_polling_time_mills", 0, "1 to 9223372036854775807"),
        ("server_socket_backlog", 1 << 31, "1 to 2147483647"),
        ("broker_cluster_name", "a\x02b", "printable characters"),
        ("broker_cluster_name", "", SETTING_CHECKS["brokerClusterName"].accepted),
        ("broker_name", "a/b", SETTING_CHECKS["brokerName"].accepted),
        ("broker_ip2", "my host", SETTING_CHECKS["brokerIP2"].accepted),
        ("namesrv_addr", "here", SETTING_CHECKS["namesrvAddr"].accepted),
        ("msg_trace_topic_name", "my trace", SETTING_CHECKS["msgTraceTopicName"].accepted),
    ],
)
def test_an_unusable_value_is_refused(field: str, value: object, accepted: str) -> None:
    with pytest.raises(IllegalConfiguration) as refusal:
        BrokerConfig(**{field: value})  # type: ignore[arg-type]
    assert refusal.value.key == java_key(field)
    assert refusal.value.accepted == accepted


def test_every_text_has_a_check() -> None:
    kinds = {f.encode_name: plain_type(f.type) for f in msgspec.structs.fields(BrokerConfig)}
    texts = {key for key, kind in kinds.items() if kind is str}
    assert texts == set(SETTING_CHECKS)


@pytest.mark.parametrize("field", ["filter_data_clean_time_span", "wait_time_mills_in_send_queue"])
def test_what_is_a_java_long_may_be_one(field: str) -> None:
    longest = (1 << 63) - 1
    assert getattr(BrokerConfig(**{field: longest}), field) == longest  # type: ignore[arg-type]


def test_the_address_is_the_advertised_one() -> None:
    assert BrokerConfig(broker_ip1="10.0.0.1", listen_port=20911).broker_addr == "10.0.0.1:20911"


def test_no_key_is_in_two_places() -> None:
    places = [
        list(BrokerConfig.__struct_encode_fields__),
        list(StoreConfig.__struct_encode_fields__),
        list(KEYS_WITHOUT_EFFECT),
        list(store_config.KEYS_WITHOUT_EFFECT),
        list(store_config.KEYS_REFUSED_WHEN_TRUE),
    ]
    keys = list(chain.from_iterable(places))
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("serverWorkerThreads", "8"),
        ("maxDelayTime", "40"),
        ("messageStorePlugIn", ""),
        ("rmqAddressServerDomain", None),  # shown only if the file has it
    ],
)
def test_a_default_is_4_9_3s(key: str, value: str | None) -> None:
    assert KEYS_WITHOUT_EFFECT[key].default == value
