"""The table says everything of a service, and names what there is."""

from pathlib import Path

import msgspec
import pytest

from tests.actors.plans import service_plan
from wakelog.actors.services.client import ServiceClient
from wakelog.actors.services.service import Service
from wakelog.actors.services.table import SERVICES, load, lock_bytes, needed_services, services_of
from wakelog.actors.transport.service_plan import ServiceRow
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import BROKER_BYTE


@pytest.mark.parametrize("name", SERVICES)
def test_a_row_names_a_service_and_its_client(name: str) -> None:
    row = SERVICES[name]
    service, client = load(row.service), load(row.client)
    assert isinstance(service, type) and issubclass(service, Service)
    assert isinstance(client, type) and issubclass(client, ServiceClient)
    assert service.__module__ == f"wakelog.actors.services.{name}"
    assert row.actor_name.lower() == name.replace("_", "")
    assert not row.needed_when or isinstance(getattr(StoreConfig, row.needed_when), property)


def test_lock_bytes_are_those_of_every_version() -> None:
    bytes_of = {name: row.lock_byte for name, row in SERVICES.items() if row.lock_byte is not None}
    assert bytes_of == {
        "reput": 1,
        "allocate_mapped_file": 2,
        "commit": 3,
        "retention": 4,
        "flush": 5,
    }
    assert BROKER_BYTE not in bytes_of.values()


def test_commit_is_needed_with_a_transient_pool_only() -> None:
    without = StoreConfig(store_path_root="/s")
    assert set(SERVICES) - set(needed_services(without)) == {"commit"}
    with_pool = StoreConfig(store_path_root="/s", transient_store_pool_enable=True)
    assert needed_services(with_pool) == SERVICES


def test_a_broker_checks_the_bytes_of_services_that_it_does_not_need(tmp_path: Path) -> None:
    plan = service_plan(tmp_path)
    assert "commit" not in services_of(plan) and lock_bytes(plan)["commit"] == 3
    added = {"toy": ServiceRow(actor_name="Toy", service="a:b", lock_byte=9)}
    plan = msgspec.structs.replace(plan, added_services=added)
    assert list(services_of(plan))[-1] == "toy" and lock_bytes(plan)["toy"] == 9
