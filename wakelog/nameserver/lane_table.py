"""The lanes of a name server, as data.

Source: org.apache.rocketmq.namesrv.NamesrvController (4.9.3), where one pool has all requests.
"""

from wakelog.network.lanes import LaneSpec
from wakelog.protocol.codes import RequestCode as Code

DEFAULT_LANE = "default"
"""4.9.3's RemotingExecutorThread pool."""

BROKERS_LANE = "brokers"
"""Of thousands of registrations at once a client's question for a route waits for some."""

BROKERS_CODES = (Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.QUERY_DATA_VERSION)
"""What brokers send. All else stays in one order: a value is put, then read."""

CAPACITY_COUNT = 100_000
"""4.9.3's has no limit. 100,000 clients may ask for a route at once."""


def name_server_lanes() -> tuple[LaneSpec, ...]:
    """Return the lanes of a name server."""
    return tuple(
        LaneSpec(
            name=name,
            capacity_count=CAPACITY_COUNT,
            weight=weight,
            crowded_count=10_000,
        )
        for name, weight in ((DEFAULT_LANE, 32), (BROKERS_LANE, 8))
    )
