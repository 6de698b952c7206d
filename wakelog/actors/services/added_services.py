"""Added services: cores of other packages, each in an actor beside our own services.

A package offers one in the entry-point group `wakelog.services`: a callable that takes the
ServicePlan and returns an AddedCore (`examples/service_plugin.py`). The core is called when a
Broker begins and ends, and asked for numbers, which appear in the metrics. Its actor lives like our
own services: the Broker attaches it, Ray starts it again when its process died, and the Supervisor
kills it when it hangs. A deployment in one process has none: foreign code that hangs would hang it.

Invariant: what a core raises stays here. It is counted and shown in the statistics, and the core is
not called again until the next `attach`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol

from wakelog.actors.services.service import Service, Session
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.services.table import SERVICES, load
from wakelog.actors.transport.service_plan import ServiceRow
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

    def attach(self, request: AttachRequest) -> None:
        """Work for one incarnation of the Broker, which has these watermarks."""

    def release(self) -> None:
        """End the work and close everything."""

    def statistics(self) -> Mapping[str, float]:
        """Return numbers for the metrics; called at every scrape."""


def offered_services(found: Iterable[EntryPoint] | None = None) -> dict[str, ServiceRow]:
    """Return the rows of what installed packages offer; a name that cannot be is logged.

    Nothing is imported: only the service's own process imports the core.

    found: instead of the entry points of the installed packages.
    """
    points = entry_points(group=ENTRY_POINT_GROUP) if found is None else found
    offered: dict[str, ServiceRow] = {}
    for point in sorted(points, key=lambda point: point.name):
        actor_name = "".join(part.capitalize() for part in point.name.split("_"))
        taken = actor_name in _OUR_ACTORS or point.name in offered
        if taken or _NAME.fullmatch(point.name) is None:
            reason = "the name is taken, or not of a-z, 0-9 and _ only"
            logger(Log.BROKER).warning("service left out", service=point.name, reason=reason)
        else:
            service = f"{__name__}:{AddedService.__name__}"
            offered[point.name] = ServiceRow(
                actor_name=actor_name, service=service, core=point.value
            )
    return offered


class AddedService(Service):
    """The service around a core of another package."""

    reports_released = True

    def __init__(self, session: Session) -> None:
        """Make the core and have it begin."""
        super().__init__(session)
        before = session.before
        self._attached_count, self._failures_count = 1, 0
        if isinstance(before, AddedService):
            self._attached_count += before._attached_count
            self._failures_count += before._failures_count
        self._last_error = ""
        self._log = logger(Log.BROKER)
        self._core: AddedCore | None = self._guard(partial(self._make_core, session.request))
        self.on_release(self._release_core)
        self.answer = {"troubles": {"core": self._last_error} if self._last_error else {}}

    def counters(self) -> dict[str, Any]:
        """Return the core's numbers, and how often it raised."""
        values: Mapping[str, float] = {}
        if self._core is not None:
            values = self._guard(self._core.statistics) or {}
        numbers = [(key, value) for key, value in values.items() if isinstance(value, int | float)]
        return {
            "attached_count": self._attached_count,
            "failures_count": self._failures_count,
            "last_error": self._last_error,
            "values": {str(key): value for key, value in numbers[:VALUES_MAX]},
        }

    def _make_core(self, request: AttachRequest) -> AddedCore:
        core: AddedCore = load(self.plan.added_services[self.name].core)(self.plan)
        core.attach(request)
        return core

    def _release_core(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            self._guard(core.release)

    def _guard(self, call: Callable[[], Any]) -> Any:
        """Return what foreign code returns, None if it raises."""
        try:
            return call()
        except Exception as error:
            self._failures_count += 1
            self._last_error = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
            self._log.warning("service raised", service=self.name, exc_info=error)
            return None
