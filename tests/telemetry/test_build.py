"""The facts of a build, installed or as a job's working directory."""

from importlib import metadata

import pytest

from scripts import version as scripts_version
from wakelog.telemetry import build
from wakelog.telemetry.build import NOT_INSTALLED, build_facts


def test_the_version_is_that_of_the_distribution() -> None:
    assert build_facts() == {"version": metadata.version("wakelog"), "compat": "4.9.3"}


def test_code_that_is_not_installed_is_of_the_first_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    monkeypatch.setattr(build, "version", build.version.__wrapped__)
    assert build_facts()["version"] == NOT_INSTALLED == f"{scripts_version.FIRST}.dev0"
