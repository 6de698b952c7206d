"""Opening a broker's store: its id stays, and a store of another broker is let go untouched."""

from pathlib import Path

import pytest

from tests.actors.deployments import small_plan
from tests.actors.plans import service_plan
from wakelog.actors.broker.opening import OpenedStore, open_store
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem


def plan_of(directory: Path) -> ServicePlan:
    port = small_plan(directory).brokers[0].settings.broker.listen_port
    return service_plan(directory, listenPort=port)


def opened(plan: ServicePlan, expected_store_id: str | None = None) -> OpenedStore:
    return open_store(FileSystem(), plan, None, expected_store_id=expected_store_id)


def test_a_store_keeps_the_id_it_got_when_it_was_new(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    first = opened(plan)
    assert first.store.close(dispatch_behind_bytes=0)
    again = opened(plan, first.store_id)
    assert again.store_id == first.store_id
    assert again.store.close(dispatch_behind_bytes=0)


def test_another_store_than_expected_is_let_go(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    first = opened(plan)
    first.store.close(dispatch_behind_bytes=0)
    with pytest.raises(StoreError, match=first.store_id):
        opened(plan, "00000000-0000-0000-0000-000000000001")
    again = opened(plan)  # its lock was given back
    assert again.store_id == first.store_id
    again.store.close(dispatch_behind_bytes=0)
