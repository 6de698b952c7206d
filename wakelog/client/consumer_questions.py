"""What brokers ask a consumer: to balance, to reset offsets, what it does, to consume a message.

An operator asks by a broker: with mqadmin or `wakelog admin`. Brokers tell a member when its group
has changed.

Source: org.apache.rocketmq.client.impl.ClientRemotingProcessor,
DefaultMQPushConsumerImpl#consumerRunningInfo, ProcessQueue#fillProcessQueueInfo (4.9.3).
"""

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from wakelog.client.clocks import steady_ms, wall_ms
from wakelog.client.consumer_message import ConsumerMessage, Settler
from wakelog.client.group_member import GroupMember
from wakelog.client.inbox import Inbox, Queue
from wakelog.client.instance import Answer, ClientInstance
from wakelog.protocol.bodies import (
    CONSUME_PASSIVELY,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from wakelog.protocol.body_codec import MessageQueue, decode_response, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.clients import GetConsumerStatusRequestHeader
from wakelog.protocol.java import boolean_text
from wakelog.protocol.record import decode_record

DIRECTLY_SECONDS_MAX: Final = 60.0
"""How long a message that an operator sent may take. The broker waits less, 10 s by default."""
CONSUMED: Final = "CR_SUCCESS"
LATER: Final = "CR_LATER"
STACKS_MAX: Final = 200
"""Tasks whose stacks an answer has."""

_MEBIBYTE: Final = 1 << 20


class ConsumerQuestions:
    """See the module. One loop, one thread."""

    def __init__(
        self, consumer: Settler, instance: ClientInstance, member: GroupMember, inbox: Inbox
    ) -> None:
        """Note when the consumer began."""
        self._consumer = consumer
        self._instance = instance
        self._member = member
        self._inbox = inbox
        self._started_ms = steady_ms()
        self._start_timestamp = str(wall_ms())
        self.answers: dict[int, Answer] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._balance,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._report_offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._report_all,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
        }

    async def _balance(self, address: str, request: RemotingCommand) -> None:
        self._member.balance_soon()

    async def _reset(self, address: str, request: RemotingCommand) -> None:
        """Go on at the offsets that an operator gave the group."""
        body = decode_response(ResetOffsetBody, request.body)
        await self._member.reset(body.offset_table)

    async def _report_offsets(self, address: str, request: RemotingCommand) -> RemotingCommand:
        topic = read_header(GetConsumerStatusRequestHeader, request.ext_fields).topic
        offsets = {
            queue: found.committable
            for queue, found in self._inbox.queues.items()
            if queue.topic == topic
        }
        body = encode_body(GetConsumerStatusBody(message_queue_table=offsets))
        return answer(request, ResponseCode.SUCCESS, body=body)

    async def _report_all(self, address: str, request: RemotingCommand) -> RemotingCommand:
        queues = self._inbox.queues
        with_stacks = request.ext_fields.get("jstackEnable") == "true"
        subscriptions = sorted(self._member.subscriptions.values(), key=lambda one: one.topic)
        info = ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(self._instance.options.name_servers),
                "PROP_CONSUMEORDERLY": boolean_text(self._member.is_ordered),
                "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
                "PROP_CLIENT_VERSION": "V4_9_3",
                "PROP_CONSUMER_START_TIMESTAMP": self._start_timestamp,
                "PROP_THREADPOOL_CORE_SIZE": "1",
                "clientIP": self._instance.address,
                "consumerGroup": self._instance.options.group,
            },
            subscription_set=subscriptions,
            mq_table={queue: self._describe(queue, queues[queue]) for queue in sorted(queues)},
            status_table={one.topic: self._rates(one.topic) for one in subscriptions},
            jstack=_stacks() if with_stacks else None,
        )
        return answer(request, ResponseCode.SUCCESS, body=encode_body(info))

    def _describe(self, queue: MessageQueue, found: Queue) -> dict[str, bool | int]:
        """Return what 4.9.3 says of a queue (ProcessQueueInfo)."""
        cached = found.messages_count
        return {
            "commitOffset": found.committable,
            "cachedMsgMinOffset": found.committable if cached else 0,
            "cachedMsgMaxOffset": found.last_offset if cached else 0,
            "cachedMsgCount": cached,
            "cachedMsgSizeInMiB": (found.size_bytes + found.rows.size_bytes) // _MEBIBYTE,
            "transactionMsgMinOffset": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgCount": found.in_hand_count,
            "locked": self._inbox.is_locked(queue, steady_ms()),
            "tryUnlockTimes": 0,
            "lastLockTimestamp": 0,
            "droped": queue in self._inbox.leaving,
            "lastPullTimestamp": _as_wall_ms(found.pulled_ms),
            "lastConsumeTimestamp": _as_wall_ms(found.taken_ms),
        }

    def _rates(self, topic: str) -> dict[str, float]:
        """Return what 4.9.3 says of a topic (ConsumeStatus), on average since the start."""
        mine = [found for queue, found in self._inbox.queues.items() if queue.topic == topic]
        seconds = max((steady_ms() - self._started_ms) / 1000, 1.0)
        acked, returned, taken = (
            sum(getattr(found, f"{name}_count") for found in mine)
            for name in ("acked", "returned", "taken")
        )
        return {
            "pullRT": 0.0,
            "pullTPS": taken / seconds,
            "consumeRT": 0.0,
            "consumeOKTPS": acked / seconds,
            "consumeFailedTPS": returned / seconds,
            "consumeFailedMsgs": float(returned),
        }

    async def _consume(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """Give the user the message of the request, and say whether it was acknowledged."""
        began = time.monotonic()
        record = decode_record(request.body)
        delivery = DirectDelivery(self._consumer)
        broker_name = request.ext_fields.get("brokerName", "")
        queue = MessageQueue(record.topic, broker_name, record.queue_id)
        message = ConsumerMessage(record, queue, delivery)
        self._inbox.put_directly(message)
        result = ConsumeMessageDirectlyResult(order=self._member.is_ordered)
        try:
            async with asyncio.timeout(DIRECTLY_SECONDS_MAX):
                result.consume_result = await delivery.outcome
        except TimeoutError:
            self._inbox.withdraw(message)
            result.consume_result = LATER
            result.remark = f"neither ack() nor nack() came within {DIRECTLY_SECONDS_MAX} s"
        result.spent_time_mills = round((time.monotonic() - began) * 1000)
        return answer(request, ResponseCode.SUCCESS, body=encode_body(result))


class DirectDelivery:
    """One delivery of a message that an operator sent; it changes no offset (Settler)."""

    def __init__(self, consumer: Settler) -> None:
        """Wait for `ack` or `nack`."""
        self.namespace = consumer.namespace
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._consumer = consumer

    async def ack(self, message: ConsumerMessage) -> None:
        """Report success."""
        self._end(CONSUMED)

    async def nack(self, message: ConsumerMessage, delay: timedelta | None) -> None:
        """Report failure; the message does not come again."""
        self._end(LATER)

    async def reject(self, message: ConsumerMessage) -> None:
        """Report failure; the stored message is no dead letter by it."""
        self._end(LATER)

    def _end(self, outcome: str) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    async def reply(
        self, message: ConsumerMessage, body: bytes | str, properties: Mapping[str, str] | None
    ) -> None:
        """Reply as always. Raises: ClientError."""
        await self._consumer.reply(message, body, properties)


def _as_wall_ms(moment_ms: int) -> int:
    """Return when a moment of the steady clock was; 0 for what never happened."""
    return wall_ms() - (steady_ms() - moment_ms) if moment_ms else 0


def _stacks() -> str:
    """Return where the loop's tasks wait, outer calls first, in the place of Java's threads."""
    lines: list[str] = []
    for task in list(asyncio.all_tasks())[:STACKS_MAX]:
        lines.append(task.get_name())
        waits: object = task.get_coro()
        while frame := getattr(waits, "cr_frame", None):
            code = frame.f_code
            lines.append(f"  {code.co_filename}:{frame.f_lineno} in {code.co_qualname}")
            waits = getattr(waits, "cr_await", None)
    return "".join(f"{line}\n" for line in lines)
