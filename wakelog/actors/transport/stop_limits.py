"""How long the parts of an ordered stop may take; each outer limit is the sum of the inner ones.

    up              `stop_seconds_max`, and what clients get by --drain-seconds
      brokers         BROKER_STOP_SECONDS_MAX; the Supervisor stops all at once
        connections     CLOSE_SECONDS_MAX of the network
        Reput           CATCH_UP_SECONDS_MAX
        services        RELEASES_SECONDS_MAX
        tables          TABLES_SECONDS_MAX
      name servers    NAME_SERVER_STOP_SECONDS_MAX, all at once
      Ray, metrics    RAY_SECONDS_MAX

What kills from outside has to wait longer: the manifests in `deploy/`.
"""

from typing import Final

from wakelog.network.server import CLOSE_SECONDS_MAX

CATCH_UP_SECONDS_MAX: Final = 30.0
"""How long a stop waits for Reput. A broker that stops earlier recovers as after a crash."""

RELEASE_SECONDS_MAX: Final = 10.0
"""How long one service may take to make its files durable when the Broker stops."""

RELEASES_SECONDS_MAX: Final = 20.0
"""The same for all of them, one after the other: one that hangs leaves time for the next."""

ADDED_RELEASE_SECONDS_MAX: Final = 1.0
"""The same for an added service, which keeps nothing that the store needs."""

TABLES_SECONDS_MAX: Final = 4.0
"""For tables, the checkpoint and the farewell to the name servers."""

BROKER_STOP_SECONDS_MAX: Final = (
    CLOSE_SECONDS_MAX + CATCH_UP_SECONDS_MAX + RELEASES_SECONDS_MAX + TABLES_SECONDS_MAX
)
NAME_SERVER_STOP_SECONDS_MAX: Final = CLOSE_SECONDS_MAX + TABLES_SECONDS_MAX

RAY_SECONDS_MAX: Final = 20.0
"""For Ray itself, 15 s, and for the metrics."""


def stop_seconds_max(in_turn_count: int) -> float:
    """Return how long `wakelog up` may take. in_turn_count: of brokers one after the other."""
    brokers_seconds = max(1, in_turn_count) * BROKER_STOP_SECONDS_MAX
    return brokers_seconds + NAME_SERVER_STOP_SECONDS_MAX + RAY_SECONDS_MAX
