"""What operators ask, of brokers whose answers are given in a table."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.client.clusters import FakeCluster
from tests.client.odd_values import SURROGATE, numbers_of, texts_of
from tests.fakes.records import record
from wakelog.client.admin import (
    Admin,
    addresses_by_broker,
    cluster_members,
    open_admin,
    records,
)
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.options import ClientOptions
from wakelog.network.errors import ConnectFailed
from wakelog.network.tls import Tls
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    ConsumeStats,
    OffsetWrapper,
    SubscriptionGroupConfig,
    TopicOffset,
    TopicRouteData,
    TopicStatsTable,
)
from wakelog.protocol.body_codec import MessageQueue, encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.java import string_hash

BROKERS = [BrokerData("c", "a", {0: "a0:1", 1: "a1:1"}), BrokerData("c", "b", {2: "b2:1"})]
ROUTE = encode_body(TopicRouteData(broker_datas=BROKERS))


class Answering:
    """Connections to peers that answer each code by a table; what they were asked is kept.

    tried: the address of each request, also of those that got no answer.
    """

    def __init__(self, answers: Mapping[Code, tuple[int, bytes]]) -> None:
        self._answers = {Code.GET_ROUTEINFO_BY_TOPIC: (0, ROUTE), **answers}
        self.asked: list[tuple[str, RemotingCommand]] = []
        self.tried: list[str] = []

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        self.tried.append(address)
        if address == "away:1":
            raise ConnectFailed(address, "refused")
        self.asked.append((address, command))
        code, body = self._answers[Code(command.code)]
        return answer(command, code, "a remark", body=body)

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        raise AssertionError("operators wait for answers")


def admin(answers: Mapping[Code, tuple[int, bytes]]) -> tuple[Admin, Answering]:
    connections = Answering(answers)
    return Admin(connections, ClientOptions(("away:1", "n:1"), retries_max=0)), connections


def test_a_refusal_has_code_remark_and_remedy() -> None:
    asking, _ = admin({Code.GET_CONSUMER_CONNECTION_LIST: (206, b"")})
    with pytest.raises(ClientError, match="Start a consumer") as caught:
        asyncio.run(asking.consumers("g"))
    assert (caught.value.code, caught.value.remark) == (206, "a remark")


def test_an_answer_that_is_no_json_is_reported() -> None:
    asking, _ = admin({Code.GET_BROKER_RUNTIME_INFO: (0, b"{")})
    with pytest.raises(ClientError, match="cannot be read"):
        asyncio.run(asking.runtime_info("a0:1"))


def test_a_name_server_that_answers_takes_the_place_of_one_that_is_away() -> None:
    info = ClusterInfo({x.broker_name: x for x in BROKERS}, {"c": {"a", "b"}})
    asking, connections = admin({Code.GET_BROKER_CLUSTER_INFO: (0, encode_body(info))})
    assert asyncio.run(asking.masters("c")) == ["a0:1"]
    assert asyncio.run(asking.members("c")) == ["a0:1", "a1:1", "b2:1"]
    assert {address for address, _ in connections.asked} == {"n:1"}
    with pytest.raises(ClientError, match=r"no cluster d\. The name server knows: c"):
        cluster_members(info, "d")
    with pytest.raises(ClientError, match=r"no cluster d\. No broker has registered"):
        cluster_members(ClusterInfo(), "d")


def test_a_name_server_that_is_away_is_asked_last_and_all_that_fail_are_named() -> None:
    info = encode_body(ClusterInfo())
    asking, connections = admin({Code.GET_BROKER_CLUSTER_INFO: (0, info)})
    for _ in range(2):
        asyncio.run(asking.cluster())
    cluster = FakeCluster()
    cluster.fail = lambda address, command: answer(
        command, ResponseCode.SYSTEM_BUSY, f"{address} is busy"
    )
    away, there = asking.options.name_servers
    assert connections.tried == [away, there, there]
    busy = Admin(cluster, asking.options)
    with pytest.raises(ClientError, match=f"{away} is busy; .*{there} is busy") as caught:
        asyncio.run(busy.cluster())
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    assert busy.sender.routes is busy.routes


def test_a_change_has_to_reach_every_name_server() -> None:
    asking, _ = admin({Code.PUT_KV_CONFIG: (0, b"")})
    with pytest.raises(ClientError, match="away:1"):
        asyncio.run(asking.ask_name_servers(Code.PUT_KV_CONFIG, {}))


def test_the_progress_of_a_group_is_that_at_all_brokers() -> None:
    stats = ConsumeStats({MessageQueue("T", "a", 0): OffsetWrapper(5, 3, 1)}, 1.5)
    asking, connections = admin({Code.GET_CONSUME_STATS: (0, encode_body(stats))})
    found = asyncio.run(asking.consume_stats("g", "T"))
    assert found.offset_table == stats.offset_table
    assert found.consume_tps == 3.0
    asked = [(x, y.ext_fields) for x, y in connections.asked if y.code == Code.GET_CONSUME_STATS]
    assert asked == [(x, {"consumerGroup": "g", "topic": "T"}) for x in ("a0:1", "b2:1")]
    empty, _ = admin({Code.GET_CONSUME_STATS: (0, b"{}")})
    with pytest.raises(ClientError) as caught:
        asyncio.run(empty.consume_stats("g"))
    assert caught.value.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_settings_are_lines_of_key_and_value() -> None:
    asking, _ = admin({Code.GET_BROKER_CONFIG: (0, b"#Mon\na=1\nb=x=y\n\nno")})
    assert asyncio.run(asking.settings("a0:1")) == {"a": "1", "b": "x=y"}


def test_an_id_that_is_none_is_refused() -> None:
    with pytest.raises(ClientError, match="OffsetID"):
        asyncio.run(admin({})[0].view_message("nonsense"))


def test_a_message_is_asked_for_at_the_broker_of_its_id() -> None:
    asking, connections = admin({Code.VIEW_MESSAGE_BY_ID: (0, record(0, body=b"x"))})
    found = asyncio.run(asking.view_message("7F00000100002A9F0000000000000010"))
    assert found.body == b"x"
    [(address, command)] = connections.asked
    assert (address, command.ext_fields) == ("127.0.0.1:10911", {"offset": "16"})


def test_a_query_asks_every_broker_and_may_find_nothing() -> None:
    asking, _ = admin({Code.QUERY_MESSAGE: (0, record(0, body=b"x") + record(0, body=b"y"))})
    found = asyncio.run(asking.query_messages("T", "k", 32))
    assert [each.body for each in found] == [b"x", b"y"] * 2
    nothing, _ = admin({Code.QUERY_MESSAGE: (22, b"")})
    assert asyncio.run(nothing.query_messages("T", "k", 32)) == []


def test_a_query_leaves_out_topics_whose_hash_is_the_same() -> None:
    assert string_hash("Aa#k") == string_hash("BB#k")
    body = b"".join(record(0, b"KEYS\1k", topic=topic) for topic in ("Aa", "BB", "Aa"))
    asking, _ = admin({Code.QUERY_MESSAGE: (0, body)})
    for topic, count in (("Aa", 2), ("BB", 1)):
        found = asyncio.run(asking.query_messages(topic, "k", 32))
        assert [each.topic for each in found] == [topic] * count * 2  # of two brokers


def test_a_queue_needs_a_broker_that_has_it() -> None:
    found = asyncio.run(admin({})[0].queue_at(MessageQueue("T", "b", 1)))
    assert found == ("b", "T", 1, "b2:1")
    with pytest.raises(ClientError, match="broker z has no topic T"):
        asyncio.run(admin({})[0].queue_at(MessageQueue("T", "z", 1)))


def test_records_and_addresses_are_read_in_order() -> None:
    assert [each.body for each in records(record(0, body=b"1") + record(0, body=b"2"))] == [
        b"1",
        b"2",
    ]
    assert addresses_by_broker(TopicRouteData(broker_datas=BROKERS)) == {"a": "a0:1", "b": "b2:1"}


def test_a_topic_may_have_more_queues_than_a_peer_may_send() -> None:
    queues = {MessageQueue("T", "a", n): TopicOffset(0, n, n) for n in range(2_000)}
    table = encode_body(TopicStatsTable(offset_table=queues))
    asking, _ = admin({Code.GET_TOPIC_STATS_INFO: (0, table)})
    assert asyncio.run(asking.topic_stats("T")).offset_table == queues


def test_certificates_that_cannot_be_used_are_an_error_of_the_client() -> None:
    async def main() -> None:
        async with open_admin(ClientOptions(("n:9876",), tls=Tls("/nowhere.pem"))):
            pass

    with pytest.raises(InvalidArgument, match=r"tls cannot be used: /nowhere\.pem"):
        asyncio.run(main())


def test_an_admin_is_opened_as_a_producer_is() -> None:
    async def run() -> None:
        async with open_admin("n:9876;m:9876", timeout=timedelta(seconds=1)) as admin:
            assert admin.options.name_servers == ("n:9876", "m:9876")
            assert admin.options.timeout_ms == 1_000
        with pytest.raises(InvalidArgument, match="is no address"):
            async with open_admin("n"):
                pass

    asyncio.run(run())


def test_a_topic_is_created_at_every_master_without_an_address() -> None:
    members = {"a": BROKERS[0], "b": BrokerData("c", "b", {0: "b0:1"}), "d": BROKERS[1]}
    info = ClusterInfo(broker_addr_table=members, cluster_addr_table={"c": {"a", "b"}, "e": {"d"}})
    operator, peer = admin(
        {
            Code.GET_BROKER_CLUSTER_INFO: (0, encode_body(info)),
            Code.UPDATE_AND_CREATE_TOPIC: (0, b""),
        }
    )
    for name, queues in zip(texts_of("orders"), numbers_of(8), strict=True):
        peer.asked.clear()
        asyncio.run(operator.create_topic(name, queues=queues))
        made = [(at, each.ext_fields) for at, each in peer.asked if each.code == 17]
        assert sorted(at for at, _ in made) == ["a0:1", "b0:1"]
        fields = {(one["topic"], one["readQueueNums"], one["writeQueueNums"]) for _, one in made}
        assert fields == {("orders", "8", "8")}
    wrong: dict[str, Any] = {"queues": 0, "topic": "a b", "cluster_name": 5}
    for name, odd in wrong.items():
        with pytest.raises(InvalidArgument, match=rf"^{name} (is|has) "):
            asyncio.run(operator.create_topic(**{"topic": "orders", name: odd}))
    with pytest.raises(ClientError, match="there is no cluster x"):
        asyncio.run(operator.create_topic("orders", cluster_name="x"))
    with pytest.raises(ClientError, match="no broker has registered"):
        asyncio.run(operator.create_topic("orders", cluster_name="e"))


ODD_FIELDS = [*texts_of("g"), *numbers_of(7), True]
NO_FIELDS = [2.5, b"g", SURROGATE, ["g"], object()]


@pytest.mark.parametrize("odd", ODD_FIELDS, ids=lambda odd: type(odd).__name__)
def test_fields_of_any_class_go_over_the_wire_as_their_text(odd: Any) -> None:
    operator, peer = admin({Code.GET_BROKER_RUNTIME_INFO: (0, b"")})
    asyncio.run(operator.ask("h:1", Code.GET_BROKER_RUNTIME_INFO, {"field": odd}))
    [(_, command)] = peer.asked
    found = command.ext_fields["field"]
    assert type(found) is str and found in ("g", "7", "true")


@pytest.mark.parametrize("odd", NO_FIELDS, ids=lambda odd: type(odd).__name__)
def test_fields_that_are_no_texts_are_refused_by_name(odd: Any) -> None:
    operator, _ = admin({})
    with pytest.raises(InvalidArgument, match=r"^field (is|has) "):
        asyncio.run(operator.ask("h:1", Code.GET_BROKER_RUNTIME_INFO, {"field": odd}))


def test_options_of_a_client_stand_alone_and_are_made_plain() -> None:
    async def opened(options: Any, **settings: Any) -> ClientOptions:
        async with open_admin(options, **settings) as operator:
            return operator.options

    for odd, number in zip(texts_of("n:1"), numbers_of(7), strict=True):
        found = asyncio.run(opened(ClientOptions((odd,), timeout_ms=number)))
        assert (type(found.name_servers[0]), type(found.timeout_ms)) == (str, int)
    with pytest.raises(InvalidArgument, match="timeout is given beside options of a client"):
        asyncio.run(opened(ClientOptions(("n:1",)), timeout=timedelta(seconds=1)))


def test_a_struct_that_cannot_be_sent_is_refused_by_its_field() -> None:
    operator, _ = admin({Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (0, b"")})
    for name, odd in (("group_name", 5), ("retry_max_times", True), ("consume_enable", "no")):
        group = SubscriptionGroupConfig("g")
        setattr(group, name, odd)
        with pytest.raises(InvalidArgument, match=rf"^group\.{name} is"):
            asyncio.run(operator.update_group("a0:1", group))
    with pytest.raises(InvalidArgument, match=r"group cannot be sent: .*retryMaxTimes"):
        large = SubscriptionGroupConfig("g", retry_max_times=1 << 40)
        asyncio.run(operator.update_group("a0:1", large))


@pytest.mark.parametrize(
    ("topic", "cause", "remedy"),
    [
        ("T", "no name server knows topic T", "Check"),
        ("%RETRY%g", "no broker has had a consumer of group g: its retry topic has no route", "g"),
    ],
)
def test_a_topic_without_a_route_is_named_as_its_user_knows_it(
    topic: str, cause: str, remedy: str
) -> None:
    asking, _ = admin({Code.GET_ROUTEINFO_BY_TOPIC: (int(ResponseCode.TOPIC_NOT_EXIST), b"")})
    with pytest.raises(ClientError) as caught:
        asyncio.run(asking.route(topic))
    assert (caught.value.cause, caught.value.code) == (cause, ResponseCode.TOPIC_NOT_EXIST)
    assert remedy in caught.value.remedy


def test_members_of_a_cluster_that_no_name_server_has_are_left_out() -> None:
    info = ClusterInfo({"a": BROKERS[0], "other": BROKERS[1]}, {"c": {"b", "a"}, "d": set()})
    assert cluster_members(info, "c") == [("a", 0, "a0:1"), ("a", 1, "a1:1")]
    assert cluster_members(info, "d") == []
