"""What a consumer asks brokers as a member of its group: members, locks, pulls, offsets, retries.

A request goes to the broker by its name: to the master, or to a slave if there is no master and a
slave may answer. A call is not repeated here: the consumer's loops come round again, and what its
user asks for waits by `ClientInstance.wait_out`.

Invariants: every method raises ClientError, and no other error of a connection, for an answer that
is missing or refuses. One that cannot be read is a ProtocolError.

Source: org.apache.rocketmq.client.impl.MQClientAPIImpl, org.apache.rocketmq.client.impl.factory.
MQClientInstance#findBrokerAddressInSubscribe, org.apache.rocketmq.client.impl.consumer.
PullAPIWrapper, RebalanceImpl#lock (4.9.3).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from wakelog.client.broker_calls import BrokerCalls, Pulled, read_pulled
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError, describe, refused, unanswered
from wakelog.client.instance import ClientInstance
from wakelog.client.route import MASTER_ID, QueueAt
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import (
    CheckClientRequestBody,
    GetConsumerListByGroupResponseBody,
    LockBatchRequestBody,
    LockBatchResponseBody,
    SubscriptionData,
)
from wakelog.protocol.body_codec import MessageQueue, decode_response, encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.clients import ConsumerGroupRequestHeader
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from wakelog.protocol.subscription import is_tag_type
from wakelog.protocol.sys_flag import PULL_BY_BYTES, PULL_LARGE, PULL_SUBSCRIPTION, PULL_SUSPEND

PULL_MESSAGES_MAX: Final = 256
"""A broker of 4.9.3 gives 32, whatever it is asked for. A queue may exceed its limit by so many."""
PULL_ROWS_MAX: Final = 2_048
"""The same for columns."""
HOLD_MS: Final = 15_000
"""How long a broker may hold a pull until a message comes (brokerSuspendMaxTimeMillis)."""
PULL_TIMEOUT_MS: Final = 30_000
"""consumerTimeoutMillisWhenSuspend."""

CHECK_BROKERS: Final = "Check that its brokers run, and are registered with the name server"

_SQL92: Final = {
    int(ResponseCode.SYSTEM_ERROR): (
        "If it filters by SQL92, the broker needs enablePropertyFilter=true; else check its log"
    ),
}
_REMEDIES: Final = {
    int(ResponseCode.NO_PERMISSION): "Give the topic and the group read permission",
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): "Create the group (mqadmin updateSubGroup)",
    int(ResponseCode.SUBSCRIPTION_PARSE_FAILED): "Correct the expression of the subscription",
}


class GroupCalls:
    """See the module. One loop, one thread.

    Attributes:
        offsets: the calls about offsets; they take the queue as `at` returns it.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        """Send no request yet."""
        self.group = group
        connections, options = instance.connections, instance.options
        once = options._replace(retries_max=0)
        self.offsets = BrokerCalls(connections, once, routes=instance.routes)
        self._instance = instance
        self._suggested: dict[MessageQueue, int] = {}  # the broker id to pull a queue from

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """Return the address of a broker, of another id if it has none with this one.

        Raises: ClientError for an unknown broker.
        """
        addresses = self._instance.routes.brokers.get(broker_name) or {}
        found = addresses.get(broker_id) or addresses.get(min(addresses, default=MASTER_ID))
        if found is None:
            raise ClientError(f"broker {broker_name} has no address", CHECK_BROKERS)
        return found

    def at(self, queue: MessageQueue) -> QueueAt:
        """Return a queue with the address of its broker. Raises: ClientError."""
        address = self.address(queue.broker_name)
        return QueueAt(queue.broker_name, queue.topic, queue.queue_id, address)

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the queues that may be read, None for an unknown topic. Raises: ClientError."""
        found = await self._instance.routes.readable(topic)
        if found is None:
            return None
        return [MessageQueue(topic, each.broker, each.queue_id) for each in found]

    async def members(self, broker_name: str) -> list[str]:
        """Return the client ids of the group at a broker. Raises: ClientError."""
        header = ConsumerGroupRequestHeader(consumer_group=self.group)
        response = await self._ask(broker_name, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        return decode_response(GetConsumerListByGroupResponseBody, response.body).consumer_id_list

    async def check(self, broker_name: str, subscription: SubscriptionData) -> None:
        """Ask a broker whether it accepts a filter. Raises: ClientError."""
        body = CheckClientRequestBody(self._instance.client_id, self.group, subscription)
        await self._ask(broker_name, RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body))

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues of one broker for this client, and return those that it got.

        Raises: ClientError.
        """
        wanted = set(queues)
        response = await self._ask_locks(wanted, RequestCode.LOCK_BATCH_MQ)
        return decode_response(LockBatchResponseBody, response.body).lock_ok_mq_set & wanted

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give up the locks of queues of one broker. Raises: ClientError."""
        await self._ask_locks(set(queues), RequestCode.UNLOCK_BATCH_MQ)

    async def _ask_locks(self, queues: set[MessageQueue], code: RequestCode) -> RemotingCommand:
        [broker_name] = {queue.broker_name for queue in queues}
        body = LockBatchRequestBody(self.group, self._instance.client_id, queues)
        return await self._ask(broker_name, code, body=encode_body(body))

    async def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        subscription: SubscriptionData,
        *,
        is_known: bool,
        messages_max: int = PULL_MESSAGES_MAX,
        is_large: bool = False,
    ) -> Pulled:
        """Pull once, and wait for a message for up to `HOLD_MS`.

        is_known: the broker has the subscription from heartbeats; if not, the pull brings it along.
        is_large: may bring a MiB from wakelog, which stops at 256 KiB else.
        It brings no offset to commit: a held pull could overtake a later commit. Raises:
        ClientError.
        """
        broker_id = self._suggested.get(queue, MASTER_ID)
        address = self.address(queue.broker_name, broker_id)
        flags = PULL_SUSPEND | PULL_BY_BYTES | (PULL_LARGE if is_large else 0)
        header = PullMessageRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=messages_max,
            sys_flag=flags if is_known else flags | PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            sub_version=subscription.sub_version or 0,
            subscription=None if is_known else subscription.sub_string,
            expression_type=subscription.expression_type,
        )
        try:
            response = await self._invoke(
                *(address, RequestCode.PULL_MESSAGE, header),
                timeout_ms=PULL_TIMEOUT_MS,
                wants_view=True,
            )
        except ClientError:
            self._suggested.pop(queue, None)
            raise
        pulled = read_pulled(self.at(queue), queue_offset, response)
        self._suggested[queue] = pulled.suggested_broker_id
        return pulled

    async def send_back(self, message: ConsumerMessage, delay_level: int, retries_max: int) -> None:
        """Have the broker deliver a message again, or make it a dead letter.

        delay_level: 0 for the broker's steps, -1 for a dead letter now. Raises: ClientError.
        """
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.record.physical_offset,
            group=self.group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.full_topic,
            max_reconsume_times=retries_max,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        await self._ask(message.queue.broker_name, code, header)

    async def _ask(
        self,
        broker_name: str,
        code: RequestCode,
        header: msgspec.Struct | None = None,
        *,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return a response of a master with SUCCESS. Raises: ClientError."""
        address = self.address(broker_name)
        timeout_ms = self._instance.options.timeout_ms
        response = await self._invoke(address, code, header, body, timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            cause = f"{broker_name} answered {code.name} with {describe(response)}"
            more = _SQL92 if code == RequestCode.CHECK_CLIENT_CONFIG else {}
            raise refused(broker_name, cause, response, _REMEDIES | more)
        return response

    async def _invoke(
        self,
        address: str,
        code: RequestCode,
        header: msgspec.Struct | None,
        body: bytes = b"",
        *,
        timeout_ms: int,
        wants_view: bool = False,
    ) -> RemotingCommand:
        fields = {} if header is None else to_ext_fields(header)
        command = RemotingCommand(int(code), ext_fields=fields, body=body, wants_view=wants_view)
        try:
            return await self._instance.connections.invoke(address, command, timeout_ms=timeout_ms)
        except RemotingError as error:
            what = f"{address} does not answer {code.name}"
            raise unanswered(what, error, CHECK_BROKERS) from error


def is_filter(subscription: SubscriptionData) -> bool:
    """Return whether brokers have to be asked about a subscription before it is used."""
    return not is_tag_type(subscription.expression_type)
