"""A small client over real sockets, for tests of a whole broker: send, pull, and the like."""

from typing import Any

from wakelog.network.client import make_client
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.protocol.bodies import TopicRouteData
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.record import MessageRecord, decode_record

TIMEOUT_MS = 20_000
UNSIGNED = Credentials()


class Client:
    """Talks to one broker."""

    def __init__(
        self, address: str, *, tls: Tls | None = None, credentials: Credentials = UNSIGNED
    ) -> None:
        self.address = address
        self._client = make_client(credentials, tls)

    async def call(self, code: int, fields: dict[str, Any], body: bytes = b"") -> RemotingCommand:
        texts = {key: str(value) for key, value in fields.items() if value is not None}
        return await self.invoke(make_request(code, texts, body, opaque=0))

    async def invoke(self, request: RemotingCommand) -> RemotingCommand:
        """Return the response to a request."""
        return await self._client.invoke(self.address, request, timeout_ms=TIMEOUT_MS)

    async def create_topic(self, topic: str, queues_count: int) -> None:
        """Make a topic, or change it."""
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues_count,
            "writeQueueNums": queues_count,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
        }
        answer = await self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def send(
        self, topic: str, body: bytes, *, queue_id: int = 0, properties: str = ""
    ) -> RemotingCommand:
        fields = {
            "a": "producers",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": queue_id,
            "f": 0,
            "g": 1,
            "h": 0,
            "i": properties,
            "j": 0,
            "k": "false",
            "l": 16,
            "m": "false",
        }
        return await self.call(RequestCode.SEND_MESSAGE_V2, fields, body)

    async def pull(
        self, topic: str, queue_offset: int, *, queue_id: int = 0, hold_ms: int = 0
    ) -> RemotingCommand:
        fields = {
            "consumerGroup": "consumers",
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": queue_offset,
            "maxMsgNums": 32,
            "sysFlag": 0x4 | (0x2 if hold_ms else 0),
            "commitOffset": 0,
            "suspendTimeoutMillis": hold_ms,
            "subscription": "*",
            "subVersion": 1,
            "expressionType": "TAG",
        }
        return await self.call(RequestCode.PULL_MESSAGE, fields)

    async def close(self) -> None:
        await self._client.close()


async def route_of(name_server: str, topic: str, *, tls: Tls | None = None) -> TopicRouteData:
    """Ask a name server where a topic is; nowhere, if it does not know."""
    client = Client(name_server, tls=tls)
    answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    await client.close()
    if answer.code != ResponseCode.SUCCESS:
        return TopicRouteData()
    return decode_body(TopicRouteData, answer.body)


def brokers_in(route: TopicRouteData) -> set[str]:
    """Return the addresses of a route."""
    return {address for data in route.broker_datas for address in data.broker_addrs.values()}


async def send_until_taken(
    client: Client, topic: str, body: bytes, *, properties: str = ""
) -> RemotingCommand:
    """Send, and again while the broker says that it is busy; it has not taken the message then."""
    while True:
        answer = await client.send(topic, body, properties=properties)
        if answer.code != ResponseCode.SYSTEM_BUSY:
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            return answer


def records(answer: RemotingCommand) -> list[MessageRecord]:
    """Decode the messages of a pull's answer."""
    found = []
    position = 0
    while position < len(answer.body):
        record = decode_record(answer.body, position)
        found.append(record)
        position += record.size_bytes
    return found
