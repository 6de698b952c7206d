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
    NOTHING,
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

    path.parent.mkdir()
    register.replace("other", b"1", NO_VERSION)
    with mock.patch.multiple(os, fsync=noting("fsync"), rename=noting("rename")):
        register.replace(KEY, b"1", NO_VERSION)
    assert steps == ["fsync", "rename", "fsync"]
    for left in path.parent.glob("other.*"):
        left.unlink()
    assert {one.name for one in path.parent.iterdir()} == {path.name, "wakelog%2Fc%2Fb.lock"}


@pytest.mark.parametrize("is_made", [False, True])
def test_its_folder_is_durable_before_anything_in_it(
    tmp_path: Path, is_made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that has made it may have died before it was."""
    folder = tmp_path / "a" / "b"
    if is_made:
        folder.mkdir(parents=True)
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    register = open_register(f"file://{folder}/")
    version = register.replace(KEY, b"1", NO_VERSION)
    above = [tmp_path / "a"] if is_made else [tmp_path / "a", tmp_path]
    assert synced[: len(above)] == [*map(str, above)]
    assert synced[-1] == str(folder)
    before = len(synced)
    register.replace(KEY, b"2", version)
    assert len(synced) - before == 2  # the file and its folder


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


def test_a_read_of_a_folder_that_is_not_there_makes_nothing(
    register: Register, tmp_path: Path
) -> None:
    assert register.read(KEY) == register.watch(KEY, NO_VERSION, 0.0) == NOTHING
    assert not list(tmp_path.iterdir())


def test_a_key_that_no_file_can_have_is_refused(register: Register) -> None:
    longest = "x" * (255 - len(".json"))
    register.replace(longest, b"1", NO_VERSION)
    for key in (longest + "x", "a/" * 90 + "a"):  # each / takes three bytes
        for call in (register.read, lambda key: register.replace(key, b"1", NO_VERSION)):
            with pytest.raises(RegisterRefused, match="too long for the name of a file") as error:
                call(key)
            assert "shorter" in error.value.remedy


def test_a_file_keeps_its_mode(register: Register, path: Path) -> None:
    version = register.replace(KEY, b"1", NO_VERSION)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    register.replace(KEY, b"2", version)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("user", "is_given"), [(0, True), (1000, False)])
def test_what_root_makes_belongs_to_the_folders_owner(
    register: Register, path: Path, user: int, is_given: bool
) -> None:
    """The broker runs as another user than the operator who does a failover."""
    path.parent.mkdir()
    owner = path.parent.stat()
    with (
        mock.patch.object(os, "geteuid", return_value=user),
        mock.patch.object(os, "fchown") as give,
    ):
        version = register.replace(KEY, b"1", NO_VERSION)
        register.replace(KEY, b"2", version)
    owners = [call.args[1:] for call in give.call_args_list]
    files_count = 3  # two values and one lock, which stays
    assert owners == ([(owner.st_uid, owner.st_gid)] * files_count if is_given else [])


def test_a_link_in_the_locks_place_gives_nothing_away(register: Register, path: Path) -> None:
    path.parent.mkdir()
    target = path.parent / "target"
    target.touch()
    path.with_suffix(".lock").symlink_to(target)
    with (
        mock.patch.object(os, "geteuid", return_value=0),
        mock.patch.object(os, "fchown") as give,
    ):
        assert register.read(KEY) == NOTHING
    assert not give.called
