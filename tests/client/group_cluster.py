"""A cluster without sockets whose brokers know consumer groups: members, locks, retries.

A pull waits at the broker until something changes. What a consumer sends back is in the retry topic
at once, or in the dead letter topic.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta

from tests.client.clusters import FakeCluster, Queue, messages, no_heartbeat
from tests.fakes.records import record
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.instance import ClientInstance
from wakelog.client.options import ClientOptions
from wakelog.protocol.bodies import (
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    SubscriptionData,
)
from wakelog.protocol.body_codec import MessageQueue, decode_body, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.properties import RETRY_TOPIC, decode_properties, encode_properties
from wakelog.protocol.record import decode_record


class GroupCluster(FakeCluster):
    """See the module.

    members: the client ids of the group, which the broker gives.
    locks: the client that has a queue. subscriptions: of the last heartbeat.
    sent_back: the requests for a retry. forgotten: the broker has lost its members.
    pulls, pulled_at: the header of each pull, and its address and topic.
    """

    def __init__(self, queues: dict[Queue, list[bytes]]) -> None:
        super().__init__(queues)
        self.members: list[str] = []
        self.locks: dict[MessageQueue, str] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.sent_back: list[RemotingCommand] = []
        self.pulls: list[dict[str, str]] = []
        self.pulled_at: list[tuple[str, str]] = []
        self.instances: list[ClientInstance] = []
        self._held: list[asyncio.Future[None]] = []

    def join(self, options: ClientOptions) -> ClientInstance:
        """Return an instance of this cluster; its heartbeats come only when they are asked for."""
        made = ClientInstance(options, connect=lambda _: self, pause=no_heartbeat)
        made.client_id = f"client-{len(self.instances)}"
        self.instances.append(made)
        return made

    def add(self, queue: Queue, records: list[bytes]) -> None:
        """Let a queue have more."""
        self.queues.setdefault(queue, []).extend(records)
        self.change()

    def change(self) -> None:
        """Let held pulls look again."""
        held, self._held = self._held, []
        for pull in held:
            if not pull.done():
                pull.set_result(None)

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        await asyncio.sleep(0)  # as over a socket
        handle = self._handlers.get(command.code)
        if handle is not None:
            self.asked.append((address, RequestCode(command.code)))
            return self.fail(address, command) or handle(self, command)
        if command.code == RequestCode.PULL_MESSAGE:
            return await self._hold(address, command, timeout_ms)
        return await super().invoke(address, command, timeout_ms=timeout_ms)

    async def _hold(
        self, address: str, command: RemotingCommand, timeout_ms: int
    ) -> RemotingCommand:
        self.pulls.append(command.ext_fields)
        self.pulled_at.append((address, command.ext_fields["topic"]))
        known = self.subscriptions.get(command.ext_fields["topic"])
        if "subscription" not in command.ext_fields:
            if known is None:
                return answer(command, ResponseCode.SUBSCRIPTION_NOT_EXIST, "no such group")
            command.ext_fields["subscription"] = known.sub_string
        while True:
            response = await super().invoke(address, command, timeout_ms=timeout_ms)
            if response.code != ResponseCode.PULL_NOT_FOUND:
                return response
            self._held.append(asyncio.get_running_loop().create_future())
            await self._held[-1]

    def _heartbeat(self, command: RemotingCommand) -> RemotingCommand:
        data = decode_body(HeartbeatData, command.body)
        for consumer in data.consumer_data_set:
            if data.client_id not in self.members:
                self.members.append(data.client_id)
            self.subscriptions = {each.topic: each for each in consumer.subscription_data_set}
        return answer(command, ResponseCode.SUCCESS)

    def _unregister(self, command: RemotingCommand) -> RemotingCommand:
        client_id = command.ext_fields["clientID"]
        self.members = [member for member in self.members if member != client_id]
        return answer(command, ResponseCode.SUCCESS)

    def _list(self, command: RemotingCommand) -> RemotingCommand:
        body = encode_body(GetConsumerListByGroupResponseBody(list(self.members)))
        return answer(command, ResponseCode.SUCCESS, body=body)

    def _lock(self, command: RemotingCommand) -> RemotingCommand:
        asked = decode_body(LockBatchRequestBody, command.body)
        mine = {
            q for q in asked.mq_set if self.locks.setdefault(q, asked.client_id) == asked.client_id
        }
        return answer(command, ResponseCode.SUCCESS, body=encode_body(LockBatchResponseBody(mine)))

    def _unlock(self, command: RemotingCommand) -> RemotingCommand:
        asked = decode_body(LockBatchRequestBody, command.body)
        for queue in asked.mq_set:
            if self.locks.get(queue) == asked.client_id:
                del self.locks[queue]
        return answer(command, ResponseCode.SUCCESS)

    def _take_back(self, command: RemotingCommand) -> RemotingCommand:
        self.sent_back.append(command)
        fields = command.ext_fields
        found = next(
            one
            for part in self.queues.values()
            for one in map(decode_record, part)
            if one.physical_offset == int(fields["offset"])
        )
        is_dead = int(fields["delayLevel"]) < 0
        is_dead |= found.reconsume_times >= int(fields["maxReconsumeTimes"])
        queue = "a", f"{'%DLQ%' if is_dead else '%RETRY%'}{fields['group']}", 0
        properties = decode_properties(found.properties_text) | {RETRY_TOPIC: fields["originTopic"]}
        again = record(
            100_000 + len(self.sent_back),
            encode_properties(properties).encode(),
            topic=queue[1],
            queue_offset=len(self.queues.get(queue, ())),
            body=found.body,
            reconsume_times=found.reconsume_times + 1,
        )
        self.add(queue, [again])
        return answer(command, ResponseCode.SUCCESS)

    def _accept(self, command: RemotingCommand) -> RemotingCommand:
        return answer(command, ResponseCode.SUCCESS)

    _handlers: dict[int, Callable[["GroupCluster", RemotingCommand], RemotingCommand]] = {  # noqa: RUF012
        RequestCode.HEART_BEAT: _heartbeat,
        RequestCode.UNREGISTER_CLIENT: _unregister,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: _list,
        RequestCode.LOCK_BATCH_MQ: _lock,
        RequestCode.UNLOCK_BATCH_MQ: _unlock,
        RequestCode.CONSUMER_SEND_MSG_BACK: _take_back,
        RequestCode.CHECK_CLIENT_CONFIG: _accept,
    }


def two_queues(count: int = 4) -> GroupCluster:
    """Return a cluster whose topic T has two queues, with as many messages each."""
    return GroupCluster({("a", "T", n): messages(count, queue_id=n) for n in (0, 1)} | {RETRY: []})


RETRY: Queue = ("a", "%RETRY%g", 0)


class NoSettler:
    """For messages that nobody settles."""

    namespace = ""

    async def ack(self, message: ConsumerMessage) -> None:
        raise AssertionError

    async def nack(self, message: ConsumerMessage, delay: timedelta | None) -> None:
        raise AssertionError

    async def reject(self, message: ConsumerMessage) -> None:
        raise AssertionError

    async def reply(
        self, message: ConsumerMessage, body: bytes | str, properties: Mapping[str, str] | None
    ) -> None:
        raise AssertionError


SETTLER = NoSettler()
