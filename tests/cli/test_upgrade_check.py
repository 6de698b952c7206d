"""What a start of this version would say of a store, and what 4.9.3 would not understand."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from wakelog.actors.deploy.plan import UpOptions
from wakelog.cli import store_check, upgrade_check
from wakelog.cli.app import run
from wakelog.cli.stop_signals import StopSignals
from wakelog.cli.upgrade_check import FORMATS, KEPT_FILTERS, Row, upgrade_rows
from wakelog.console.rules import OK, PROBLEM, WARNING
from wakelog.storage.durability.slot_file import SLOT_FILE_BYTES
from wakelog.storage.durability.store_identity import StoreIdentity
from wakelog.storage.file_system import FileSystem
from wakelog.storage.live_settings import Change, changes_text
from wakelog.storage.paths import StorePaths
from wakelog.testing.embedded_broker import SMALL_FILES, EmbeddedBroker

SEGMENT_BYTES = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one segment, which was stopped in order."""
    root = tmp_path / "store"
    segment = root / "commitlog" / f"{0:020}"
    segment.parent.mkdir(parents=True)
    (root / "config").mkdir()
    segment.touch()
    os.truncate(segment, SEGMENT_BYTES)
    return root


def rows(store: Path, *settings: str, **options: object) -> list[Row]:
    """Return what is not as it should be, and the last row."""
    given = UpOptions(
        store=str(store),
        settings=(f"mappedFileSizeCommitLog={SEGMENT_BYTES}", *settings),
        **options,  # type: ignore[arg-type]
    )
    found = list(upgrade_rows(given, FileSystem()))
    return [each for each in found[:-1] if each.verdict != OK] + found[-1:]


def test_a_sound_store_starts_and_the_way_back_is_open(store: Path) -> None:
    given = UpOptions(store=str(store), settings=(f"mappedFileSizeCommitLog={SEGMENT_BYTES}",))
    back, start = upgrade_rows(given, FileSystem())
    assert (back.subject, back.verdict) == ("way back", OK)
    assert start.verdict == OK and start.found.endswith("would start")


def test_a_refused_setting_is_a_problem(store: Path) -> None:
    configuration, start = rows(store, "flushDiskType=NO")
    assert configuration.subject == "configuration" and start.verdict == PROBLEM
    assert configuration.found == "flushDiskType=NO is not accepted (--set)"


def test_an_unknown_key_is_a_warning(store: Path) -> None:
    row, start = rows(store, "flushDiscType=ASYNC_FLUSH")
    assert (row.subject, row.verdict, start.verdict) == ("configuration", WARNING, OK)
    assert "flushDiscType" in row.found


def test_all_that_a_start_would_refuse_is_said(store: Path) -> None:
    identity = msgspec.json.encode(StoreIdentity("7", "another"))
    (store / "wakelog.store").write_bytes(identity)
    found = rows(store, "mappedFileSizeCommitLog=2097152")
    assert [each.verdict for each in found] == [PROBLEM] * 3
    assert "belongs to broker another" in found[0].found
    assert "has segments of 1048576 bytes" in found[1].found and found[1].remedy


def test_a_broker_that_runs_is_a_warning(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / "abort").touch()
    for module in (store_check, upgrade_check):
        monkeypatch.setattr(module, "holder_pid", lambda fs, path, byte: 77)
    *locked, start = rows(store)
    assert {each.verdict for each in locked} == {WARNING} and start.verdict == OK
    assert len(locked) == 2, "the store, and the folder of the name server"
    assert "77" in locked[0].found and locked[0].remedy.startswith("Stop it in order")


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_of_another_format_is_named(store: Path, name: str) -> None:
    path = Path(getattr(StorePaths(str(store)), name))
    known = FORMATS[name].known
    ours = bytes(known) if isinstance(known, bytes) else b'{"version":%d}' % known
    path.write_bytes(ours.ljust(SLOT_FILE_BYTES, b" "))
    assert not [each for each in rows(store) if each.subject == "files"]
    path.write_bytes(b'{"version":9}'.ljust(SLOT_FILE_BYTES, b" "))
    [row] = [each for each in rows(store) if each.subject == "files"]
    assert row.verdict == WARNING and str(path) in row.found and FORMATS[name].lost in row.found


def test_a_file_that_no_module_makes_is_of_a_later_version(store: Path) -> None:
    for name in ("wakelog.cursor.parquet", "wakelog.quarantine", "wakelog.tiers"):
        (store / name).touch()
    row, start = rows(store)
    assert row.found == f"{store}/wakelog.tiers is not of this version" and start.verdict == OK


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda store: (store / "abort").touch(), "was not stopped in order"),
        (lambda store: (store / "config" / KEPT_FILTERS).touch(), "was not stopped in order"),
        (lambda store: (store / "wakelog.epochs").touch(), "of a replica with a register"),
        (
            lambda store: (store / "config" / "changedSettings.json").write_text(
                changes_text({"fileReservedTime": Change("48", "72")})
            ),
            "while broker-a ran: fileReservedTime",
        ),
    ],
)
def test_what_4_9_3_would_not_understand_is_said(
    store: Path, make: Callable[[Path], object], words: str
) -> None:
    make(store)
    found = rows(store)
    [row] = [each for each in found if each.subject == "way back"]
    assert words in row.found and row.remedy and found[-1].verdict == OK


def test_what_4_9_3_would_ignore_is_said(tmp_path: Path) -> None:
    found = rows(tmp_path / "new", "wakelog.trustedAddresses=10.0.0.*", broker_count=2)
    texts = [each.found for each in found if each.subject == "way back"]
    assert len(texts) == 4 and "ignores keys that begin with `wakelog.`" in texts[0]
    assert "runs one broker a process" in texts[1]


def test_tables_that_cannot_be_read_are_named(store: Path) -> None:
    table = store / "config" / "topics.json"
    table.write_text("{ no json")
    [row] = [each for each in rows(store) if each.subject == "files"]
    assert row.found.startswith(f"{table} cannot be read") and row.remedy


def test_the_command_exits_with_1_if_it_would_not_start(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["upgrade-check", "--store", str(store), "--output", "json"]
    assert run([*words, "--set", f"mappedFileSizeCommitLog={SEGMENT_BYTES}"], StopSignals()) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["verdict"] == OK
    assert run(words[:-2], StopSignals()) == 1
    assert "would not start" in capsys.readouterr().out.splitlines()[-2]


def test_nothing_is_said_of_the_files_of_a_broker_that_ran(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path / "store") as broker:
        broker.create_topic("orders")
    given = UpOptions(
        store=str(tmp_path / "store"),
        settings=(f"mappedFileSizeCommitLog={SMALL_FILES['mappedFileSizeCommitLog']}",),
    )
    found = list(upgrade_rows(given, FileSystem()))
    assert [each.verdict for each in found] == [OK, OK], found
