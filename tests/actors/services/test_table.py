"""The table of services names what there is, under the names that modules have."""

import pytest

from wakelog.actors.services.table import SERVICES, load

METHODS = ("attach", "release", "statistics", "ping")


@pytest.mark.parametrize("name", SERVICES)
def test_a_row_names_a_shell_with_the_methods_of_a_service(name: str) -> None:
    row = SERVICES[name]
    shell = load(row.target)
    module, _, _ = row.target.partition(":")
    assert module == f"wakelog.actors.services.{name}"
    assert row.actor_name.lower() == name.replace("_", "")
    for method in METHODS:
        assert callable(getattr(shell, method))
