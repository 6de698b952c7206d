"""Name servers that are read one beside another, of peers whose answers are given."""

import asyncio
from typing import Any

import pytest

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.console import name_servers
from wakelog.console.cluster_reading import NameServerReading
from wakelog.console.name_servers import NameServerDetails, read_name_servers
from wakelog.protocol.bodies import BrokerData, ClusterInfo, TopicList
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.names import WAITING_FIELD

INFO = ClusterInfo({"a": BrokerData("c", "a", {0: "a:1", 1: "a:2"})})
NO_ANSWER = ClientError("it does not answer", "Start it")


class Servers:
    """Name servers that answer, hang or refuse their topics, by their addresses."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Code]] = []

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        code = Code(command.code)
        self.asked.append((address, code))
        if address.startswith("hangs"):
            await asyncio.Event().wait()
        if address.startswith("refuses") and code is Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return answer(command, ResponseCode.SYSTEM_ERROR, "not today")
        if code is Code.GET_NAMESRV_CONFIG:
            found = answer(command, ResponseCode.SUCCESS, body=b"listenPort=9877\n")
            found.ext_fields[WAITING_FIELD] = '{"listenPort":"9876"}'
            return found
        return answer(command, ResponseCode.SUCCESS, body=encode_body(TopicList({"T"})))

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        raise AssertionError("operators wait for answers")


def read(servers: Servers, *addresses: str) -> list[NameServerDetails]:
    options: Any = ClientOptions(addresses)
    known = [
        NameServerReading(each, INFO, NO_ANSWER if each.startswith("away") else None)
        for each in addresses
    ]
    return asyncio.run(read_name_servers(Admin(servers, options), known))


def test_each_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_servers, "NAME_SERVER_SECONDS_MAX", 0.5)
    servers = Servers()
    first, away, hangs, refuses = read(servers, "n:1", "away:1", "hangs:1", "refuses:1")
    assert first == NameServerDetails(
        "n:1",
        {("a", 0): "a:1", ("a", 1): "a:2"},
        frozenset({"T"}),
        {"listenPort": "9877"},
        {"listenPort": "9876"},
    )
    assert "away:1" not in dict(servers.asked)
    assert away == NameServerDetails("away:1", failure=NO_ANSWER)
    assert hangs.failure is not None and "does not answer within" in hangs.failure.cause
    assert refuses.failure is not None and refuses.failure.code == ResponseCode.SYSTEM_ERROR
    assert refuses.brokers == first.brokers  # what it had answered before is kept


def test_one_that_is_alone_is_asked_for_no_topics() -> None:
    servers = Servers()
    [alone] = read(servers, "n:1")
    assert alone.failure is None and alone.topics is None
    assert ("n:1", Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) not in servers.asked


def test_a_bounded_number_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_servers, "NAME_SERVERS_MAX", 2)
    assert [x.address for x in read(Servers(), "n:1", "n:2", "n:3")] == ["n:1", "n:2"]
