"""The table of `./dev`, and what its front end does with a Python that does not fit."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import commands
from scripts.commands import COMMANDS, ROOT, Command, main, split_role, split_without
from scripts.environment import WRITES_NO_BYTECODE


def dev(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `./dev` as a person would, with nothing else in the environment."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **variables}
    command = [str(ROOT / "dev"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_without_a_command_the_commands_are_printed() -> None:
    outcome = dev()
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert [line.split()[1] for line in outcome.stdout.splitlines()] == list(COMMANDS)


@pytest.mark.process
def test_a_reader_that_has_enough_ends_it_in_silence() -> None:
    words = ["bash", "-c", f"'{ROOT}/dev' | true; exit ${{PIPESTATUS[0]}}"]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (128 + signal.SIGPIPE, "")


@pytest.fixture
def fresh_clone(tmp_path: Path) -> Path:
    """Return a copy of the front end, whose Python is not made yet."""
    shutil.copy(ROOT / "dev", tmp_path)
    return tmp_path


def fake_python(path: Path, rank: int) -> None:
    """Write a Python of that rank, which says who was asked."""
    path.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo {rank}; else echo "$0 $2"; fi\n')
    path.chmod(0o755)


def chosen(clone: Path) -> str:
    """Return what the front end hands over to."""
    path = f"{clone}:/bin"
    environment = {"PATH": path, "HOME": str(clone)}
    command = [str(clone / "dev"), "check"]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return outcome.stdout


@pytest.mark.process
def test_the_oldest_python_at_hand_is_taken(fresh_clone: Path) -> None:
    for name, rank in (("python3.13", 13_000), ("python3.12", 10_999), ("python3", 12_001)):
        fake_python(fresh_clone / name, rank)
    assert chosen(fresh_clone) == f"{fresh_clone}/python3.12 check\n"


@pytest.mark.process
def test_a_python_that_cannot_make_environments_comes_last(fresh_clone: Path) -> None:
    fake_python(fresh_clone / "python3.11", 1_011_001)
    fake_python(fresh_clone / "python3.12", 10_000)
    assert chosen(fresh_clone) == f"{fresh_clone}/python3.12 check\n"


@pytest.mark.process
def test_the_python_of_the_environment_is_kept(fresh_clone: Path) -> None:
    (fresh_clone / ".venv" / "bin").mkdir(parents=True)
    fake_python(fresh_clone / ".venv" / "bin" / "python", 13_000)
    fake_python(fresh_clone / "python3.11", 10_000)
    assert chosen(fresh_clone) == f"{fresh_clone}/.venv/bin/python check\n"


def test_the_help_of_up_needs_no_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "prepare_environment", lambda *_: pytest.fail("asked for"))
    assert main(["up", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ./dev up [OPTIONS]\n")


@pytest.mark.process
def test_a_link_to_dev_works_from_another_folder(tmp_path: Path) -> None:
    outcome = subprocess.run([ROOT / "dev", "help"], cwd=tmp_path, capture_output=True, check=True)
    assert outcome.stdout.startswith(b"./dev up")


@pytest.mark.process
def test_an_unknown_command_is_one_message() -> None:
    outcome = dev("upp")
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[0] == "dev: no command 'upp'"


@pytest.mark.process
def test_a_python_that_does_not_fit_is_one_message(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho Python 3.9.18\nexit 1\n")
    python.chmod(0o755)
    outcome = dev("check", WAKELOG_PYTHON=str(python))
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("dev: WAKELOG_PYTHON is ")
    assert len(outcome.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_keeps_what_it_has_compiled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def run(_python: Path, _arguments: Sequence[str]) -> int:
        seen.append(WRITES_NO_BYTECODE in os.environ)
        return 0

    monkeypatch.setenv(WRITES_NO_BYTECODE, "1")
    monkeypatch.setattr(commands, "prepare_environment", lambda *_: Path("python"))
    monkeypatch.setitem(COMMANDS, name, Command("", "", run))
    assert main([name]) == 0
    assert seen == [False]


@pytest.mark.parametrize(
    ("arguments", "without", "rest"),
    [
        ([], set(), []),
        (["--without", "java", "-x"], {"java"}, ["-x"]),
        (["--without=java", "--without", "ray"], {"java", "ray"}, []),
        (["--without"], {""}, []),
    ],
)
def test_kinds_left_out_are_parted_from_arguments_for_pytest(
    arguments: Sequence[str], without: set[str], rest: list[str]
) -> None:
    assert split_without(arguments) == (without, rest)


@pytest.mark.parametrize(
    ("arguments", "role", "rest"),
    [
        ([], "", []),
        (["--role", "reput", "-x"], "reput", ["-x"]),
        (["-x", "--role=Flush"], "Flush", ["-x"]),
        (["--role"], "", []),
    ],
)
def test_the_role_of_a_long_run_is_parted_from_arguments_for_pytest(
    arguments: Sequence[str], role: str, rest: list[str]
) -> None:
    assert split_role(arguments) == (role, rest)


def test_check_takes_no_arguments_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.commands.prepare_environment", lambda root, _: root / "python")
    assert main(["check", "this"]) == 1
    assert capsys.readouterr().err == "dev: check takes no arguments\n"


def test_a_command_whose_module_is_not_there_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("scripts.commands.prepare_environment", lambda root, _: root / "python")
    monkeypatch.setattr("scripts.commands.ROOT", tmp_path)
    assert main(["bench"]) == 1
    assert capsys.readouterr().err == "dev: benchmarks is not in this tree yet\n"
