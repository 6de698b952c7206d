"""The services of a broker, as a table: what each is called and where its shell is.

A service is a core and a row here. Named, not imported: a process runs one of them and needs no
more of the code than that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Service(Protocol):
    """What every service of a broker can do, as an actor or in one process."""

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Work for one incarnation of the Broker; return at least this process's id."""
        ...

    def release(self) -> None:
        """Work for nobody, and let the store go."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Return counters, as builtins."""
        ...


class ServiceRow(NamedTuple):
    """One service: RocketMQ's name of it, and `module:class` of its shell."""

    actor_name: str
    target: str


SERVICES = {
    "reput": ServiceRow("Reput", "wakelog.actors.services.reput:ReputService"),
    "pull_hold": ServiceRow("PullHold", "wakelog.actors.services.pull_hold:PullHoldService"),
    "flush": ServiceRow("Flush", "wakelog.actors.services.flush:FlushService"),
    "allocate_mapped_file": ServiceRow(
        "AllocateMappedFile",
        "wakelog.actors.services.allocate_mapped_file:AllocateMappedFileService",
    ),
    "commit": ServiceRow("Commit", "wakelog.actors.services.commit:CommitService"),
    "schedule": ServiceRow("Schedule", "wakelog.actors.services.schedule:ScheduleService"),
    "retention": ServiceRow("Retention", "wakelog.actors.services.retention:RetentionService"),
}
"""By the name that neighbours use, which is also that of the module."""


def load(target: str) -> Callable[..., Any]:
    """Return what `module:name` names."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def make_service(name: str, plan: dict[str, Any]) -> Service:
    """Make the shell of a service in this process."""
    service: Service = load(SERVICES[name].target)(plan)
    return service
