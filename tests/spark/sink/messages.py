"""Messages for tests of the sink, and a cluster that records its requests."""

from __future__ import annotations

from collections.abc import Callable

from wakelog.client.messages import Message
from wakelog.protocol.batch import decode_batch_body
from wakelog.protocol.bodies import BrokerData, QueueData, TopicRouteData
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

NAME_SERVER = "names:9876"
READ_WRITE, READ = 6, 4


def message(body: bytes = b"x", **fields: object) -> Message:
    plain = Message("T", body, "UNIQ_KEY\x01K", 0, None, "", False)
    return plain._replace(**fields)  # type: ignore[arg-type]


class FakeCluster:
    """Name server and brokers in one; `fail` may raise or answer in their place.

    routes: topic to broker name to the number of queues; a broker listens at its name and a port.
    stored: what brokers acknowledged, as (broker, queue id, body), in order.
    """

    def __init__(self, routes: dict[str, dict[str, int]], perm: int = READ_WRITE) -> None:
        self.routes = routes
        self.perm = perm
        self.asked: list[tuple[str, RequestCode]] = []
        self.stored: list[tuple[str, int, bytes]] = []
        self.fail: Callable[[str, RemotingCommand], RemotingCommand | None] = lambda *_: None

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        self.asked.append((address, RequestCode(command.code)))
        failed = self.fail(address, command)
        if failed is not None:
            return failed
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._route(command)
        broker = address.partition(":")[0]
        is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE
        bodies = [x.body for x in decode_batch_body(command.body)] if is_batch else [command.body]
        queue_id = int(command.ext_fields["e"])
        self.stored += [(broker, queue_id, body) for body in bodies]
        place = {"msgId": "ID", "queueId": str(queue_id), "queueOffset": str(len(self.stored) - 1)}
        return answer(command, ResponseCode.SUCCESS, ext_fields=place)

    def _route(self, command: RemotingCommand) -> RemotingCommand:
        route = self.routes.get(command.ext_fields["topic"])
        if route is None:
            return answer(command, ResponseCode.TOPIC_NOT_EXIST, "no route")
        data = TopicRouteData(
            queue_datas=[QueueData(name, n, n, self.perm) for name, n in route.items()],
            broker_datas=[BrokerData("c", name, {0: f"{name}:10911"}) for name in route],
        )
        return answer(command, ResponseCode.SUCCESS, body=encode_body(data))
