"""One reading of a cluster, of peers whose answers are given."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.client.route import NO_NAME_SERVER
from wakelog.console import cluster_reading, progress
from wakelog.console.cluster_reading import (
    IN_FLIGHT_MAX,
    KEPT,
    BrokerReading,
    ClusterReading,
    GroupReading,
    read_cluster,
    with_kept,
)
from wakelog.console.runtime_values import runtime_number
from wakelog.console.waiting import Backlog
from wakelog.network.errors import ConnectFailed
from wakelog.network.self_signed import NOT_AFTER
from wakelog.network.tls import Tls
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    KVTable,
    OffsetWrapper,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from wakelog.protocol.body_codec import MessageQueue, encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.names import WAITING_FIELD
from wakelog.testing import EmbeddedBroker

NOW_MS = 1_000_000_000
QUEUE = MessageQueue("T", "a", 0)
NAMES = {"a": {0: "a0:1", 1: "a1:1"}, "away": {0: "away:1"}, "hangs": {0: "hangs:1"}}
LETTERS = {MessageQueue("%DLQ%g", "a", 0): TopicOffset(2, 7)}
ANSWERS: dict[Code, msgspec.Struct] = {
    Code.GET_BROKER_CLUSTER_INFO: ClusterInfo(
        {name: BrokerData("c", name, addresses) for name, addresses in NAMES.items()}
    ),
    Code.GET_BROKER_RUNTIME_INFO: KVTable({"commitLogDiskRatio": "0.5"}),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupWrapper(
        {"g": SubscriptionGroupConfig("g")}
    ),
    Code.GET_ALL_TOPIC_CONFIG: TopicConfigSerializeWrapper(
        {name: TopicConfig(name) for name in ("T", "%DLQ%g")}
    ),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicList({"TBW102"}),
    Code.GET_BROKER_CONSUME_STATS: ConsumeStatsList(
        [{"g": [ConsumeStats({QUEUE: OffsetWrapper(9, 4)}, 1.5)]}]
    ),
    Code.GET_CONSUMER_CONNECTION_LIST: ConsumerConnection([Connection("c1")]),
    Code.GET_TOPIC_STATS_INFO: TopicStatsTable(LETTERS),
    Code.GET_CONSUMER_RUNNING_INFO: ConsumerRunningInfo({"one": "1"}),
    Code.GET_ALL_PRODUCER_INFO: ProducerTableInfo({"p": [ProducerInfo("p1")]}),
}


class Peers:
    """Connections to peers that answer by a table, are away, hang or refuse."""

    def __init__(self, refused: Mapping[str, Code] | None = None) -> None:
        self.refused = dict(refused or {})
        self.in_flight = self.in_flight_max = 0

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        if address.startswith("away"):
            raise ConnectFailed(address, "refused")
        if address.startswith("hangs"):
            await asyncio.Event().wait()
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight, self.in_flight_max)
        await asyncio.sleep(0)
        self.in_flight -= 1
        code = Code(command.code)
        if self.refused.get(address) is code:
            return answer(command, ResponseCode.SYSTEM_ERROR, "AclException: No acl config")
        if code in (Code.GET_BROKER_CONFIG, Code.GET_NAMESRV_CONFIG):
            found = answer(command, ResponseCode.SUCCESS, body=b"a=1\n")
            found.ext_fields[WAITING_FIELD] = '{"a":"2"}'
            return found
        return answer(command, ResponseCode.SUCCESS, body=encode_body(ANSWERS[code]))

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        raise AssertionError("operators wait for answers")


def read(
    peers: Peers, name_server: str = "n:1", before: ClusterReading | None = None
) -> ClusterReading:
    options: Any = ClientOptions(tuple(name_server.split(";")))
    return asyncio.run(read_cluster(Admin(peers, options), NOW_MS, before))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that hangs is left after a moment."""
    monkeypatch.setattr(cluster_reading, "BROKER_SECONDS_MAX", 0.5)


def test_a_cluster_is_read_around_what_fails() -> None:
    found = read(Peers())
    by_address = {each.address: each for each in found.brokers}
    assert list(by_address) == ["a0:1", "a1:1", "away:1", "hangs:1"]
    away, hangs = by_address["away:1"].failure, by_address["hangs:1"].failure
    assert away is not None and "away:1 does not answer" in away.cause
    assert hangs is not None and hangs.cause.startswith("hangs:1 does not answer within")
    master, slave = by_address["a0:1"], by_address["a1:1"]
    assert master.failure is None and slave.failure is None
    assert runtime_number(slave.values, "commitLogDiskRatio") == 0.5
    assert (master.waiting, set(master.topics), slave.topics) == ({"a": "2"}, {"T", "%DLQ%g"}, {})
    assert (master.settings, slave.settings) == ({"a": "1"}, {"a": "1"})
    group = found.groups["g"]
    assert (group.progress.total_diff(), group.progress.consume_tps) == (5, 1.5)
    assert group.clients is not None and group.are_members_known
    assert group.members["c1"].properties == {"one": "1"}
    assert found.dead_letters == {"g": 7}
    assert found.taken_ms == NOW_MS


def test_a_refused_account_is_a_value() -> None:
    found = read(Peers({"a0:1": Code.GET_BROKER_RUNTIME_INFO}))
    failure = found.brokers[0].failure
    assert failure is not None
    assert (failure.code, "access key" in failure.remedy) == (ResponseCode.SYSTEM_ERROR, True)
    assert found.groups["g"].clients is None  # what else it says is kept, and no more is asked


def test_producers_are_known_of_brokers_that_have_the_request() -> None:
    master, slave, *_ = read(Peers()).brokers
    assert master.producers == {"p": [ProducerInfo("p1")]} and slave.producers is None
    old = read(Peers({"a0:1": Code.GET_ALL_PRODUCER_INFO}))
    assert old.brokers[0].producers is None and old.brokers[0].failure is None
    assert old.groups["g"].members


def test_progress_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reading, "BROKER_SECONDS_MAX", 0.5)

    class Slow(Peers):
        async def invoke(
            self, address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            if command.code == Code.GET_BROKER_CONSUME_STATS:
                assert timeout_ms == 7_000
                await asyncio.sleep(0.6)
            return await super().invoke(address, command, timeout_ms=timeout_ms)

    found = read(Slow())
    assert found.brokers[0].failure is None
    assert found.groups["g"].progress.total_diff() == 5


def test_a_broker_that_does_not_say_all_at_once_is_asked_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stats = ConsumeStats({QUEUE: OffsetWrapper(9, 3)}, 1.0)
    monkeypatch.setitem(ANSWERS, Code.GET_CONSUME_STATS, stats)
    peers = Peers({"a0:1": Code.GET_BROKER_CONSUME_STATS})
    first = read(peers)
    assert first.brokers[0].failure is None
    assert first.groups["g"].progress.total_diff() == 6
    assert first.groups["g"].clients is not None
    [limit] = first.limits
    assert "broker a does not say at once how far its 1 groups have come" in limit
    monkeypatch.setattr(progress, "PART_GROUPS_MAX", 0)  # none is asked: what is known is kept
    second = read(peers, before=first)
    assert second.groups["g"].progress.total_diff() == 6
    assert not read(Peers()).limits


def test_what_a_broker_refuses_keeps_nothing_else_from_being_asked() -> None:
    found = read(Peers({"a0:1": Code.GET_BROKER_RUNTIME_INFO}))
    assert found.groups["g"].progress.total_diff() == 5


def test_a_group_that_is_not_online_has_no_clients() -> None:
    found = read(Peers({"a0:1": Code.GET_CONSUMER_CONNECTION_LIST}))
    clients = found.groups["g"].clients
    assert clients is not None and not clients.connection_set
    assert found.brokers[0].failure is None


def test_a_member_that_does_not_say_is_left_out() -> None:
    found = read(Peers({"a0:1": Code.GET_CONSUMER_RUNNING_INFO}))
    assert found.groups["g"].members == {}
    assert not found.groups["g"].are_members_known
    assert found.brokers[0].failure is None


def test_a_name_server_without_an_answer_is_a_value() -> None:
    found = read(Peers(), "away:9876")
    assert found.failure is not None and not found.brokers


def test_requests_at_one_broker_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = ClusterInfo({"a": BrokerData("c", "a", {0: "a0:1"})})
    monkeypatch.setitem(ANSWERS, Code.GET_BROKER_CLUSTER_INFO, one)
    many = {f"g{n}": SubscriptionGroupConfig(f"g{n}") for n in range(100)}
    groups = SubscriptionGroupWrapper(many)
    monkeypatch.setitem(ANSWERS, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups)
    peers = Peers()
    found = read(peers)
    assert peers.in_flight_max == IN_FLIGHT_MAX
    assert all(group.clients is not None for name, group in found.groups.items() if name != "g")


def test_a_bounded_number_of_members_is_asked_those_that_lag_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_reading, "MEMBERS_ASKED_MAX", 1)
    two = SubscriptionGroupWrapper({x: SubscriptionGroupConfig(x) for x in ("early", "g")})
    monkeypatch.setitem(ANSWERS, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, two)
    pair = ConsumerConnection([Connection("c1"), Connection("c2")])
    monkeypatch.setitem(ANSWERS, Code.GET_CONSUMER_CONNECTION_LIST, pair)
    found = read(Peers())
    assert (set(found.groups["early"].members), set(found.groups["g"].members)) == (set(), {"c1"})


def test_the_brokers_that_any_name_server_knows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"n:1": {"a": {0: "a0:1"}}, "n:2": {"a": {0: "a9:1"}, "b": {0: "b0:1"}}}

    class Servers(Peers):
        async def invoke(
            self, address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            if address in own:
                table = {x: BrokerData("c", x, y) for x, y in own[address].items()}
                body = encode_body(ClusterInfo(table, {"c": set(table)}))
                return answer(command, ResponseCode.SUCCESS, body=body)
            if address == "broker:1":
                return answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no code 106")
            return await super().invoke(address, command, timeout_ms=timeout_ms)

    monkeypatch.setattr(cluster_reading, "NAME_SERVER_SECONDS_MAX", 0.1)
    found = read(Servers(), "n:1;n:2;away:1;hangs:1;broker:1")
    assert [each.address for each in found.brokers] == ["a0:1", "b0:1"]
    assert found.info.cluster_addr_table == {"c": {"a", "b"}}
    assert [x.failure is None for x in found.name_servers] == [True, True, False, False, False]
    *_, hangs, broker = (x.failure for x in found.name_servers)
    assert hangs is not None and hangs.cause.startswith("hangs:1 does not answer within")
    assert broker is not None and broker.remedy == NO_NAME_SERVER
    assert found.failure is None
    assert read(Servers(), "hangs:1").failure is not None


def test_the_clock_of_a_broker_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = "[ 0 days, 0 hours, 0 minutes, 30 seconds ]"
    values = KVTable({"bootTimestamp": str(NOW_MS), "runtime": runtime})
    monkeypatch.setitem(ANSWERS, Code.GET_BROKER_RUNTIME_INFO, values)
    ahead_ms = read(Peers()).brokers[0].clock_ahead_ms
    assert ahead_ms is not None and 29_000 < ahead_ms <= 30_500
    monkeypatch.setitem(ANSWERS, Code.GET_BROKER_RUNTIME_INFO, KVTable({}))
    assert read(Peers()).brokers[0].clock_ahead_ms is None


def test_the_certificate_of_a_broker_is_read() -> None:
    async def read_with(tls: Tls | bool) -> int:
        async with open_admin(broker.name_server, tls=tls) as admin:
            found = await read_cluster(admin, NOW_MS, with_groups=False)
        return found.brokers[0].certificate_end_ms

    with EmbeddedBroker() as broker:
        end_ms = asyncio.run(read_with(Tls(checks_server=False)))
        assert end_ms == NOT_AFTER.timestamp() * 1000
        assert asyncio.run(read_with(False)) == 0


def test_brokers_alone_are_read_on_request() -> None:
    options: Any = ClientOptions(("n:1",))
    found = asyncio.run(read_cluster(Admin(Peers(), options), NOW_MS, with_groups=False))
    assert found.brokers[0].values and found.brokers[0].settings == {"a": "1"}
    assert not (found.brokers[0].topics or found.groups or found.dead_letters)


def test_masters_that_answer_are_asked_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    async def read_waiting(admin: Admin, name: str, *rest: object, clock_ahead_ms: int) -> Backlog:
        asked.append((name, *rest, clock_ahead_ms))
        return Backlog()

    monkeypatch.setattr(cluster_reading, "read_waiting", read_waiting)
    found = read(Peers())
    [(name, address, topics, delays, now_ms, _)] = asked
    assert (name, address, delays, now_ms) == ("a", "a0:1", None, NOW_MS)
    master, slave, *_ = found.brokers
    assert topics == master.topics
    assert (master.messages, slave.messages) == (Backlog(), None)
    assert master.in_use == {"a": "2"}  # until a restart
    alone = ClusterInfo({"b": BrokerData("c", "b", {1: "b1:1"})})
    monkeypatch.setitem(ANSWERS, Code.GET_BROKER_CLUSTER_INFO, alone)
    assert read(Peers()).brokers[0].failure is None
    assert len(asked) == 1  # a replica whose master is away delivers nothing


def test_a_broker_that_does_not_answer_whole_keeps_what_it_had() -> None:
    def reading(**more: Any) -> BrokerReading:
        return BrokerReading("c", "a", 0, "a:1", **more)

    group = GroupReading()
    topics, groups = {"t": TopicConfig("t")}, {"g": SubscriptionGroupConfig("g")}
    before = ClusterReading(1, brokers=[reading(topics=topics, groups=groups)], groups={"g": group})
    away = ClusterReading(2, brokers=[reading(failure=ClientError("a:1 is away", "Start it"))])
    kept = with_kept(away, before)
    [broker] = kept.brokers
    assert (broker.topics, broker.groups, kept.groups) == (topics, groups, {"g": group})
    assert kept.limits == [f"broker a has not said which topics and groups it has: {KEPT}"]
    assert broker.failure is not None and not away.brokers[0].topics
    gone = with_kept(ClusterReading(3, brokers=[reading()]), kept)
    assert not gone.brokers[0].topics and not gone.groups and not gone.limits
