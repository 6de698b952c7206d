"""The lanes of a broker, as data: names, capacities, weights, waits.

Names and capacities are those of 4.9.3's executors and their queues, from the same keys of
``broker.conf``. A weight is the number of requests of a lane in one round when all lanes wait.
A heartbeat waits for one round at most, so that an overloaded broker keeps its consumers.

The connections of a crowded lane are not read. A lane is crowded long before it is full: a one-way
sender gets no refusal, so a paused socket is better than a refused message. A round of a crowded
lane costs tens of milliseconds, well below waitTimeMillsInSendQueue. A request that waits takes
2 KB; in a socket it takes what was sent.

Source: org.apache.rocketmq.broker.BrokerController, BrokerFastFailure (4.9.3).
"""

from typing import NamedTuple

from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Lane
from wakelog.network.lanes import LaneSpec

ADMIN_CAPACITY_COUNT = 10_000
"""4.9.3's admin pool has no limit. Operators send tens of requests."""


class _Row(NamedTuple):
    """One lane of a broker; capacity and wait are fields of BrokerConfig, or a number."""

    lane: Lane
    capacity: str | int
    weight: int
    crowded_count: int
    wait: str | None = None
    yields: bool = False


_SEND_WAIT = "wait_time_mills_in_send_queue"
_PULL_WAIT = "wait_time_mills_in_pull_queue"
_HEARTBEAT_WAIT = "wait_time_mills_in_heartbeat_queue"
_END_WAIT = "wait_time_mills_in_transaction_queue"

_ROWS = (
    _Row(Lane.HEARTBEAT, "heartbeat_thread_pool_queue_capacity", 8, 10_000, _HEARTBEAT_WAIT),
    _Row(Lane.SEND, "send_thread_pool_queue_capacity", 32, 1_000, _SEND_WAIT),
    _Row(Lane.PULL, "pull_thread_pool_queue_capacity", 32, 2_000, _PULL_WAIT, yields=True),
    _Row(Lane.END_TRANSACTION, "end_transaction_pool_queue_capacity", 16, 2_000, _END_WAIT),
    _Row(Lane.CONSUMER_MANAGE, "consumer_manager_thread_pool_queue_capacity", 16, 2_000),
    _Row(Lane.CLIENT_MANAGE, "client_manager_thread_pool_queue_capacity", 8, 2_000),
    _Row(Lane.REPLY, "reply_thread_pool_queue_capacity", 16, 1_000),
    _Row(Lane.QUERY, "query_thread_pool_queue_capacity", 4, 1_000),
    _Row(Lane.ADMIN, ADMIN_CAPACITY_COUNT, 4, 1_000),
)


def broker_lanes(config: BrokerConfig) -> tuple[LaneSpec, ...]:
    """Return the lanes of a broker; limits on waiting only with ``brokerFastFailureEnable``."""
    limited = config.broker_fast_failure_enable
    return tuple(
        LaneSpec(
            name=row.lane.value,
            capacity_count=row.capacity
            if isinstance(row.capacity, int)
            else getattr(config, row.capacity),
            weight=row.weight,
            crowded_count=row.crowded_count,
            wait_seconds_max=getattr(config, row.wait) / 1000 if limited and row.wait else None,
            yields=row.yields,
        )
        for row in _ROWS
    )
