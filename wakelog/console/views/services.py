"""The services of a broker: which work, how often each began, and why one does not."""

from typing import Final, NamedTuple

from wakelog.broker.health_values import ActorHealth, read_actors
from wakelog.broker.trouble import (
    NOTICE_PREFIX,
    notice_text,
    read_troubles,
    trouble_text,
)
from wakelog.console.cluster_reading import BrokerReading

WORKS, AWAY, TROUBLED, NOTICED = "works", "away", "does not work", "works, with a loss"

NOT_REPORTED: Final = (
    "This broker does not tell what its services do. A RocketMQ 4.9.3 broker has them as threads, "
    "and its logs alone say how they are."
)


class ServiceState(NamedTuple):
    """A service, or another part of a broker. restarts: None of what is no service.

    text: the sentence that `wakelog status` has, "" if all is well.
    """

    name: str
    state: str
    restarts: int | None
    text: str


def service_rows(reading: BrokerReading) -> list[ServiceState]:
    """Return the services that a broker tells of, those with a trouble first; none for 4.9.3."""
    actors = read_actors(reading.values)
    troubles = dict(read_troubles(reading.values))
    notices = dict(read_troubles(reading.values, NOTICE_PREFIX))
    rows = [
        ServiceState(part, TROUBLED, _restarts(actors.get(part)), trouble_text(part, one))
        for part, one in troubles.items()
    ]
    rows += [
        ServiceState(part, NOTICED, None, notice_text(part, one)) for part, one in notices.items()
    ]
    for name, actor in actors.items():
        if name in troubles:
            continue
        text = "" if actor.is_attached else "The broker attaches it again as soon as it is there."
        state = WORKS if actor.is_attached else AWAY
        rows.append(ServiceState(name, state, _restarts(actor), text))
    return rows


def _restarts(actor: ActorHealth | None) -> int | None:
    return None if actor is None else max(0, actor.attached_count - 1)
