"""A cluster without sockets: a name server and brokers that answer as 4.9.3's do.

Messages are records as a log has them; a queue begins where the first that is left does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.fakes.records import STORE_MS, record
from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.instance import HEARTBEAT_SECONDS, ClientInstance
from wakelog.client.messages import EncodedMessage
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.batch import decode_batch_body
from wakelog.protocol.bodies import BrokerData, QueueData, TopicList, TopicRouteData
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

NAME_SERVER = "names:9876"
PULL_MAX = 32
"""4.9.3 gives no more at once from memory, whatever is asked for."""
READ_WRITE, READ = 6, 4
MESSAGE_ID = "7F00000100002A9F00000000000000FF"
"""Of every message: that of 127.0.0.1:10911 at 255."""

SENDS = (
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)

Queue = tuple[str, str, int]
Result = TypeVar("Result")


class Clock:
    """The time of one call, which pauses alone move. pauses: those that were made."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.pauses: list[float] = []

    def now_seconds(self) -> float:
        return self.seconds

    async def pause(self, seconds: float) -> None:
        assert 0 < seconds <= 5
        self.seconds += seconds
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class FakeCluster:
    """See the module. `fail` may raise or answer in a broker's place.

    queues: by broker, topic and queue id, the records of each; a broker listens at its name.
    routes: topic to broker name to the number of queues, for tests that send.
    first: the offset of the first record that is left, where it is not 0.
    committed: by group and queue, the offsets that were committed.
    addresses: of brokers by id, where they are not alone with the address `NAME:10911`.
    suggested: the broker id that pulls are answered with.
    stored: the messages that brokers acknowledged, as (broker, queue id, body), in order.
    sent: the sends that brokers acknowledged. clients: heartbeats and farewells, by broker.
    ended: the headers of the ends of transactions.
    """

    def __init__(
        self,
        queues: dict[Queue, list[bytes]] | None = None,
        *,
        routes: dict[str, dict[str, int]] | None = None,
        perm: int = READ_WRITE,
        region: str = "",
    ) -> None:
        self.queues = queues or {}
        self.routes = routes or {}
        self.perm = perm
        self.region = region
        self.first: dict[Queue, int] = {}
        self.committed: dict[tuple[str, str, str, int], int] = {}
        self.stored: list[tuple[str, int, bytes]] = []
        self.sent: list[RemotingCommand] = []
        self.clients: list[tuple[str, RemotingCommand]] = []
        self.ended: list[dict[str, str]] = []
        self.delay_levels = "1s 5s 10s"
        self.addresses: dict[str, dict[int, str]] = {}
        self.suggested = 0
        self.asked: list[tuple[str, RequestCode]] = []
        self.fail: Callable[[str, RemotingCommand], RemotingCommand | None] = lambda *_: None

    def refuse(self, unreachable: str) -> None:
        """Let nothing listen at an address from now on."""

        def fail(address: str, command: RemotingCommand) -> None:
            if address == unreachable:
                raise ConnectFailed(address, "Connection refused")

        self.fail = fail

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        code = RequestCode(command.code)
        self.asked.append((address, code))
        failed = self.fail(address, command)
        if failed is not None:
            return failed
        if code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            topics = {topic for _, topic, _ in self.queues}
            body = encode_body(TopicList(topic_list=topics))
            return answer(command, ResponseCode.SUCCESS, body=body)
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._route(command)
        if code in SENDS:
            return self._store(address.partition(":")[0], code, command)
        if code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            self.clients.append((address.partition(":")[0], command))
            return answer(command, ResponseCode.SUCCESS)
        if code == RequestCode.END_TRANSACTION:
            self.ended.append(command.ext_fields)
            return answer(command, ResponseCode.SUCCESS)
        if code == RequestCode.GET_BROKER_CONFIG:
            body = f"brokerName=b\nmessageDelayLevel={self.delay_levels}\n".encode()
            return answer(command, ResponseCode.SUCCESS, body=body)
        return self._of_queue(address, code, command)

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        await self.invoke(address, command, timeout_ms=1)

    def _of_queue(
        self, address: str, code: RequestCode, command: RemotingCommand
    ) -> RemotingCommand:
        fields = command.ext_fields
        queue = address.partition(":")[0], fields["topic"], int(fields["queueId"])
        if code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self.committed[fields["consumerGroup"], *queue] = int(fields["commitOffset"])
            return answer(command, ResponseCode.SUCCESS)
        if code == RequestCode.QUERY_CONSUMER_OFFSET:
            found = self.committed.get((fields["consumerGroup"], *queue))
            if found is None and self.range(queue)[0] > 0:
                return answer(command, ResponseCode.QUERY_NOT_FOUND, "Not found")
            return answer(command, ResponseCode.SUCCESS, ext_fields={"offset": str(found or 0)})
        if queue not in self.queues:
            return answer(command, ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        if code == RequestCode.PULL_MESSAGE:
            return self._pull(queue, command)
        begin, end = self.range(queue)
        times = [stored_ms(each) for each in self.queues[queue]]
        offset = {
            RequestCode.GET_MIN_OFFSET: lambda: begin,
            RequestCode.GET_MAX_OFFSET: lambda: end,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda: (
                begin
                + min(
                    range(len(times)),
                    key=lambda i: abs(times[i] - int(fields["timestamp"])),
                    default=0,
                )
            ),
        }[code]()
        return answer(command, ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})

    def range(self, queue: Queue) -> tuple[int, int]:
        begin = self.first.get(queue, 0)
        return begin, begin + len(self.queues[queue])

    def _route(self, command: RemotingCommand) -> RemotingCommand:
        topic = command.ext_fields["topic"]
        counts = dict(self.routes.get(topic, {}))
        for broker, name, queue_id in self.queues:
            if name == topic:
                counts[broker] = max(counts.get(broker, 0), queue_id + 1)
        if not counts:
            return answer(command, ResponseCode.TOPIC_NOT_EXIST, "no route")
        data = TopicRouteData(
            queue_datas=[QueueData(name, n, n, self.perm) for name, n in counts.items()],
            broker_datas=[
                BrokerData("c", name, self.addresses.get(name, {0: f"{name}:10911"}))
                for name in counts
            ],
        )
        return answer(command, ResponseCode.SUCCESS, body=encode_body(data))

    def _store(self, broker: str, code: RequestCode, command: RemotingCommand) -> RemotingCommand:
        is_batch = code == RequestCode.SEND_BATCH_MESSAGE
        bodies = (
            [body for _, body, _ in decode_batch_body(command.body, 10_000)]
            if is_batch
            else [command.body]
        )
        queue_id = int(command.ext_fields["e"])
        self.stored += [(broker, queue_id, body) for body in bodies]
        self.sent.append(command)
        ids = ",".join([MESSAGE_ID] * len(bodies))
        place = {
            "MSG_REGION": self.region,
            "msgId": ids,
            "queueId": str(queue_id),
            "queueOffset": str(len(self.stored) - len(bodies)),
        }
        return answer(command, ResponseCode.SUCCESS, ext_fields=place)

    def _pull(self, queue: Queue, command: RemotingCommand) -> RemotingCommand:
        fields = command.ext_fields
        offset, count = int(fields["queueOffset"]), int(fields["maxMsgNums"])
        begin, end = self.range(queue)
        code, remark, follows, body = ResponseCode.PULL_NOT_FOUND, "", offset, b""
        if offset < begin:
            code, remark, follows = ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", begin
        elif offset > end:
            code, remark = ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"
            follows = end if begin else 0
        elif offset < end:
            found = self.queues[queue][offset - begin :][: min(count, PULL_MAX)]
            code, remark, follows = ResponseCode.SUCCESS, "FOUND", offset + len(found)
            if fields["subscription"] != "*":
                tags = [tag.strip().encode() for tag in fields["subscription"].split("||")]
                found = [x for x in found if any(b"TAGS\x01" + tag in x for tag in tags)]
            if not found:
                code, remark = ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"
            body = b"".join(found)
        places = {"nextBeginOffset": follows, "minOffset": begin, "maxOffset": end}
        fields = {
            "suggestWhichBrokerId": str(self.suggested),
            **{k: str(v) for k, v in places.items()},
        }
        return answer(command, code, remark, ext_fields=fields, body=body)

    @asynccontextmanager
    async def connect(self, options: ClientOptions) -> AsyncIterator[BrokerCalls]:
        """Yield calls to this cluster that do not wait between attempts."""
        yield self.calls(options)

    def calls(self, options: ClientOptions | None = None) -> BrokerCalls:
        async def no_pause(seconds: float) -> None:
            assert seconds == 0.01

        return BrokerCalls(self, options or ClientOptions((NAME_SERVER,)), pause=no_pause)


async def no_heartbeat(seconds: float) -> None:
    """Pause before a further attempt for no time, and before a heartbeat for ever."""
    await (asyncio.Event().wait() if seconds >= HEARTBEAT_SECONDS else asyncio.sleep(0))


def instance_of(cluster: FakeCluster) -> Callable[[ClientOptions], ClientInstance]:
    """Return what makes a client instance of this cluster; its heartbeats come by hand only."""
    return lambda options: ClientInstance(options, connect=lambda _: cluster, pause=no_heartbeat)


def run_producer(
    cluster: FakeCluster, body: Callable[[Producer], Awaitable[Result]], **settings: Any
) -> Result:
    """Return what `body` does with an open producer of this cluster."""

    async def main() -> Result:
        given = {"group": "g", "connect": instance_of(cluster), "retries_max": 0, **settings}
        async with Producer(NAME_SERVER, **given) as producer:
            return await body(producer)

    return asyncio.run(main())


def message(body: bytes = b"x", **fields: object) -> EncodedMessage:
    """Return a message for any queue of topic T."""
    return EncodedMessage("T", body, "UNIQ_KEY\x01K")._replace(**fields)  # type: ignore[arg-type]


def stored_ms(data: bytes) -> int:
    return int.from_bytes(data[56:64], "big")


def messages(
    count: int, *, topic: str = "T", queue_id: int = 0, first: int = 0, properties: bytes = b""
) -> list[bytes]:
    """Return records of one queue, each a second after the one before, far apart in the log."""
    return [
        record(
            1000 * (first + n),
            properties,
            topic=topic,
            queue_id=queue_id,
            queue_offset=first + n,
            body=b"%d" % (first + n),
            store_timestamp_ms=STORE_MS + 1000 * (first + n),
        )
        for n in range(count)
    ]
