"""Whether clients can send to the brokers of a deployment, and what does not work, for probes.

What the brokers say of themselves goes in, and out comes what `/health/ready` and `/health/details`
answer. The rules are those of `findings`, so that a probe, `status` and `doctor` say the same.

    ready    each broker answers, and takes messages; a follower is in the in-sync set of its group

A replica that catches up is not ready: the next one of a rolling restart waits for it. Nor is one
whose register has not answered yet, so that nobody is known to lead its group.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wakelog.broker.health_values import read_actors
from wakelog.broker.replication.known_group import known_group
from wakelog.broker.replication.takeover import REPLICA_VALUE
from wakelog.broker.trouble import read_troubles
from wakelog.client.errors import ClientError
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.findings import SERVER_RULE_CHECKS, dated, wrong
from wakelog.console.history import History
from wakelog.console.rules import Finding
from wakelog.console.subjects import broker_text

WORKS: Final = "works"
AWAY: Final = "away"
REFUSES: Final = "refuses"
NO_ANSWER: Final = "no answer"
STOPS_SENDS: Final = frozenset(
    {"no answer", "disk full", "disk refuses", "disk hangs", "log failed", "refused sends"}
)
"""The rules that speak of brokers to which clients cannot send."""
NAME_SERVER: Final = "name server"


class Health:
    """What `read` found last, with the time since when each finding is so. No clock."""

    def __init__(self, waited_seconds: float) -> None:
        """Know nothing yet. waited_seconds: for how long each broker is waited for."""
        self._remedy = "See the logs: its process is busy, or waits for a disk that hangs"
        self._cause = f"does not answer within {waited_seconds:g} s"
        self._before: list[Finding] = []
        self._history = History()

    def read(
        self,
        said: Mapping[str, Mapping[str, Any]],
        now_ms: int,
        *,
        name_server_answers: bool = True,
    ) -> dict[str, Any]:
        """Return what is so now.

        said: what `BrokerService.health` returns of each broker of a deployment, by its name there;
            {} without an answer.

        {"ready": bool, "reasons": [why not], "brokers": {name: part with "services"},
        "name_server": part}, where a part is {"state", "reason", "remedy", "since"}, "since" in ms
        or None.
        """
        readings = {name: self._reading(name, each) for name, each in said.items()}
        self._history.add(ClusterReading(now_ms, brokers=list(readings.values())))
        found = wrong(self._history, SERVER_RULE_CHECKS) if readings else []
        found = self._before = dated(found, self._before, now_ms)
        brokers, reasons = {}, []
        for name, reading in readings.items():
            about = [each for each in found if _is_about(each, reading)]
            reasons += [f"{name}: {why}" for why in _why_not_ready(reading, about)]
            brokers[name] = {**_part(about), "services": dict(_services(reading))}
        if not name_server_answers:
            reasons.append(f"{NAME_SERVER}: {self._cause}")
        return {
            "ready": not reasons,
            "reasons": reasons,
            "brokers": brokers,
            "name_server": _state(WORKS) if name_server_answers else self._silent(),
        }

    def _reading(self, name: str, said: Mapping[str, Any]) -> BrokerReading:
        if not said:
            error = ClientError(f"{name} {self._cause}", self._remedy)
            return BrokerReading("", name, 0, "", failure=error)
        return BrokerReading("", said["name"], said["broker_id"], said["address"], said["values"])

    def _silent(self) -> dict[str, Any]:
        return _state(NO_ANSWER, self._cause, self._remedy)


def _is_about(finding: Finding, reading: BrokerReading) -> bool:
    return finding.about.startswith(broker_text(reading))


def _why_not_ready(reading: BrokerReading, found: Sequence[Finding]) -> Iterator[str]:
    yield from (each.found for each in found if each.rule in STOPS_SENDS)
    group = known_group(reading.values)
    if REPLICA_VALUE in reading.values and (group is None or not group.master):
        yield "no master is elected yet"  # its register has not told it a role
    elif group is not None and group.number not in group.in_sync:
        yield "is not in the in-sync set of its group yet"


def _part(found: Sequence[Finding]) -> dict[str, Any]:
    """Return a part by its findings, the worst first, and the others beside it."""
    if not found:
        return {**_state(WORKS), "findings": []}
    worst = found[0]
    values = [value for each in found for value in each.values()]
    return {
        **_state(worst.rule, worst.found, worst.remedy, worst.since_ms or None),
        "findings": values,
    }


def _services(reading: BrokerReading) -> Iterator[tuple[str, dict[str, Any]]]:
    troubles = dict(read_troubles(reading.values))
    actors = read_actors(reading.values)
    for name in sorted(actors.keys() | troubles.keys()):
        if (trouble := troubles.get(name)) is not None:
            yield name, _state(REFUSES, trouble.reason, trouble.remedy)
        else:
            yield name, _state(WORKS if actors[name].is_attached else AWAY)


def _state(
    state: str, reason: str = "", remedy: str = "", since_ms: int | None = None
) -> dict[str, Any]:
    return {"state": state, "reason": reason, "remedy": remedy, "since": since_ms}
