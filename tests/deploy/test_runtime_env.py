"""What a job brings along: the packages of the project, and an upload that Ray takes."""

import logging
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from ray._private.runtime_env.packaging import create_package

ROOT = Path(__file__).resolve().parent.parent.parent
UPLOAD_BYTES_MAX = 6_000_000


def runtime_env(name: str = "runtime_env.yaml") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / name).read_text())
    return found


@pytest.fixture(scope="module")
def upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive that Ray makes of `--working-dir .`."""
    archive = tmp_path_factory.mktemp("upload") / "package.zip"
    create_package(
        str(ROOT),
        archive,
        include_gitignore=True,
        # Ray leaves these two out by itself; it says so on every submit.
        excludes=[*runtime_env()["excludes"], ".git", ".venv"],
        logger=logging.getLogger("upload"),
    )
    return archive


def test_the_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert runtime_env()["pip"] == sorted(project["dependencies"])


def test_ray_data_brings_its_packages_as_well() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    of_ray_data = [each for each in extras["ray-data"] if not each.startswith("wakelog[")]
    found = runtime_env("ray_data_env.yaml")
    assert found["pip"] == sorted(runtime_env()["pip"] + of_ray_data)
    assert found["excludes"] == runtime_env()["excludes"]


def test_every_exclude_leaves_something_out() -> None:
    excludes = runtime_env()["excludes"]
    assert all((ROOT / path.lstrip("/")).exists() for path in excludes)
    links = {f"/{path.name}" for path in ROOT.iterdir() if path.is_symlink()}
    assert links <= set(excludes)


@pytest.mark.slow
def test_the_upload_is_small_and_holds_what_runs(upload: Path) -> None:
    assert upload.stat().st_size < UPLOAD_BYTES_MAX
    names = [PurePosixPath(name) for name in zipfile.ZipFile(upload).namelist()]
    folders = {name.parts[0] for name in names if len(name.parts) > 1}
    assert folders == {"wakelog", "pyspark_rocketmq", "deploy"}
    for needed in ("wakelog/actors/deploy/supervisor.py", "deploy/start.py"):
        assert PurePosixPath(needed) in names
    assert not [name for name in names if name.suffix in (".pyc", ".nbc")]
