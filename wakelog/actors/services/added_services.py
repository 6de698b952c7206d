"""Services of others: a core that a package offers, in an actor of its own beside ours.

A package offers one in the entry-point group `wakelog.services`: a callable that takes the
ServicePlan and returns an AddedCore (`examples/service_plugin.py`). It is told when the Broker
begins to work and when it ends, and asked for numbers, which appear in the metrics. Its actor has
our own services' life: it is attached by the Broker, started again when its process died, and
killed when it hangs. There are none with everything in one process: a stranger's code that hangs
would hang it all.

Invariant: whatever a core raises stays here. It is counted, said in the statistics, and the core is
left out until the next `attach`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol

import msgspec

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.services.session import attached, open_logs
from wakelog.actors.services.table import SERVICES, load
from wakelog.actors.transport.service_plan import ServicePlan, read_plan
from wakelog.telemetry.logs import Log, logger

ENTRY_POINT_GROUP: Final = "wakelog.services"
ERROR_CHARACTERS_MAX: Final = 500
VALUES_MAX: Final = 100  # of one service; each is a series of a metric

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_OUR_ACTORS = {row.actor_name for row in SERVICES.values()} | {
    "Broker",
    "NameServer",
    "Supervisor",
}


class AddedCore(Protocol):
    """What a package offers."""

    def attach(self, attachment: AttachRequest) -> None:
        """Work for one incarnation of the Broker, whose watermarks these are."""
        ...

    def release(self) -> None:
        """Work no more, and let everything go."""
        ...

    def statistics(self) -> Mapping[str, float]:
        """Return numbers for the metrics; called at every scrape."""
        ...


def offered_services(found: Iterable[EntryPoint] | None = None) -> dict[str, str]:
    """Return what installed packages offer, `module:name` by name; what cannot be is logged.

    Nothing is imported: that is for the service's own process.

    found: instead of the entry points of the installed packages.
    """
    points = entry_points(group=ENTRY_POINT_GROUP) if found is None else found
    offered: dict[str, str] = {}
    for point in sorted(points, key=lambda point: point.name):
        taken = actor_kind(point.name) in _OUR_ACTORS or point.name in offered
        if taken or _NAME.fullmatch(point.name) is None:
            reason = "the name is taken, or not of a-z, 0-9 and _ only"
            logger(Log.BROKER).warning("service left out", service=point.name, reason=reason)
        else:
            offered[point.name] = point.value
    return offered


def actor_kind(name: str) -> str:
    """Return what the actor of a service is called: StoreSizes for store_sizes."""
    return "".join(part.capitalize() for part in name.split("_"))


class AddedService:
    """The shell of a core that a package offers."""

    def __init__(self, plan: dict[str, Any], name: str) -> None:
        """Import nothing until attached."""
        self._plan: ServicePlan = read_plan(plan)
        self._name = name
        self._core: AddedCore | None = None
        self._attached_count = 0
        self._failures_count = 0
        self._last_error = ""
        self._log = logger(Log.BROKER)

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Have the core work for this incarnation of the Broker."""
        self.release()
        known = msgspec.convert(attachment, AttachRequest)
        open_logs(self._plan, self._name, known.epoch)
        self._attached_count += 1
        self._core = self._guard(partial(self._make, known))
        return attached()

    def release(self) -> None:
        """Have the core let everything go."""
        core, self._core = self._core, None
        if core is not None:
            self._guard(core.release)

    def statistics(self) -> dict[str, Any]:
        """Return the core's numbers and how it fares."""
        values: Mapping[str, float] = {}
        if self._core is not None:
            values = self._guard(self._core.statistics) or {}
        numbers = [(key, value) for key, value in values.items() if _is_number(value)]
        return {
            "attached_count": self._attached_count,
            "failures_count": self._failures_count,
            "last_error": self._last_error,
            "values": {str(key): value for key, value in numbers[:VALUES_MAX]},
        }

    def _make(self, known: AttachRequest) -> AddedCore:
        core: AddedCore = load(self._plan.added_services[self._name])(self._plan)
        core.attach(known)
        return core

    def _guard(self, call: Callable[[], Any]) -> Any:
        """Return what a stranger's code returns, None if it raises."""
        try:
            return call()
        except Exception as error:
            self._failures_count += 1
            self._last_error = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
            self._log.warning("service raised", service=self._name, exc_info=error)
            return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
