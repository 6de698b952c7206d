"""What `scripts/environment.py` decides; every fresh clone shows that it installs."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import environment
from scripts.environment import EnvironmentFailed, check_version, prepare_environment, remedy_for
from wakelog.compiled.source import LIBRARY_NAME, source_digest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a tree with an environment of this Python, stamped."""
    (tmp_path / "requirements.lock").write_text("ray==1\n")
    (tmp_path / "requirements-up.lock").write_text("ray==1 \n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    version = ".".join(map(str, sys.version_info[:3]))
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    stamp = environment.wanted_stamp(tmp_path, tmp_path / ".venv")
    (tmp_path / ".venv" / environment.STAMP_NAME).write_text(json.dumps(stamp))
    return tmp_path


@pytest.fixture
def installer_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record what would be installed, and install nothing."""
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment.Installer, "create", lambda _, v: calls.append(("create", v)))
    monkeypatch.setattr(
        environment.Installer, "install", lambda _, *options: calls.append(options[:1])
    )
    monkeypatch.setattr(environment.Installer, "keep_compiled", lambda _: calls.append(COMPILED))
    monkeypatch.setattr(environment.Installer, "_must", lambda _, line: calls.append(line[-1:]))
    return calls


BLOCK_BYTES = 4_096
COMPILED_AND_PIP_BYTES = 45_000_000
"""Of pip, what it is made with, and of what the first start has compiled."""

LOCKED = ("--require-hashes",)
EDITABLE = ("--no-deps",)
COMPILED = ("compiled",)


def test_a_stamped_environment_is_reused(
    root: Path, installer_calls: list[tuple[str, ...]]
) -> None:
    assert prepare_environment(root) == root / ".venv" / "bin" / "python"
    assert installer_calls == []


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        ("requirements.lock", [LOCKED, EDITABLE, COMPILED]),
        ("pyproject.toml", [EDITABLE, COMPILED]),
        (f".venv/{environment.STAMP_NAME}", [LOCKED, EDITABLE, COMPILED]),
    ],
)
def test_a_change_installs_what_depends_on_it_once(
    root: Path,
    installer_calls: list[tuple[str, ...]],
    change: str,
    steps: list[tuple[str, ...]],
) -> None:
    (root / change).write_text("changed")
    prepare_environment(root)
    assert installer_calls == steps
    prepare_environment(root)
    assert installer_calls == steps


def test_a_broker_takes_what_is_there_and_tests_install_the_rest(
    root: Path, installer_calls: list[tuple[str, ...]]
) -> None:
    prepare_environment(root, environment.UP)
    assert installer_calls == []
    (root / "requirements.lock").write_text("changed")
    prepare_environment(root, environment.UP)
    assert installer_calls == [LOCKED, EDITABLE, COMPILED]
    prepare_environment(root, environment.UP)
    assert len(installer_calls) == 3
    prepare_environment(root)
    assert installer_calls[3:] == [LOCKED, EDITABLE, COMPILED]
    prepare_environment(root, environment.UP)
    assert len(installer_calls) == 6


def test_a_library_of_other_sources_is_built_again_by_the_environments_python(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = root / "wakelog" / "compiled"
    folder.mkdir(parents=True)
    (folder / "a.c").write_text("int a;")
    commands: list[list[str]] = []

    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "wakelog: there is no C compiler\n")

    monkeypatch.setattr("scripts.environment.subprocess.run", fail)
    python = str(prepare_environment(root))
    assert commands == [[python, "-m", "wakelog.compiled.build"]]
    assert capsys.readouterr().err == "dev: wakelog: there is no C compiler; plain Python runs\n"
    (folder / LIBRARY_NAME).write_text(source_digest(folder))
    prepare_environment(root)
    assert len(commands) == 1


@pytest.mark.parametrize("has_compiler", [True, False])
def test_a_compiler_is_installed_where_there_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, has_compiler: bool
) -> None:
    lock = f"a==1 \\\n    --hash=x\n{environment.SPARE_COMPILER}==2 \\\n    --hash=y\nz==3\n"
    (root / environment.ALL.name).write_text(lock)
    installed: list[str] = []

    def install(_: object, *options: str) -> None:
        if "-r" in options:
            installed.append(Path(options[-1]).read_text())

    monkeypatch.setattr(environment.Installer, "create", lambda *_: None)
    monkeypatch.setattr(environment.Installer, "keep_compiled", lambda _: None)
    monkeypatch.setattr(environment.Installer, "install", install)
    found = [["/usr/bin/cc"]] if has_compiler else []
    monkeypatch.setattr("scripts.environment.installed_compilers", lambda: iter(found))
    prepare_environment(root)
    assert installed == ["a==1 \\\n    --hash=x\nz==3\n" if has_compiler else lock]


def test_the_whole_lock_has_a_compiler() -> None:
    assert f"\n{environment.SPARE_COMPILER}==" in (ROOT / environment.ALL.name).read_text()


def test_the_lock_of_a_broker_is_part_of_the_whole_one() -> None:
    few, all_ = (
        set(re.findall(r"^\S+==[^\\]+|^    --hash=\S+", (ROOT / lock.name).read_text(), re.M))
        for lock in (environment.UP, environment.ALL)
    )
    assert few < all_
    assert any(line.startswith("ray==") for line in few)


def test_the_environment_of_a_broker_has_what_the_tutorial_runs() -> None:
    lock = (ROOT / environment.UP.name).read_text(encoding="utf-8")
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    programs = set(re.findall(r"\.venv/bin/python -m (\w+)", tutorial)) - {"wakelog"}
    assert programs == {"pytest"} and "\npytest==" in lock


def test_a_broker_has_no_parts_of_ray_that_it_cannot_use(
    root: Path, installer_calls: list[tuple[str, ...]]
) -> None:
    (root / ".venv" / environment.STAMP_NAME).unlink()
    ray = root / ".venv" / "lib" / "python3.11" / "site-packages" / "ray"
    parts = [ray.parent / name for name in environment.LEFT_OUT]
    for part in (*parts, ray / "core"):
        part.mkdir(parents=True)
        (part / "file").write_text("")
    prepare_environment(root, environment.UP)
    assert installer_calls == [LOCKED, EDITABLE, COMPILED]
    assert not any(part.exists() for part in parts) and (ray / "core" / "file").exists()
    # Whoever wants everything gets these parts again.
    prepare_environment(root)
    assert installer_calls[3:] == [("ray",), LOCKED, EDITABLE, COMPILED]


@pytest.mark.long
def test_the_environment_of_a_broker_takes_what_is_said() -> None:
    lock = (ROOT / environment.UP.name).read_text(encoding="utf-8")
    size_bytes = COMPILED_AND_PIP_BYTES
    for name in set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)):
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python, or another system
        for file in files:
            path = Path(str(file.locate()))
            is_left_out = str(file).startswith(environment.LEFT_OUT)
            if file.suffix != ".pyc" and not is_left_out and path.exists():
                size_bytes += -(-path.stat().st_size // BLOCK_BYTES) * BLOCK_BYTES
    assert 0.9 * environment.UP.size_mb < size_bytes / 1e6 < environment.UP.size_mb


def test_an_environment_that_was_moved_is_made_again(
    root: Path, installer_calls: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    moved = root.rename(tmp_path_factory.mktemp("elsewhere") / "tree")
    prepare_environment(moved)
    assert [step[0] for step in installer_calls] == ["create", *LOCKED, *EDITABLE, *COMPILED]


def test_an_environment_whose_python_is_gone_is_made_again(
    root: Path, installer_calls: list[tuple[str, ...]]
) -> None:
    python = root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    prepare_environment(root)
    assert [step[0] for step in installer_calls] == ["create", *LOCKED, *EDITABLE, *COMPILED]


@pytest.mark.parametrize("compiles", [False, True])
def test_pip_compiles_everything_but_for_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiles: bool
) -> None:
    commands: list[Sequence[str]] = []
    monkeypatch.setattr(environment.Installer, "_try", lambda _, line: commands.append(line))
    with open(tmp_path / "log", "w") as log:
        installer = environment.Installer(tmp_path, log, compiles=compiles)
        installer._uv = None
        installer.install("-r", "lock")
    [command] = commands
    assert ("--no-compile" in command) is not compiles


@pytest.mark.process
def test_what_a_start_imports_is_kept_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "once.py").write_text("")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(environment, "IMPORTS", "import once")
    with open(tmp_path / "log", "w") as log:
        environment.Installer(tmp_path, log).keep_compiled()
    assert list((tmp_path / "__pycache__").glob("once.*.pyc"))


@pytest.mark.parametrize("version", [(3, 10), (3, 14), (2, 7)])
def test_another_python_is_refused_by_name(version: tuple[int, int]) -> None:
    with pytest.raises(EnvironmentFailed, match=rf"Python {version[0]}\.{version[1]}"):
        check_version(version)


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("created successfully because ensurepip is not available.", "python3-venv"),
        ("error: command 'gcc' failed: No such file or directory", "gcc python3-dev"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM", "index or proxy"),
        ("Failed to establish a new connection: Max retries exceeded", "network"),
        ("Connection refused\nERROR: No matching distribution found for ray==1", "network"),
        ("ERROR: No matching distribution found for ray==1", "no build for this Python"),
        ("ensurepip: [Errno 28] No space left on device", "disk is full"),
        ("something new", "words above"),
    ],
)
def test_a_failed_installation_ends_in_a_remedy(output: str, remedy: str) -> None:
    assert remedy in remedy_for(f"first line\n{output}\nlast line")


def test_a_link_to_an_environment_is_replaced_and_what_it_leads_to_left_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, link = root / ".venv", root / "other" / ".venv"
    link.parent.mkdir()
    link.symlink_to(others)
    monkeypatch.setattr(environment.Installer, "_must", lambda *_, **__: None)
    with (tmp_path / "log").open("w") as log:
        environment.Installer(link, log).create("3.11.0")
    assert not link.exists() and (others / "pyvenv.cfg").exists()


def test_a_failing_installer_is_one_error_with_its_last_words(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = root / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text("#!/bin/sh\necho ensurepip is not available\nexit 1\n")
    python.chmod(0o755)
    (root / "requirements.lock").write_text("changed")
    monkeypatch.setattr("shutil.which", lambda name: None)  # no uv
    with pytest.raises(EnvironmentFailed, match=r"(?s)ensurepip is not available.*python3-venv"):
        prepare_environment(root)
    stamp = environment.read_stamp(root / ".venv")
    assert stamp != environment.wanted_stamp(
        root, root / ".venv"
    )  # so the next command tries again


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("")  # as on a read-only disk, also for root
    with pytest.raises(EnvironmentFailed, match=r"\.cache cannot be written: .* clone where"):
        prepare_environment(tmp_path)


def test_a_disk_without_room_is_named_before_anything_is_installed(
    root: Path, installer_calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".venv" / "pyvenv.cfg").unlink()
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, 10**9))
    with pytest.raises(EnvironmentFailed, match=r"about 1400 MB, .* has 1000 MB free"):
        prepare_environment(root)
    assert installer_calls == []
