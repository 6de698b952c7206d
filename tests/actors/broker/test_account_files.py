"""The files of access control: which are read, when they are read again, and which are refused."""

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker import account_files
from wakelog.actors.broker.account_files import (
    WATCH_SECONDS,
    AccountFiles,
    next_pause_seconds,
)
from wakelog.actors.errors import DeploymentFailed
from wakelog.broker.access.accounts import AccessFileRefused, AccessTable
from wakelog.telemetry.logs import FILES_OF_BROKER, configure_logs, unconfigure_logs


def account(name: str, secret: str = "hush-hush") -> str:
    return f"accounts: [{{accessKey: {name}, secretKey: {secret}}}]\n"


def write(home: Path, path: str, text: str) -> Path:
    file = home / "conf" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def files_in(home: Path) -> AccountFiles:
    return AccountFiles(str(home))


def test_all_files_below_the_folder_and_the_main_one(tmp_path: Path) -> None:
    write(tmp_path, "plain_acl.yml", account("main-account"))
    write(tmp_path, "acl/b.yaml", account("account-b"))
    write(tmp_path, "acl/deep/a.yml", account("account-a"))
    write(tmp_path, "acl/tools.yml", account("tools-account"))
    write(tmp_path, "tools.yml", "accessKey: mqadmin-account\nsecretKey: hush-hush\n")
    write(tmp_path, "acl/notes.txt", "no file of accounts")
    table = files_in(tmp_path).open()
    read = [os.path.relpath(path, tmp_path / "conf") for path in table.files]
    assert read == ["acl/b.yaml", "acl/tools.yml", "acl/deep/a.yml", "plain_acl.yml"]
    assert len(table) == 4


def test_without_files_there_are_no_accounts(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    assert len(files.open()) == 0
    assert files.read_changed() is None
    write(tmp_path, "plain_acl.yml", account("new-account"))
    found = files.read_changed()
    assert found is not None and found.find("new-account") is not None


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"accounts: [", "plain_acl.yml: this is no YAML at line 1"),
        (b"", "plain_acl.yml: the file has no data"),
        (b"\xff\xfe", "plain_acl.yml: it is not UTF-8"),
    ],
)
def test_a_broken_file_refuses_the_start(tmp_path: Path, data: bytes, cause: str) -> None:
    write(tmp_path, "plain_acl.yml", "").write_bytes(data)
    with pytest.raises(DeploymentFailed) as refused:
        files_in(tmp_path).open()
    assert refused.value.cause.endswith(cause)
    assert refused.value.remedy == "Correct that file, or start with aclEnable=false."


def test_files_above_the_limits_refuse_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "plain_acl.yml", account("main-account"))
    write(tmp_path, "acl/b.yml", account("account-b"))
    with monkeypatch.context() as patch:
        patch.setattr(account_files, "FILES_MAX", 2)
        assert len(files_in(tmp_path).open()) == 2
        patch.setattr(account_files, "FILES_MAX", 1)
        with pytest.raises(DeploymentFailed, match="it has more than 1 files"):
            files_in(tmp_path).open()
    size = len(account("main-account"))
    monkeypatch.setattr(account_files, "FILE_BYTES_MAX", size)
    assert len(files_in(tmp_path).open()) == 2
    monkeypatch.setattr(account_files, "FILE_BYTES_MAX", size - 1)
    with pytest.raises(DeploymentFailed, match=f"it has more than {size - 1} bytes"):
        files_in(tmp_path).open()


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    write(tmp_path, "acl/b.yml", account("account-b"))
    files = files_in(tmp_path)
    assert len(files.open()) == 1

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert files.read_changed() is None
    assert "the old ones stay" in log.read_text()
    with pytest.raises(DeploymentFailed, match="Permission denied"):
        files_in(tmp_path).open()


def test_files_are_read_again_when_one_has_changed(tmp_path: Path) -> None:
    main = write(tmp_path, "plain_acl.yml", account("main-account"))
    files = files_in(tmp_path)
    files.open()
    assert files.read_changed() is None
    write(tmp_path, "plain_acl.yml", account("main-account", "another-secret"))
    found = files.read_changed()
    assert found is not None
    changed = found.find("main-account")
    assert changed is not None and changed.secret_key == "another-secret"
    assert files.read_changed() is None
    write(tmp_path, "acl/b.yml", account("account-b"))
    found = files.read_changed()
    assert found is not None and len(found) == 2
    main.unlink()
    found = files.read_changed()
    assert found is not None and found.find("main-account") is None


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Write the broker's log to a file for one test."""
    configure_logs(tmp_path / "logs", actor=FILES_OF_BROKER, epoch=1)
    yield tmp_path / "logs" / "broker.log"
    unconfigure_logs()


def test_a_file_that_breaks_changes_nothing_and_is_logged_once(tmp_path: Path, log: Path) -> None:
    write(tmp_path, "plain_acl.yml", account("main-account"))
    files = files_in(tmp_path)
    files.open()
    write(tmp_path, "plain_acl.yml", "accounts: [")
    assert files.read_changed() is None
    assert files.read_changed() is None
    assert log.read_text().count("the old ones stay") == 1
    write(tmp_path, "plain_acl.yml", account("later-account"))
    found = files.read_changed()
    assert found is not None and found.find("later-account") is not None
    write(tmp_path, "plain_acl.yml", "accounts: [")
    assert files.read_changed() is None
    assert log.read_text().count("the old ones stay") == 2, "it broke once more"


def test_a_file_that_others_can_read_is_warned_about(tmp_path: Path, log: Path) -> None:
    write(tmp_path, "plain_acl.yml", account("main-account")).chmod(0o644)
    files_in(tmp_path).open()
    assert "chmod 600" in log.read_text()


def test_a_change_is_written_with_the_mode_of_the_file(tmp_path: Path) -> None:
    main = write(tmp_path, "plain_acl.yml", account("main-account"))
    main.chmod(0o640)
    other = write(tmp_path, "acl/b.yml", account("account-b"))
    files = files_in(tmp_path)
    files.open()
    table = files.change(str(other), lambda text: (text or "").replace("account-b", "account-c"))
    assert table is not None and table.find("account-c") is not None and len(table) == 2
    assert "account-c" in other.read_text() and stat.S_IMODE(other.stat().st_mode) == 0o600
    files.change(None, lambda text: (text or "").replace("main-account", "next-account"))
    assert "next-account" in main.read_text() and stat.S_IMODE(main.stat().st_mode) == 0o640
    assert sorted(path.name for path in main.parent.iterdir()) == ["acl", "plain_acl.yml"]
    found = files.read_changed()
    assert found is not None and found.find("next-account") is not None


def test_a_file_that_is_made_is_private(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.open()
    files.change(None, lambda text: account("first-account") if text is None else "")
    assert stat.S_IMODE(os.stat(files.main).st_mode) == 0o600


def test_a_change_that_breaks_the_file_is_not_written(tmp_path: Path) -> None:
    main = write(tmp_path, "plain_acl.yml", account("main-account"))
    files = files_in(tmp_path)
    files.open()
    with pytest.raises(AccessFileRefused):
        files.change(None, lambda _: account("short"))
    assert files.change(None, lambda _: None) is None
    assert main.read_text() == account("main-account")


def test_files_that_change_all_the_time_are_read_for_a_tenth_of_it() -> None:
    """9,900 accounts that changed each second kept the broker and the name server busy."""
    assert next_pause_seconds(0.001) == WATCH_SECONDS
    assert next_pause_seconds(1.0) == 9.0


@on_loop
async def test_files_are_checked_after_pauses_and_a_change_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_seconds, pauses, given = 100.0, list[float](), list[AccessTable]()
    found = [None, AccessTable({}), None]
    files = files_in(tmp_path)

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if not found:
            raise asyncio.CancelledError

    async def run(read: Callable[[], AccessTable | None]) -> AccessTable | None:
        nonlocal now_seconds
        assert read == files.read_changed
        now_seconds += 2.0 if len(found) == 2 else 0.01
        return found.pop(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    monkeypatch.setattr("time.monotonic", lambda: now_seconds)
    table = found[1]
    with pytest.raises(asyncio.CancelledError):
        access: Any = SimpleNamespace(replace=given.append)
        await files.watch(access, run)
    assert pauses == [WATCH_SECONDS, WATCH_SECONDS, 18.0, WATCH_SECONDS]
    assert given == [table]


def test_a_change_that_finds_no_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "plain_acl.yml", account("old-account"))
    files = files_in(tmp_path)
    files.open()

    def refuse(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space left"):
            files.change(None, lambda _: account("new-account"))
    assert file.read_text() == account("old-account")
    assert [each.name for each in file.parent.iterdir()] == ["plain_acl.yml"]
    assert files.change(None, lambda _: account("new-account")) is not None
