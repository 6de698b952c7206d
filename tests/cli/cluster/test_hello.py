"""A greeting to a cluster of one socket, whose answers are given in a table."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.actors.deployments import running, small_plan
from tests.cli.cluster.conftest import CommandLine
from tests.compat.processes import free_port
from tests.fakes.records import record
from wakelog.cli.cluster.hello import greet
from wakelog.client.admin import open_admin
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.protocol.bodies import BrokerData, QueueData, TopicRouteData
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import FrameDecoder, encode_frame
from wakelog.protocol.names import AUTO_CREATE_TOPIC


class Cluster:
    """Name server and broker behind one port; what was asked is kept."""

    def __init__(self, answers: Mapping[RequestCode, tuple[int, dict[str, str]]]) -> None:
        self._answers = {**GOOD_ANSWERS, **answers}
        self.port = 0
        self.topics: set[str] = {AUTO_CREATE_TOPIC}
        self.requests: list[RemotingCommand] = []
        self._stored = b""

    def respond(self, request: RemotingCommand) -> RemotingCommand:
        code, fields = self._answers[RequestCode(request.code)]
        body = b""
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            if request.ext_fields["topic"] not in self.topics:
                return answer(request, ResponseCode.TOPIC_NOT_EXIST)
            addresses = {0: f"127.0.0.1:{self.port}"}
            brokers = [BrokerData("c", "slave-only", {1: "nowhere:1"})]
            brokers.append(BrokerData("c", "broker-a", addresses))
            queues = [QueueData(broker.broker_name, 4, 4, 6) for broker in brokers]
            body = encode_body(TopicRouteData(queue_datas=queues, broker_datas=brokers))
        elif request.code == RequestCode.SEND_MESSAGE_V2:
            self._stored = request.body
        else:
            body = record(0, body=self._stored, topic="hello", queue_offset=41)
        return answer(request, code, "so it is", fields, body)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield f"127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        with closing(writer):
            while data := await reader.read(65_536):
                for request in decoder.feed(data):
                    self.requests.append(request)
                    writer.write(encode_frame(self.respond(request)))


PLACES = {"suggestWhichBrokerId": "0", "nextBeginOffset": "42", "minOffset": "0", "maxOffset": "42"}
GOOD_ANSWERS: dict[RequestCode, tuple[int, dict[str, str]]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: (ResponseCode.SUCCESS, {}),
    RequestCode.SEND_MESSAGE_V2: (
        ResponseCode.SUCCESS,
        {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "41"},
    ),
    RequestCode.PULL_MESSAGE: (ResponseCode.SUCCESS, PLACES),
}


async def said_by(address: str, topic: str = "hello") -> list[str]:
    async with open_admin(address, retries_max=0) as admin:
        return [line async for output in greet(admin, topic) for line in output.lines()]


def run(cluster: Cluster) -> list[str]:
    async def main() -> list[str]:
        async with cluster.listening() as address:
            return await said_by(address)

    return asyncio.run(main())


def test_a_message_is_sent_where_it_would_be_created_and_fetched_back() -> None:
    cluster = Cluster({})
    sent, received = run(cluster)
    assert sent.startswith("sent      to topic hello, broker-a queue 0 offset 41, in ")
    assert sent.endswith(" (id 7F00000100002A9F0000000000000000)")
    assert received.startswith("received  'hello', in ")
    fields: list[dict[str, Any]] = [request.ext_fields for request in cluster.requests]
    topics = [each.get("topic", each.get("b")) for each in fields]
    assert topics == ["hello", AUTO_CREATE_TOPIC, "hello", "hello"]
    assert fields[3]["queueOffset"] == "41"


def test_the_route_of_a_topic_that_is_there_is_used() -> None:
    cluster = Cluster({})
    cluster.topics = {"hello"}
    run(cluster)
    assert [request.code for request in cluster.requests] == [105, 310, 11]


@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        (
            {RequestCode.GET_ROUTEINFO_BY_TOPIC: (ResponseCode.SYSTEM_ERROR, {})},
            "no name server gave the route of topic TBW102: ",
        ),
        ({RequestCode.SEND_MESSAGE_V2: (14, {})}, "answered 14 (SERVICE_NOT_AVAILABLE): so it is"),
        ({RequestCode.PULL_MESSAGE: (24, {})}, "answered 24 (SUBSCRIPTION_NOT_EXIST): so it is"),
        (
            {RequestCode.SEND_MESSAGE_V2: (ResponseCode.SUCCESS, {})},
            "acknowledged a message without its place: ",
        ),
    ],
)
def test_the_error_quotes_the_refusal(
    answers: dict[RequestCode, tuple[int, dict[str, str]]], cause: str
) -> None:
    with pytest.raises(ClientError) as failed:
        run(Cluster(answers))
    assert cause in failed.value.cause


def test_the_error_names_an_address_where_nothing_listens() -> None:
    port = free_port()
    with pytest.raises(
        ClientError, match=f"route of topic hello: 127.0.0.1:{port}: Connection refused"
    ):
        asyncio.run(said_by(f"127.0.0.1:{port}"))


def test_a_topic_that_no_broker_takes_is_refused_before_any_request() -> None:
    with pytest.raises(InvalidArgument, match="'a b' is no name of a topic"):
        asyncio.run(said_by("127.0.0.1:1", "a b"))


def test_hello_takes_the_options_of_the_other_commands(cli: CommandLine) -> None:
    address = cli.broker.name_server
    for words in ((), (address,), ("-n", address)):
        assert cli("hello", *words)[1].startswith("received  'hello', in ")
    sent, received = cli.json("hello", "--topic", "greetings")
    assert (sent["what"], sent["topic"], received["body"]) == ("sent", "greetings", "hello")
    assert sent["offset"] == 0 and min(sent["ms"], received["ms"]) > 0
    cli("hello", address, "-n", address, code=2)
    assert "the name server is given twice" in cli.err


def test_a_message_goes_through_a_cluster_that_requires_tls(
    cli: CommandLine, tmp_path: Path
) -> None:
    plan = small_plan(tmp_path / "store", "tls.server.mode=enforcing")

    async def main() -> None:
        async with running(plan):
            address = plan.name_server_address
            said = await asyncio.to_thread(cli, "hello", address, "--tls-insecure")
            assert said[1].startswith("received  'hello', in ")
            await asyncio.to_thread(cli, "hello", address, "--tls", code=1)
            assert "certificate is not trusted" in cli.err

    asyncio.run(main())
