"""The register in a folder: what a crash, a full disk or a stranger leaves."""

import errno
import fcntl
import os
from pathlib import Path
from unittest import mock

import pytest

from wakelog.actors.registers import locked_file
from wakelog.actors.registers.register import (
    NO_VERSION,
    AnswerLost,
    Register,
    RegisterRefused,
    RegisterUnreachable,
    open_register,
)

KEY = "wakelog/c/b"


@pytest.fixture
def register(tmp_path: Path) -> Register:
    return open_register(f"file://{tmp_path / 'register'}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "register" / "wakelog%2Fc%2Fb.json"


def test_the_order_of_a_replace(register: Register, path: Path) -> None:
    """Synced before it is renamed, and the folder after it: else a power cut leaves half a file."""
    steps: list[str] = []

    def noting(name: str) -> mock.Mock:
        real = getattr(os, name)

        def call(*words: object) -> object:
            steps.append(name)
            return real(*words)

        return mock.Mock(side_effect=call)

    with mock.patch.multiple(os, fsync=noting("fsync"), rename=noting("rename")):
        register.replace(KEY, b"1", NO_VERSION)
    assert steps == ["fsync", "rename", "fsync"]
    assert {one.name for one in path.parent.iterdir()} == {path.name, "wakelog%2Fc%2Fb.lock"}


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_a_disk_that_fails(register: Register, path: Path, failing: str) -> None:
    version = register.replace(KEY, b"1", NO_VERSION)
    error = OSError(errno.ENOSPC, "No space left on device")
    expected = RegisterUnreachable if failing == "fsync" else AnswerLost
    with (
        mock.patch.object(os, failing, side_effect=error),
        pytest.raises(expected, match="No space left"),
    ):
        register.replace(KEY, b"2", version)
    assert register.read(KEY) == (b"1", version)
    if failing == "fsync":
        assert not list(path.parent.glob(".new-*"))


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"version": "1"', b'{"version": "", "value": ""}', b"\xff", b"[1]"]
)
def test_a_file_of_something_else_is_refused_and_stays(
    register: Register, path: Path, text: bytes
) -> None:
    register.replace(KEY, b"1", NO_VERSION)
    path.write_bytes(text)
    with pytest.raises(RegisterRefused, match=r"b\.json"):
        register.read(KEY)
    with pytest.raises(RegisterRefused):
        register.replace(KEY, b"2", NO_VERSION)
    assert path.read_bytes() == text


def test_a_file_made_again_has_no_version_of_before(register: Register, path: Path) -> None:
    before = register.replace(KEY, b"1", NO_VERSION)
    path.unlink()
    assert register.replace(KEY, b"1", NO_VERSION) != before


def test_a_lock_that_a_stopped_process_holds_is_not_waited_for(
    register: Register, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_file, "CALL_SECONDS_MAX", 0.05)
    version = register.replace(KEY, b"1", NO_VERSION)
    with open(path.with_suffix(".lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for call in (lambda: register.read(KEY), lambda: register.replace(KEY, b"2", version)):
            with pytest.raises(RegisterUnreachable, match="held by another process"):
                call()
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert register.read(KEY) == (b"1", version)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RegisterUnreachable, match="Not a directory"):
        open_register(f"file://{tmp_path}/file/register").read(KEY)
