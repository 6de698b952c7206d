"""How many actors a deployment has, each with a name of its own."""

from wakelog.actors.deploy.group import actors_count
from wakelog.actors.ray.options import TARGETS, actor_name
from wakelog.actors.services.table import SERVICES
from wakelog.storage.config import StoreConfig


def test_each_actor_of_each_broker_has_a_name_of_its_own() -> None:
    names = {
        actor_name(broker, row.actor_name)
        for broker in ("broker-a", "broker-b")
        for row in SERVICES.values()
    }
    assert len(names) == 2 * len(SERVICES)
    with_pool = StoreConfig(store_path_root="/s", transient_store_pool_enable=True)
    plain = StoreConfig(store_path_root="/s")
    assert actors_count([with_pool], 1) == len(TARGETS)  # one target for every added service
    assert actors_count([with_pool] * 2) - actors_count([with_pool]) == 1 + len(SERVICES)
    assert actors_count([with_pool]) - actors_count([plain]) == 1
    assert actors_count([plain] * 2, 3) - actors_count([plain] * 2) == 6
