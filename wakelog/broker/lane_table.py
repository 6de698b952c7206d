"""The lanes of a broker and of a name server, as data: names, capacities, weights, waits.

Names and capacities are those of 4.9.3's executors and their queues, from the same keys of
``broker.conf``. A weight is the number of requests of a lane in one round when all lanes wait.
Sends and pulls share the loop evenly. A heartbeat waits for one round of them at most, so that an
overloaded broker does not also lose its consumers; 4.9.3 gives heartbeats their own pool for that.

The connections of a crowded lane are not read. A lane is crowded long before it is full: a one-way
sender gets no refusal, so a paused socket is better than a refused message. A round of a crowded
lane costs tens of milliseconds, well below waitTimeMillsInSendQueue.

Source: org.apache.rocketmq.broker.BrokerController, BrokerFastFailure (4.9.3).
"""

from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Lane
from wakelog.network.lanes import LaneSpec
from wakelog.network.limits import ServerLimits

ADMIN_CAPACITY_COUNT = 10_000
"""4.9.3's admin pool has no limit. Operators send tens of requests."""

NAME_SERVER_LANE = "default"
"""4.9.3's RemotingExecutorThread pool."""

NAME_SERVER_CAPACITY_COUNT = 100_000
"""4.9.3's has no limit. 100,000 clients may ask for a route at once."""


def broker_lanes(config: BrokerConfig) -> tuple[LaneSpec, ...]:
    """Return the lanes of a broker; limits on waiting only with ``brokerFastFailureEnable``."""

    def lane(
        name: Lane,
        capacity: int,
        *,
        weight: int,
        crowded: int,
        wait_mills: int | None = None,
        yields: bool = False,
    ) -> LaneSpec:
        limited = wait_mills is not None and config.broker_fast_failure_enable
        return LaneSpec(
            name=name.value,
            capacity_count=capacity,
            weight=weight,
            crowded_count=crowded,
            wait_seconds_max=wait_mills / 1000 if limited and wait_mills is not None else None,
            yields=yields,
        )

    return (
        lane(
            Lane.HEARTBEAT,
            config.heartbeat_thread_pool_queue_capacity,
            weight=8,
            crowded=10_000,
            wait_mills=config.wait_time_mills_in_heartbeat_queue,
        ),
        lane(
            Lane.SEND,
            config.send_thread_pool_queue_capacity,
            weight=32,
            crowded=1_000,
            wait_mills=config.wait_time_mills_in_send_queue,
        ),
        lane(
            Lane.PULL,
            config.pull_thread_pool_queue_capacity,
            weight=32,
            crowded=10_000,
            wait_mills=config.wait_time_mills_in_pull_queue,
            yields=True,
        ),
        lane(
            Lane.END_TRANSACTION,
            config.end_transaction_pool_queue_capacity,
            weight=16,
            crowded=10_000,
            wait_mills=config.wait_time_mills_in_transaction_queue,
        ),
        lane(
            Lane.CONSUMER_MANAGE,
            config.consumer_manager_thread_pool_queue_capacity,
            weight=16,
            crowded=10_000,
        ),
        lane(
            Lane.CLIENT_MANAGE,
            config.client_manager_thread_pool_queue_capacity,
            weight=8,
            crowded=10_000,
        ),
        lane(Lane.REPLY, config.reply_thread_pool_queue_capacity, weight=16, crowded=1_000),
        lane(Lane.QUERY, config.query_thread_pool_queue_capacity, weight=4, crowded=1_000),
        lane(Lane.ADMIN, ADMIN_CAPACITY_COUNT, weight=4, crowded=1_000),
    )


def broker_limits(config: BrokerConfig) -> ServerLimits:
    """Return the limits of a broker's server, with 4.9.3's keys where it has one."""
    return ServerLimits(
        idle_seconds_max=config.server_channel_max_idle_time_seconds,
        backlog=config.server_socket_backlog,
    )


def name_server_lanes() -> tuple[LaneSpec, ...]:
    """Return the one lane of a name server."""
    return (
        LaneSpec(
            name=NAME_SERVER_LANE,
            capacity_count=NAME_SERVER_CAPACITY_COUNT,
            weight=32,
            crowded_count=10_000,
        ),
    )
