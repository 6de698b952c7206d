"""What each request is answered, with a body byte for byte (specification 1.2, 1.6, 2.9)."""

import zlib
from collections.abc import Callable

import msgspec
import pytest

from tests.broker.access.requests import (
    ADMIN,
    LOW,
    UNKNOWN,
    UNSIGNED,
    WRONG,
    access_control,
    signed,
)
from tests.nameserver.harness import NOW_MS, VERSION, Announced, Harness, topic
from wakelog.broker.access.addresses import AddressPatterns
from wakelog.broker.access.administrators import Administrators
from wakelog.broker.access.failures import FAILURES_MAX
from wakelog.nameserver.decision import CloseChannel, NotAllowed
from wakelog.nameserver.processors import BROKER_CODES, CLIENT_CODES, PROCESSORS
from wakelog.network.signing import Credentials
from wakelog.protocol.bodies import DataVersion, TopicConfigSerializeWrapper, encode_body
from wakelog.protocol.codes import VERSION_3_0_11, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.storage.settings_text import BODY_BYTES_MAX

MASTER = Announced(topics=(topic("T"),))
SLAVE = Announced(address="10.0.0.2:10911", broker_id=1, channel=2)
OTHER = Announced(
    name="broker-b", cluster="c2", address="10.0.0.3:10911", channel=3, topics=(topic("U"),)
)

# Code, fields and body of the request; code and body of the answer after MASTER and SLAVE
# registered. Fields stand in the order of their names, and keys that are numbers unquoted (1.6).
BROKER_A = (
    '{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"c1"}'
)
QUEUES = '{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}'
BODIES = [
    (
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        {"topic": "T"},
        f'{{"brokerDatas":[{BROKER_A}],"filterServerTable":{{}},"queueDatas":[{QUEUES}]}}',
    ),
    (
        RequestCode.GET_BROKER_CLUSTER_INFO,
        {},
        f'{{"brokerAddrTable":{{"broker-a":{BROKER_A}}},"clusterAddrTable":{{"c1":["broker-a"]}}}}',
    ),
    (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, '{"topicList":["T"]}'),
    (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "c1"}, '{"topicList":["T"]}'),
    (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "nowhere"}, '{"topicList":[]}'),
    (RequestCode.GET_UNIT_TOPIC_LIST, {}, '{"topicList":[]}'),
    (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, {}, '{"topicList":[]}'),
    (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, {}, '{"topicList":[]}'),
    (RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}, '{"table":{"k":"v"}}'),
    (RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"}, ""),
    (RequestCode.UNREGISTER_BROKER, MASTER.identity(), ""),
    (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "never"}, ""),
    (RequestCode.DELETE_KV_CONFIG, {"namespace": "n", "key": "never"}, ""),
]


@pytest.mark.parametrize(("code", "fields", "body"), BODIES)
def test_a_successful_answer(
    harness: Harness, code: int, fields: dict[str, str], body: str
) -> None:
    harness.register(MASTER)
    harness.register(SLAVE)
    harness.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
    response = harness.ask(code, b"", **fields)
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    assert response.body.decode() == body


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (RequestCode.GET_BROKER_CLUSTER_INFO, b'{"brokerAddrTable":{},"clusterAddrTable":{}}'),
        (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, b'{"topicList":[]}'),
        (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, b'{"topicList":[]}'),
    ],
)
def test_without_a_broker_lists_are_empty(harness: Harness, code: int, body: bytes) -> None:
    assert harness.ask(code).body == body


# Specification 1.2: the other answers, after MASTER registered.
@pytest.mark.parametrize(
    ("code", "fields", "expected", "remark"),
    [
        (
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": "t"},
            ResponseCode.TOPIC_NOT_EXIST,
            "No topic route info in name server for the topic: t, none of the brokers (1) has it, "
            "the nearest name is T\nSee http://rocketmq.apache.org/docs/faq/ for further details.",
        ),
        (
            RequestCode.GET_KV_CONFIG,
            {"namespace": "n", "key": "k"},
            ResponseCode.QUERY_NOT_FOUND,
            "No config item, Namespace: n Key: k",
        ),
        (
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            {"namespace": "n"},
            ResponseCode.QUERY_NOT_FOUND,
            "No config item, Namespace: n",
        ),
        (
            RequestCode.PUT_KV_CONFIG,
            {"namespace": "n", "key": "k"},
            ResponseCode.SYSTEM_ERROR,
            "org.apache.rocketmq.remoting.exception.RemotingCommandException: "
            "the custom field <value> is null",
        ),
        (
            RequestCode.REGISTER_BROKER,
            {**MASTER.identity(), "haServerAddr": "h", "bodyCrc32": "1"},
            ResponseCode.SYSTEM_ERROR,
            "crc32 not match",
        ),
    ],
)
def test_a_refusal(
    harness: Harness, code: int, fields: dict[str, str], expected: int, remark: str
) -> None:
    harness.register(MASTER)
    response = harness.ask(code, b"", **fields)
    assert (response.code, response.remark, response.body) == (expected, remark, b"")


def test_every_required_field_is_asked_for(harness: Harness) -> None:
    without_fields = {
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
    }
    answered = {code for code in PROCESSORS if harness.ask(code).code == ResponseCode.SUCCESS}
    assert answered == without_fields


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_in_both_forms(harness: Harness, compressed: bool) -> None:
    # Specification 2.9; the crc is taken over the bytes as they are sent.
    request = MASTER.request(compressed=compressed)
    response = harness.answered(request)
    assert response.code == ResponseCode.SUCCESS
    assert harness.topics() == {"T"}
    request.body += b" "
    response = harness.answered(request)
    assert response.remark == "crc32 not match"


def test_a_checksum_of_zero_is_not_checked(harness: Harness) -> None:
    request = MASTER.request()
    request.ext_fields["bodyCrc32"] = "0"
    response = harness.answered(request)
    assert response.code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("body", "compressed"),
    [(b"{", False), (b"no stream", True), (zlib.compress(b"\x7f\xff\xff\xff"), True)],
)
def test_a_malformed_registration_changes_nothing(
    harness: Harness, body: bytes, compressed: bool
) -> None:
    request = MASTER.request()
    request.body = body
    request.ext_fields |= {"bodyCrc32": "0", "compressed": str(compressed).lower()}
    response = harness.answered(request)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert harness.brokers() == {}


def test_a_registration_without_a_body_has_no_topics(harness: Harness) -> None:
    request = MASTER.request()
    request.body = b""
    request.ext_fields["bodyCrc32"] = "0"
    assert harness.send(request) is not None
    assert harness.brokers() == {"broker-a": {0: MASTER.address}}
    assert harness.topics() == set()


def test_a_broker_before_3_0_11_sends_the_topics_alone(harness: Harness) -> None:
    harness.register(Announced(topics=(topic("T"),), filter_servers=("f:1",)))
    request = MASTER.request()
    request.version = VERSION_3_0_11 - 1
    newer = DataVersion(NOW_MS, 2)
    request.body = encode_body(TopicConfigSerializeWrapper({"T": topic("T", 9)}, newer))
    request.ext_fields["bodyCrc32"] = "0"
    assert harness.send(request) is not None
    route = harness.route("T")
    assert route["queueDatas"][0]["readQueueNums"] == 9
    assert route["filterServerTable"] == {MASTER.address: ["f:1"]}


def test_a_registration_returns_the_ordered_topics(harness: Harness) -> None:
    # Specification 4.4: the register response carries the table, if the namespace is there.
    assert harness.register(MASTER).body == b""
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}
    harness.ask(RequestCode.PUT_KV_CONFIG, b"", **order, value="broker-a:4")
    assert harness.register(MASTER).body == b'{"table":{"T":"broker-a:4"}}'
    harness.ask(RequestCode.DELETE_KV_CONFIG, b"", **order)
    assert harness.register(MASTER).body == b'{"table":{}}'


@pytest.mark.parametrize(
    ("enabled", "name", "expected"),
    [("true", "T", "broker-a:4"), ("true", "U", None), ("false", "T", None)],
)
def test_a_route_has_the_order_only_if_enabled(
    make_harness: Callable[..., Harness], enabled: str, name: str, expected: str | None
) -> None:
    # Specification 4.4: route.orderTopicConf only if orderMessageEnable.
    harness = make_harness(orderMessageEnable=enabled)
    harness.register(Announced(topics=(topic("T"), topic("U"))))
    harness.ask(
        RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4"
    )
    for _ in range(2):  # the second is answered from what the first encoded
        assert harness.route(name).get("orderTopicConf") == expected


def test_system_topics_are_clusters_and_brokers_and_any_address(harness: Harness) -> None:
    harness.register(SLAVE)
    found = harness.ask_json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert found["brokerAddr"] == SLAVE.address
    harness.register(OTHER)
    found = harness.ask_json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert set(found["topicList"]) == {"c1", "c2", "broker-a", "broker-b"}
    assert found["brokerAddr"] == OTHER.address


def test_topics_of_a_cluster_are_its_own(harness: Harness) -> None:
    harness.register(MASTER)
    harness.register(OTHER)
    assert harness.ask_json(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c2")["topicList"] == ["U"]


# Fact 59, and the headers of specification 1.2.
@pytest.mark.parametrize(
    ("code", "name", "counted", "perm"),
    [
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, "broker-a", {"wipeTopicCount": "1"}, 5),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, "broker-a", {"addTopicCount": "1"}, 6),
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, "nobody", {"wipeTopicCount": "0"}, 7),
        (RequestCode.ADD_WRITE_PERM_OF_BROKER, "nobody", {"addTopicCount": "0"}, 7),
    ],
)
def test_write_permission(
    harness: Harness, code: int, name: str, counted: dict[str, str], perm: int
) -> None:
    harness.register(Announced(topics=(topic("T", perm=7),)))
    assert harness.route("T")["queueDatas"][0]["perm"] == 7
    assert harness.ask(code, brokerName=name).ext_fields == counted
    assert harness.route("T")["queueDatas"][0]["perm"] == perm


# Specification 1.2, codes 311 to 313: by the flags of the first queues in the topic's list.
@pytest.mark.parametrize(
    ("sys_flag", "codes"), [(0, set()), (1, {311}), (2, {312, 313}), (1 | 2, {311, 312})]
)
def test_unit_flags(harness: Harness, sys_flag: int, codes: set[int]) -> None:
    harness.register(Announced(topics=(topic("T", sys_flag=sys_flag),)))
    harness.register(msgspec.structs.replace(OTHER, topics=(topic("T", sys_flag=1 | 2),)))
    asked = {code: harness.ask_json(code)["topicList"] for code in (311, 312, 313)}
    assert {code for code, topics in asked.items() if topics == ["T"]} == codes
    assert all(topics in ([], ["T"]) for topics in asked.values())


# Specification 1.2, code 322: changed, and the version known here if there is one.
@pytest.mark.parametrize(
    ("address", "asked", "changed", "known"),
    [
        (MASTER.address, VERSION, "false", VERSION),
        (MASTER.address, DataVersion(NOW_MS, 2), "true", VERSION),
        (MASTER.address, DataVersion(NOW_MS + 1, 1), "true", VERSION),
        (MASTER.address, None, "true", VERSION),
        ("10.9.9.9:1", VERSION, "true", None),
    ],
)
def test_query_data_version(
    harness: Harness,
    address: str,
    asked: DataVersion | None,
    changed: str,
    known: DataVersion | None,
) -> None:
    harness.register(MASTER)
    fields = MASTER.identity() | {"brokerAddr": address}
    body = b"" if asked is None else encode_body(asked)
    response = harness.ask(RequestCode.QUERY_DATA_VERSION, body, **fields)
    assert (response.code, response.ext_fields) == (ResponseCode.SUCCESS, {"changed": changed})
    assert response.body == (b"" if known is None else encode_body(known))


@pytest.mark.parametrize(("asked", "there"), [(VERSION, True), (DataVersion(1, 1), False)])
def test_a_broker_that_has_nothing_new_is_believed_on(
    harness: Harness, asked: DataVersion, there: bool
) -> None:
    harness.register(MASTER)
    harness.tick_at(NOW_MS + 100_000)
    harness.ask(RequestCode.QUERY_DATA_VERSION, encode_body(asked), **MASTER.identity())
    harness.tick_at(NOW_MS + 200_000)
    assert (harness.brokers() != {}) is there


# Code 318 changes all or, with code 1, nothing.
@pytest.mark.parametrize(
    ("body", "code", "remark", "enabled"),
    [
        (b"", ResponseCode.SUCCESS, None, False),
        (b"orderMessageEnable=true", ResponseCode.SUCCESS, None, True),
        (
            b"orderMessageEnable=true\nkvConfigPath=/evil\n",
            ResponseCode.SYSTEM_ERROR,
            "kvConfigPath=/evil: not accepted, give /kvConfig.json: no request says where files "
            "are read or written; give it at the start",
            False,
        ),
        (
            b"orderMessageEnable=1.5",
            ResponseCode.SYSTEM_ERROR,
            "orderMessageEnable=1.5: not accepted, give true or false",
            False,
        ),
        (b"\xff", ResponseCode.SYSTEM_ERROR, "string2Properties error", False),
        (
            b"#" * (BODY_BYTES_MAX + 1),
            ResponseCode.SYSTEM_ERROR,
            f"a configuration of {BODY_BYTES_MAX + 1} bytes",
            False,
        ),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_update_config(
    harness: Harness, body: bytes, code: int, remark: str | None, enabled: bool
) -> None:
    response = harness.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body)
    assert (response.code, response.remark) == (code, remark)
    shown = harness.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode().splitlines()
    assert f"orderMessageEnable={str(enabled).lower()}" in shown
    assert "kvConfigPath=/kvConfig.json" in shown


def test_the_table_is_section_1_2_of_the_specification() -> None:
    assert sorted(PROCESSORS) == [
        *range(100, 107),
        *(205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327),
    ]
    assert not CLIENT_CODES & PROCESSORS.keys()
    assert {10, 11, 34, 310} <= BROKER_CODES


# 4.9.3 does not answer these, and the caller waits (fact 59).
@pytest.mark.parametrize(
    ("code", "registered", "remark"),
    [
        (
            RequestCode.SEND_MESSAGE_V2,
            False,
            " request type 310 not supported by a name server, ask a broker, whose port is 10911 "
            "by default",
        ),
        (
            RequestCode.SEND_MESSAGE_V2,
            True,
            " request type 310 not supported by a name server, ask a broker, such as "
            "10.0.0.1:10911",
        ),
        (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True, " request type 40 not supported"),
        (9_999, True, " request type 9999 not supported"),
    ],
)
def test_another_code(harness: Harness, code: int, registered: bool, remark: str) -> None:
    if registered:
        harness.register(MASTER)
    response = harness.ask(code)
    assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert response.remark == remark


# What each change is sent as; all of them are for administrators.
PUT = {"namespace": "n", "key": "k2", "value": "v"}
CHANGES: dict[int, tuple[dict[str, str], bytes]] = {
    RequestCode.PUT_KV_CONFIG: (PUT, b""),
    RequestCode.DELETE_KV_CONFIG: ({"namespace": "n", "key": "k"}, b""),
    RequestCode.REGISTER_BROKER: (OTHER.request().ext_fields, OTHER.request().body),
    RequestCode.UNREGISTER_BROKER: (MASTER.identity(), b""),
    RequestCode.QUERY_DATA_VERSION: (MASTER.identity(), encode_body(VERSION)),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, b""),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: ({"brokerName": "broker-a"}, b""),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: ({"topic": "T"}, b""),
    RequestCode.UPDATE_NAMESRV_CONFIG: ({}, b"orderMessageEnable=true"),
}


def exposed(make_harness: Callable[..., Harness]) -> Harness:
    """Return a name server with something to lose."""
    harness = make_harness()
    writable = topic("T", perm=2)
    harness.register(msgspec.structs.replace(MASTER, topics=(writable,)))
    harness.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v")
    harness.administrators = Administrators(AddressPatterns(["10.3.0.*"]), access_control())
    harness.core.take_instructions()
    harness.now_ms += 1
    return harness


def contents(harness: Harness) -> object:
    """Return everything that a request could change."""
    state = harness.core._state
    return (
        encode_body(state.routes.cluster_info()),
        state.routes.encoded_route("T"),
        sorted(state.routes.topics),
        [live.seen_ms for live in state.routes._live.values()],
        state.kv_config.snapshot()(),
        msgspec.to_builtins(state.config),
    )


def test_every_code_is_for_anyone_or_for_administrators() -> None:
    administer = {code for code, row in PROCESSORS.items() if row.is_administration}
    assert administer == CHANGES.keys()
    assert all(row.access for row in PROCESSORS.values())


@pytest.mark.parametrize("code", CHANGES)
@pytest.mark.parametrize(
    ("host", "by", "is_let_in"),
    [
        ("10.0.0.9", UNSIGNED, False),
        ("10.0.0.9", UNKNOWN, False),
        ("10.0.0.9", WRONG, False),
        ("10.0.0.9", LOW, False),
        ("10.0.0.9", ADMIN, True),
        ("127.0.0.1", UNSIGNED, True),
        ("10.3.0.1", UNSIGNED, True),
    ],
)
def test_only_administrators_change_anything(
    make_harness: Callable[..., Harness], code: int, host: str, by: Credentials, is_let_in: bool
) -> None:
    harness = exposed(make_harness)
    before = contents(harness)
    harness.host = host
    response = harness.answered(signed(code, by, *CHANGES[code]))
    assert (response.code == ResponseCode.SUCCESS) is is_let_in
    assert (contents(harness) != before) is is_let_in
    if not is_let_in:
        assert response.code == ResponseCode.NO_PERMISSION
        [refused] = harness.instructions(NotAllowed)
        assert (refused.code, refused.host, refused.cause) == (code, host, response.remark)
        assert harness.core.statistics()["refused_count"] == 1


@pytest.mark.parametrize("code", CHANGES)
def test_a_replayed_request_has_the_rights_of_its_account(
    make_harness: Callable[..., Harness], code: int
) -> None:
    """As at a broker: a signature covers neither time nor code, but every value and the body."""
    for by, is_let_in in ((LOW, False), (ADMIN, True)):
        harness = exposed(make_harness)
        before = contents(harness)
        harness.host = "10.0.0.9"
        recorded = signed(9999, by, *CHANGES[code])
        as_code = RemotingCommand(code, 1, 0, recorded.ext_fields, recorded.body)
        changed = RemotingCommand(code, 1, 0, {**recorded.ext_fields, "a": "b"}, recorded.body)
        assert harness.answered(changed).code == ResponseCode.NO_PERMISSION
        assert contents(harness) == before
        for command in (as_code, as_code):
            answered = harness.answered(command)
            assert (answered.code != ResponseCode.NO_PERMISSION) is is_let_in
        assert (contents(harness) != before) is is_let_in


def test_a_peer_that_fails_to_sign_too_often_loses_its_connection(
    make_harness: Callable[..., Harness],
) -> None:
    harness = exposed(make_harness)
    harness.host = "10.0.0.9"
    code = RequestCode.PUT_KV_CONFIG
    guess = signed(code, WRONG, *CHANGES[code])
    for _ in range(FAILURES_MAX):
        assert harness.answered(guess, 5).code == ResponseCode.NO_PERMISSION
    assert not harness.instructions(CloseChannel)
    response = harness.answered(guess, 5)
    assert f"failures within a minute from {harness.host}" in (response.remark or "")
    assert harness.instructions(CloseChannel) == [CloseChannel(5)]
    # A right signature goes on; that of an account that is no admin is no failure of this kind.
    assert harness.answered(signed(code, ADMIN, *CHANGES[code]), 6).code == ResponseCode.SUCCESS
    assert harness.answered(signed(code, LOW, *CHANGES[code]), 6).code == ResponseCode.NO_PERMISSION
    assert not harness.instructions(CloseChannel)
    harness.now_ms += 60_000
    assert harness.answered(guess, 6).code == ResponseCode.NO_PERMISSION
    assert not harness.instructions(CloseChannel)


def test_clients_of_other_hosts_get_routes(make_harness: Callable[..., Harness]) -> None:
    harness = exposed(make_harness)
    harness.host = "10.0.0.9"
    assert harness.route("T") is not None and harness.brokers()
    for code in PROCESSORS.keys() - CHANGES.keys():
        assert harness.ask(code).code != ResponseCode.NO_PERMISSION
