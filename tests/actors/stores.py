"""A small store on disk for tests of single services: a Broker's log without a Broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from tests.actors.services.fakes import attach_request
from tests.fakes.stores import open_store, put
from wakelog.actors.services.service import Service, ServiceHost
from wakelog.actors.services.table import SERVICES, load
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.file_system import FileSystem
from wakelog.storage.message_store import MessageStore


@contextmanager
def open_plan_store(plan: ServicePlan) -> Iterator[MessageStore]:
    """Open the store of a plan, and leave it as after a crash."""
    store = open_store(FileSystem(), plan.settings.store)
    yield store
    store.close(dispatch_behind_bytes=1)


def fill(store: MessageStore, count: int, *, begin: int = 0, **values: Any) -> int:
    """Put so many messages; return the log's end."""
    put(store, *(b"%d" % number for number in range(begin, begin + count)), **values)
    return store.log.appended_offset


def known_of(store: MessageStore, **changes: Any) -> dict[str, Any]:
    """Return what a service of a store that was just opened is attached with."""
    end = store.max_physical_offset
    values = {
        "appended": end,
        "committed": end,
        "flushed": 0,
        "readable": end,
        "dispatched": store.dispatched,
        "dispatch_from": store.recovery.dispatch_from,
        "clean_exit": store.recovery.clean_exit,
    }
    return dict(msgspec.to_builtins(attach_request(**{**values, **changes})))


S = TypeVar("S", bound=Service)


def make_service(kind: type[S], plan: ServicePlan, fs: FileSystem | None = None) -> ServiceHost[S]:
    """Return a service under the name that the table has for it."""
    [name] = [name for name, row in SERVICES.items() if load(row.service) is kind]
    return ServiceHost(plan.to_builtins(), name, fs=fs)


@contextmanager
def attached_service(
    kind: type[S], plan: ServicePlan, **changes: Any
) -> Iterator[tuple[ServiceHost[S], MessageStore]]:
    """Attach a service to the store of a plan, and release it at the end."""
    service = make_service(kind, plan)
    with open_plan_store(plan) as store:
        service.attach(known_of(store, **changes))
        yield service, store
        service.release()
