"""The services of a broker, one row each: everything that is particular to a service is said here.

A new service takes a core, a file with its service and its client, and a row. Rows name classes
instead of importing them: a process that runs one service imports the code of that one only.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

from wakelog.actors.transport.service_plan import ServicePlan, ServiceRow
from wakelog.storage.config import StoreConfig

_HERE = "wakelog.actors.services."


def _row(actor: str, *, client: str = "", **facts: Any) -> ServiceRow:
    """Return the row of `module:Name`, whose module has a NameService and a NameClient."""
    return ServiceRow(
        actor_name=actor.partition(":")[2],
        service=f"{_HERE}{actor}Service",
        client=f"{_HERE}{client or actor}Client",
        **facts,
    )


SERVICES: Final = {
    "reput": _row("reput:Reput", lock_byte=1),
    "pull_hold": _row("pull_hold:PullHold"),
    "flush": _row("flush:Flush", client="flush_client:Flush", lock_byte=5),
    "allocate_mapped_file": _row("allocate_mapped_file:AllocateMappedFile", lock_byte=2),
    "commit": _row("commit:Commit", lock_byte=3, needed_when="transient_pool_in_use"),
    "schedule": _row("schedule:Schedule", needed_when="appends"),
    "transaction_check": _row("transaction_check:TransactionCheck", needed_when="appends"),
    "retention": _row("retention:Retention", lock_byte=4),
}
"""By name. In this order a Broker attaches them, and in reverse order they release the store."""


def needed_services(store: StoreConfig) -> dict[str, ServiceRow]:
    """Return the rows of our own services that a store needs."""
    return {
        name: row
        for name, row in SERVICES.items()
        if not row.needed_when or getattr(store, row.needed_when)
    }


def services_of(plan: ServicePlan) -> dict[str, ServiceRow]:
    """Return the rows of the services that a broker needs, added ones last."""
    return needed_services(plan.settings.store) | plan.added_services


def lock_bytes(plan: ServicePlan) -> dict[str, int]:
    """Return the lock byte of each service, also of those that this broker does not need.

    A broker that ran on the store before may have needed them.
    """
    rows = SERVICES | plan.added_services
    return {name: row.lock_byte for name, row in rows.items() if row.lock_byte is not None}


def row_of(plan: ServicePlan, name: str) -> ServiceRow:
    """Return the row of a service of ours, or of one that was added."""
    return (SERVICES | plan.added_services)[name]


def load(target: str) -> Callable[..., Any]:
    """Return what `module:name` names."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
