"""Which deployment a plan asks for."""

import sys
from types import ModuleType

import pytest

from wakelog.actors.deploy.deployment import FACTORIES, make_deployment
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan


@pytest.mark.parametrize(("is_local", "kind"), [(True, "local"), (False, "ray")])
def test_a_plan_decides_which_deployment_is_made(
    is_local: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, Plan]] = []
    for name in FACTORIES:
        module = ModuleType(f"factory_of_{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(FACTORIES, name, f"{module.__name__}:Made")
        setattr(module, "Made", lambda plan, name=name: made.append((name, plan)))  # noqa: B010
    plan = make_plan(UpOptions(store="/s", is_local=is_local))
    make_deployment(plan)
    assert made == [(kind, plan)]
