"""Topics that are not there yet when a consumer starts.

Whoever starts first, consumer or producer, nothing is lost: a topic that comes later is read from
when it is there. With `start="last"` that is from what was stored since the consumer started.

Source: org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl#{start,
checkClientInBroker} (4.9.3), which waits for no topic.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from wakelog.client.errors import ClientError
from wakelog.client.group_calls import GroupCalls, is_filter
from wakelog.client.group_member import AGAIN_SECONDS
from wakelog.client.options import without_namespace
from wakelog.protocol.bodies import SubscriptionData

logger = logging.getLogger("wakelog.client")


async def meet_topics(
    calls: GroupCalls,
    subscriptions: Mapping[str, SubscriptionData],
    namespace: str,
    seconds_max: float | None,
) -> list[str]:
    """Wait for topics if that is wanted, and have brokers check the filters.

    seconds_max: how long to wait, None for not at all.
    Returns: the topics that were not there at first.
    Raises: ClientError for a topic that did not come, or a filter that a broker refuses.
    """
    now = asyncio.get_running_loop().time
    end_seconds = None if seconds_max is None else now() + seconds_max
    late = []
    for topic, subscription in subscriptions.items():
        queues = await calls.queues(topic)
        if queues is None:
            late.append(topic)
            given = without_namespace(namespace, topic)
            line = "no name server knows topic %s yet: it is read from when it is there"
            logger.warning(line, given)
        while queues is None and end_seconds is not None:
            left_seconds = end_seconds - now()
            if left_seconds <= 0:
                remedy = "Create it, send to it, or give a longer start_timeout"
                raise ClientError(f"no name server knows topic {given}", remedy)
            await asyncio.sleep(min(AGAIN_SECONDS, left_seconds))
            queues = await calls.queues(topic)
        if queues is not None and is_filter(subscription):
            await _check_filter(calls, subscription, {queue.broker_name for queue in queues})
    return late


async def _check_filter(
    calls: GroupCalls, subscription: SubscriptionData, broker_names: Iterable[str]
) -> None:
    """Ask brokers whether they accept a filter. Raises: ClientError if one of them refuses."""
    for broker_name in sorted(broker_names):
        try:
            await calls.check(broker_name, subscription)
        except ClientError as error:
            if error.code is not None:
                raise
            logger.warning("the filter is not checked: %s", error)
