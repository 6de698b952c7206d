"""The wheel: what it holds, that it imports alone, and, in the long run, that it starts alone."""

import importlib.metadata
import os
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from scripts.version import version_of
from tests.compat.processes import TestProcess, free_port
from wakelog.compiled.build import compilers

ROOT = Path(__file__).resolve().parent.parent
INSTALL_SECONDS_MAX = 600
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
DOWNLOAD_BYTES_MAX = 60_000_000

ONLY_EXTRAS_BRING = ("ray", "pyspark", "pyarrow", "pandas", "plotly", "faststream")
REFUSE_EXTRAS = f"""
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ONLY_EXTRAS_BRING}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refusal())
"""

IMPORT_ALL = """
import importlib, pkgutil, sys, wakelog
for module in pkgutil.walk_packages(wakelog.__path__, "wakelog."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(wakelog.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as `pip` would, with the back end of the environment."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.mark.process
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    assert {"wakelog", "pyspark_rocketmq"} == {
        folder for folder in folders if not folder.endswith((".dist-info", ".data"))
    }
    shared = {name.partition("/data/share/wakelog/")[2] for name in names}
    for needed in ("dashboards/overview.json", "deploy/prometheus.yml", "deploy/runtime_env.yaml"):
        assert needed in shared
    assert "wakelog/py.typed" in names
    console = Path("wakelog/console")
    own = [x for kind in ("templates", "static") for x in (ROOT / console / kind).iterdir()]
    assert own and {x.relative_to(ROOT).as_posix() for x in own} <= set(names)
    assert any(name.endswith("licenses/NOTICE") for name in names)


@pytest.mark.process
def test_the_wheel_is_of_this_platform_if_it_has_the_library(wheel: Path) -> None:
    _, _, _, tags = parse_wheel_filename(wheel.name)
    [tag] = tags
    has_library = "wakelog/compiled/functions.abi3.so" in zipfile.ZipFile(wheel).namelist()
    assert has_library is any(compilers())
    assert has_library is (tag.platform != "any")
    assert (tag.interpreter, tag.abi) == (("cp311", "abi3") if has_library else ("py3", "none"))
    assert tag in set(sys_tags())


@pytest.mark.process
def test_the_version_of_the_wheel_is_that_of_the_checkout(wheel: Path) -> None:
    name, version, _, _ = parse_wheel_filename(wheel.name)
    assert (name, version) == ("wakelog", Version(version_of(ROOT)))


@pytest.mark.process
def test_an_install_without_extras_brings_no_ray_compiler_or_spark(wheel: Path) -> None:
    [metadata] = [
        zipfile.ZipFile(wheel).read(name).decode()
        for name in zipfile.ZipFile(wheel).namelist()
        if name.endswith(".dist-info/METADATA")
    ]
    lines = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    names, waiting = set[str](), [line.partition(": ")[2] for line in lines]
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        if wanted.name not in names:
            names.add(wanted.name)
            waiting += importlib.metadata.requires(wanted.name) or []
    assert {"numpy", "cffi"} <= names  # cffi comes with another package
    assert not names & set(ONLY_EXTRAS_BRING)


@pytest.mark.long
@pytest.mark.process
def test_an_install_without_extras_downloads_little(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "-d", str(tmp_path), str(wheel)]
    subprocess.run(pip, check=True, timeout=INSTALL_SECONDS_MAX)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sum(sizes.values()) < DOWNLOAD_BYTES_MAX, sizes


@pytest.mark.process
@pytest.mark.slow
def test_every_module_imports_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    outcome = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert Path(outcome.stdout.strip()) == tmp_path / "wakelog" / "__init__.py"


@pytest.mark.process
@pytest.mark.slow
def test_an_installed_wheel_without_extras_starts_a_broker(wheel: Path, tmp_path: Path) -> None:
    """The dependencies are those of this environment, lest every run downloads them."""
    folder = tmp_path / "env"
    venv.create(folder)
    programs = folder / "bin"
    [packages] = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages / "refuse_extras.py").write_text(REFUSE_EXTRAS)
    paths = f"import refuse_extras\n{sysconfig.get_paths()['purelib']}\n"
    (packages / "dependencies.pth").write_text(paths)
    where = subprocess.run(
        [str(programs / "python"), "-c", "import wakelog; print(wakelog.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(packages)
    start_greet_and_stop(programs, tmp_path / "store", tmp_path / "up.out", "--local")
    outcome = subprocess.run(
        [str(programs / "wakelog"), "up", "--store", str(tmp_path / "other")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert outcome.stderr == (
        "wakelog: Ray is not installed."
        " Install wakelog with its extra ray, or start with --local.\n"
    )


def start_greet_and_stop(programs: Path, store: Path, log_path: Path, *arguments: str) -> None:
    """Run the installed `wakelog` as a user does, outside of the repository."""
    ports = (free_port(), free_port(-2, 1))
    options = ["--store", str(store), "--namesrv-port", str(ports[0])]
    options += ["--broker-port", str(ports[1]), "--metrics-port", "0", "--console-port", "0"]
    with TestProcess(
        [str(programs / "wakelog"), "up", *options, *arguments],
        env=dict(os.environ),
        log_path=log_path,
    ) as process:
        process.wait_until(
            lambda: "ready after" in log_path.read_text(),
            seconds_max=READY_SECONDS_MAX,
            what="ready",
        )
        hello = [str(programs / "wakelog"), "hello", f"127.0.0.1:{ports[0]}"]
        outcome = subprocess.run(hello, cwd=store, capture_output=True, check=True)
        assert b"received" in outcome.stdout
        assert process.end(signal.SIGINT, seconds_max=STOP_SECONDS_MAX) == 0


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(INSTALL_SECONDS_MAX + READY_SECONDS_MAX + STOP_SECONDS_MAX)
def test_an_empty_environment_with_the_wheel_starts_a_broker(
    wheel: Path, tmp_path: Path, short_path: Path
) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    install = [str(programs / "pip"), "install", "--quiet", f"{wheel}[ray]"]
    subprocess.run(install, check=True, timeout=INSTALL_SECONDS_MAX)
    start_greet_and_stop(programs, short_path / "store", tmp_path / "up.out")
