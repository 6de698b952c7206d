"""Which of the delayed messages that wait are overdue, and where the next ones are.

The delay offset of 4.9.3 is where it began to deliver several messages at once. So of those that
wait by this offset some were delivered, and cannot be told from others that are overdue. There,
overdue is what came due while the offset stayed, as two readings show.
"""

from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.waiting import DelayedPlace, LevelReading


def is_exact(broker: BrokerReading) -> bool:
    """Return whether the delay offsets of a broker say exactly what it has delivered."""
    return "wakelogVersion" in broker.values


def overdue_count(broker: BrokerReading, level: LevelReading, history: History) -> int:
    """Return how many messages of a level are overdue."""
    if is_exact(broker):
        return level.late
    unmoved = history.unmoved_levels.get((broker.address, level.level))
    return level.late if unmoved is not None and level.last_late_ms > unmoved.since_ms else 0


def delivered_count(broker: BrokerReading, level: LevelReading, history: History) -> int:
    """Return how many messages that wait by the offset are taken as delivered."""
    return 0 if is_exact(broker) or overdue_count(broker, level, history) else level.due


def places(history: History, cluster: ClusterReading) -> list[DelayedPlace]:
    """Return where the next messages are: of each level that has some."""
    found = []
    for broker in cluster.brokers:
        for level in broker.messages.levels if broker.messages else ():
            begin = level.offset + delivered_count(broker, level, history)
            if begin < level.end:
                ahead_ms = round(broker.clock_ahead_ms or 0)
                place = DelayedPlace(broker.name, broker.address, level, begin, level.end, ahead_ms)
                found.append(place)
    return found
