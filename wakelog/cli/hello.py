"""`wakelog hello`: send one message and fetch it back, as a producer and a consumer would.

It shows that name server and broker do their work, and what a client does in which order:

    name server   GET_ROUTEINFO_BY_TOPIC   which broker; for a topic that is not there yet, the
                                           brokers that would create it (those of TBW102)
    broker        SEND_MESSAGE             stored: queue, offset, message id
    broker        PULL_MESSAGE             the record at that offset, held until it is dispatched

Any RocketMQ 4.x will do. Source: org.apache.rocketmq.client.impl.MQClientAPIImpl (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import msgspec

from wakelog.actors.errors import DeploymentFailed, PlanRefused
from wakelog.network.client import RemotingClient
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import BrokerData, TopicRouteData
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import read_header, to_ext_fields
from wakelog.protocol.headers.admin import TopicRequestHeader
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from wakelog.protocol.message_record import decode_record
from wakelog.protocol.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND

AUTO_CREATE_TOPIC = "TBW102"
GROUP = "wakelog-hello"
BODY = b"hello"
CALL_MS_MAX = 3_000  # sendMsgTimeout of 4.9.3's producer
HOLD_MS = 2_000
PORT_MAX = 65_535


class Place(msgspec.Struct, frozen=True):
    """Where a message was stored."""

    broker: str
    queue_id: int
    queue_offset: int
    message_id: str


def greet(name_server: str, topic: str, say: Callable[[str], None]) -> None:
    """Send one message and fetch it back, saying what happened.

    Raises: PlanRefused for what is no address, DeploymentFailed.
    """
    _check_address(name_server)

    async def run() -> None:
        client = RemotingClient()
        try:
            await Hello(client, name_server, topic).run(BODY, say)
        finally:
            await client.close()

    asyncio.run(run())


def _check_address(text: str) -> None:
    host, _, port = text.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) <= PORT_MAX):
        raise PlanRefused(f"{text} is no HOST:PORT", "Give one, such as 127.0.0.1:9876.")


def _reason(error: RemotingError) -> str:
    """Return why a call failed; of what the system said, without the number of the error."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(error.reason)


class Hello:
    """One greeting to a cluster, by the address of its name server."""

    def __init__(self, client: RemotingClient, name_server: str, topic: str) -> None:
        """Ask nobody yet."""
        self._client = client
        self._name_server = name_server
        self._topic = topic

    async def run(self, body: bytes, say: Callable[[str], None]) -> None:
        """Send and fetch, and say what happened. Raises: DeploymentFailed."""
        try:
            broker = await self._find_broker()
            address = broker.broker_addrs[0]
            began = time.perf_counter()
            place = await self._send(broker.broker_name, address, body)
            sent = time.perf_counter()
            say(
                f"sent      to topic {self._topic}, {place.broker} queue {place.queue_id} offset "
                f"{place.queue_offset}, in {(sent - began) * 1000:.1f} ms (id {place.message_id})"
            )
            found = await self._fetch(address, place)
            took_ms = (time.perf_counter() - sent) * 1000
            say(f"received  {found.decode(errors='replace')!r}, in {took_ms:.1f} ms")
        except RemotingError as error:
            raise DeploymentFailed(
                f"{error.address} does not answer: {_reason(error)}",
                "Look whether it runs and where it listens.",
            ) from error
        except ProtocolError as error:
            raise DeploymentFailed(
                f"an answer is not as RocketMQ 4.x gives it: {error}", "Look at who answers there."
            ) from error

    async def _find_broker(self) -> BrokerData:
        for topic in (self._topic, AUTO_CREATE_TOPIC):
            header = TopicRequestHeader(topic=topic)
            answer = await self._ask(self._name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            if answer.code == ResponseCode.SUCCESS:
                route = decode_body(TopicRouteData, answer.body)
                for broker in route.broker_datas:
                    if 0 in broker.broker_addrs:
                        return broker
        raise DeploymentFailed(
            f"the name server {self._name_server} knows no broker for topic {self._topic}",
            "Wait until one has registered, or create the topic.",
        )

    async def _send(self, broker: str, address: str, body: bytes) -> Place:
        header = SendMessageRequestHeader(
            producer_group=GROUP,
            topic=self._topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=0,
            properties="",
        )
        answer = await self._ask(address, RequestCode.SEND_MESSAGE, header, body)
        if answer.code != ResponseCode.SUCCESS:
            raise _refused(address, "the message", answer)
        stored = read_header(SendMessageResponseHeader, answer.ext_fields)
        return Place(broker, stored.queue_id, stored.queue_offset, stored.msg_id)

    async def _fetch(self, address: str, place: Place) -> bytes:
        header = PullMessageRequestHeader(
            consumer_group=GROUP,
            topic=self._topic,
            queue_id=place.queue_id,
            queue_offset=place.queue_offset,
            max_msg_nums=1,
            sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        answer = await self._ask(address, RequestCode.PULL_MESSAGE, header)
        if answer.code != ResponseCode.SUCCESS:
            raise _refused(address, "the pull", answer)
        return decode_record(answer.body).body

    async def _ask(
        self, address: str, code: RequestCode, header: msgspec.Struct, body: bytes = b""
    ) -> RemotingCommand:
        request = RemotingCommand(int(code), ext_fields=to_ext_fields(header), body=body)
        return await self._client.invoke(address, request, timeout_ms=CALL_MS_MAX)


def _refused(address: str, what: str, answer: RemotingCommand) -> DeploymentFailed:
    return DeploymentFailed(
        f"{address} refused {what} with code {answer.code}: {answer.remark or 'no reason given'}",
        "Look at the broker's log.",
    )
