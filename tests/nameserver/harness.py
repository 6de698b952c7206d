"""A name server with everything around it faked: a clock to set, connections by number."""

from dataclasses import dataclass
from typing import Any

import msgspec

from wakelog.broker.access.administrators import Administrators
from wakelog.nameserver.config import NameServerConfig, NameServerSettings
from wakelog.nameserver.decision import Instruction, TableSaved
from wakelog.nameserver.name_server import NameServer
from wakelog.network.handler import Channel
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.register_broker import body_checksum, encode_register_broker

NOW_MS = 1_700_000_000_000
VERSION = DataVersion(NOW_MS, 1)


@dataclass
class FakeChannel:
    """A connection that is only a number."""

    id: int
    remote_host: str = "127.0.0.9"
    remote_port: int = 40_001
    local_host: str = ""


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker says when it registers, with defaults for what a test does not care about."""

    name: str = "broker-a"
    address: str = "10.0.0.1:10911"
    broker_id: int = 0
    cluster: str = "c1"
    ha_address: str = "10.0.0.1:10912"
    topics: tuple[TopicConfig, ...] = ()
    version: DataVersion = VERSION
    filter_servers: tuple[str, ...] = ()
    epoch: int | None = None
    channel: int = 1

    def identity(self) -> dict[str, str]:
        """Return the fields by which a broker names itself."""
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": str(self.broker_id),
        }

    def body(self) -> RegisterBrokerBody:
        """Return the body of a registration."""
        table = {topic.topic_name: topic for topic in self.topics}
        wrapper = TopicConfigSerializeWrapper(table, self.version)
        return RegisterBrokerBody(wrapper, list(self.filter_servers))

    def request(self, *, compressed: bool = False) -> RemotingCommand:
        """Return the registration, as a 4.9.3 broker sends it."""
        body = encode_register_broker(self.body(), compressed=compressed)
        fields = self.identity() | {
            "haServerAddr": self.ha_address,
            "compressed": str(compressed).lower(),
            "bodyCrc32": str(body_checksum(body)),
        }
        if self.epoch is not None:
            fields["electionEpoch"] = str(self.epoch)
        return make_request(RequestCode.REGISTER_BROKER, fields, body, opaque=0)


def make_config(**keys: object) -> NameServerConfig:
    """Return a configuration with 4.9.3's keys."""
    found = {"kvConfigPath": "/kvConfig.json", **keys}
    return msgspec.convert(found, NameServerConfig, strict=False)


class Harness:
    """Asks a name server as a server would, with `now_ms` as the clock."""

    host = "127.0.0.9"
    """Where requests come from."""

    save_failure = ""
    """Why a table that a request waits for is not saved."""

    def __init__(self, **keys: str) -> None:
        self.now_ms = NOW_MS
        self.administrators = Administrators()
        self.core = NameServer(NameServerSettings(make_config(**keys)), self.now_ms, self.check)

    def check(self, command: RemotingCommand, channel: Channel, now_ms: int) -> None:
        self.administrators.check(command, channel, now_ms)

    def send(self, request: RemotingCommand, channel: int = 1) -> RemotingCommand | None:
        outcome = self.core.process(request, FakeChannel(channel, self.host), self.now_ms)
        if outcome is None or isinstance(outcome, RemotingCommand):
            return outcome
        result = None
        while True:
            try:
                effect = outcome.send(result)
            except StopIteration as end:
                response: RemotingCommand | None = end.value
                return response
            result = self.save_failure if isinstance(effect, TableSaved) else None

    def answered(self, request: RemotingCommand, channel: int = 1) -> RemotingCommand:
        response = self.send(request, channel)
        assert response is not None
        return response

    def ask(self, code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
        response = self.answered(make_request(code, fields, body, opaque=7))
        assert response.opaque == 7
        assert response.is_response
        return response

    def ask_json(self, code: int, **fields: str) -> Any:
        """Ask for a JSON body and return it, its number keys as numbers."""
        response = self.ask(code, b"", **fields)
        assert response.code == ResponseCode.SUCCESS, response.remark
        return fastjson.loads(response.body)

    def register(self, announced: Announced) -> RemotingCommand:
        response = self.answered(announced.request(), announced.channel)
        assert response.code == ResponseCode.SUCCESS, response.remark
        return response

    def unregister(self, announced: Announced) -> RemotingCommand:
        return self.ask(RequestCode.UNREGISTER_BROKER, b"", **announced.identity())

    def close(self, channel: int) -> None:
        while self.core.channel_closed(FakeChannel(channel)):
            pass

    def tick_at(self, now_ms: int) -> None:
        """Let time pass with every tick that is due on the way."""
        while self.core.next_tick_ms() <= now_ms:
            self.now_ms = self.core.next_tick_ms()
            self.core.tick(self.now_ms)
        self.now_ms = now_ms

    def route(self, topic: str) -> Any:
        """Return the route of a topic, None if it has none."""
        response = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert response.code == ResponseCode.SUCCESS
        return fastjson.loads(response.body)

    def topics(self) -> set[str]:
        found = self.ask_json(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return set(found["topicList"])

    def brokers(self) -> dict[str, dict[int, str]]:
        """Return the addresses of each broker name by broker id."""
        table = self.ask_json(RequestCode.GET_BROKER_CLUSTER_INFO)["brokerAddrTable"]
        return {name: data["brokerAddrs"] for name, data in table.items()}

    def instructions(self, kind: type[Instruction]) -> list[Any]:
        """Return what the shell was told to do, of one kind."""
        return [i for i in self.core.take_instructions() if isinstance(i, kind)]


def topic(name: str, queues: int = 4, *, perm: int = 6, sys_flag: int = 0) -> TopicConfig:
    """Return a topic with as many read as write queues."""
    return TopicConfig(name, queues, queues, perm, topic_sys_flag=sys_flag)
