"""The fast start is used only with a Ray that it was tested with, whole."""

import functools
import importlib
import re
from importlib import metadata
from pathlib import Path

import pytest

from wakelog.actors.ray.fast_start import guard
from wakelog.actors.ray.fast_start.guard import (
    PRIVATE_MODULES,
    PRIVATE_NAMES,
    TESTED_VERSIONS,
    missing_name,
    untested_version,
)

ROOT = Path(__file__).resolve().parents[4]
KEPT = {
    "ray._raylet:Config.initialize",
    "ray._common.pydantic_compat:register_pydantic_serializers",
}
"""One is compiled, and Ray reads the other again when it is missing."""
TAKEN_AWAY = [one for one in PRIVATE_NAMES if one not in KEPT]
PRIVATE = re.compile(r"\bray\.(?:_private|_raylet|_common)\b")


def test_the_installed_ray_is_tested_and_has_every_name() -> None:
    assert untested_version() is None
    assert missing_name() is None


@pytest.mark.parametrize("version", ["2.59.0", "2.60.1", "3.0.0.dev0"])
def test_any_other_version_is_named(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    [tested] = TESTED_VERSIONS
    expected = f"the fast start is not tested with Ray {version}, but with {tested}"
    assert untested_version() == expected


@pytest.mark.parametrize("name", TAKEN_AWAY)
def test_a_name_that_is_taken_away_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    monkeypatch.delattr(owner, last)
    assert missing_name() == f"this Ray has no {name}, which the fast start needs"


def test_a_missing_module_or_parameter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PRIVATE_MODULES", (*PRIVATE_MODULES, "ray.gone.far"))
    assert missing_name() == "this Ray has no ray.gone.far, which the fast start needs"
    monkeypatch.setattr(guard, "PRIVATE_MODULES", ())
    monkeypatch.setattr("ray._private.parameter.RayParams", lambda node_ip_address: None)
    assert missing_name() == "this Ray has no RayParams(node_name=), which the fast start needs"


def test_only_this_folder_knows_private_names_of_ray() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "wakelog").rglob("*.py")
        if PRIVATE.search(path.read_text()) and path.parent.name != "fast_start"
    }
    assert found == set()
