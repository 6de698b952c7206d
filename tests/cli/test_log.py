"""`wakelog log` as a user types it, over stores that the real 4.9.3 broker left."""

import errno
import json
from pathlib import Path

import pytest

from tests.cli.fakes import FakeDeployment
from tests.golden_stores import open_golden
from wakelog.audit import rebuild
from wakelog.cli import app
from wakelog.cli.stop_signals import StopSignals
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.file_system import FileSystem

pytestmark = pytest.mark.golden


def run(*arguments: str) -> int:
    return app.run(["log", *arguments], StopSignals(), lambda plan: FakeDeployment())


def queues(store: Path) -> dict[str, bytes]:
    root = store / "consumequeue"
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_sound_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    assert run("verify", "--store", str(store)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sound: 160 records in 136142 bytes, 4 queues with 160 entries, 316 keys"
    ]


def test_a_damaged_store_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = open_golden("crash_torn_page", tmp_path)
    assert run("verify", "--store", str(store), "-o", "json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["sound"] is False
    assert report["log"] == {"begin": 0, "end": 315165, "records": 315, "tailBytes": 227}
    assert len(report["findings"]) == report["damages"] == 10
    assert report["findings"][0]["kind"] == "tail"


@pytest.mark.parametrize(
    ("name", "rebuilt"),
    [("basic", "808 records from 0 to 1793257"), ("multi_dispatch", "")],
)
def test_a_rebuild_leaves_the_same_queues_and_keeps_the_old(
    name: str, rebuilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden(name, tmp_path)
    before = queues(store)
    assert run("rebuild", "--store", str(store)) == 0
    assert f"rebuilt: {rebuilt}" in capsys.readouterr().out
    assert queues(store) == before
    [kept] = (store / "wakelog.quarantine").iterdir()
    assert sorted(path.name for path in kept.iterdir()) == ["consumequeue", "index"]
    assert run("verify", "--store", str(store)) == 0


def test_a_rebuild_reports_what_holds_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    with (store / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.write(bytes(8))
    assert run("rebuild", "--store", str(store), "--into", str(tmp_path / "new")) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("passed over  0 to ") and first.endswith(": magic 0x00000000")
    assert last == "rebuilt: 159 records from 0 to 136142"


def test_damage_comes_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = open_golden("basic", tmp_path)
    with (store / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.seek(8)
        file.write(bytes(4))  # a body's CRC
    assert run("verify", "--store", str(store)) == 1
    assert capsys.readouterr().err.startswith("what rotted in the log hides only itself")
    min((store / "consumequeue").rglob("0" * 20)).unlink()
    assert run("verify", "--store", str(store)) == 1
    assert capsys.readouterr().err.startswith("next: wakelog log repair; ")
    assert run("verify", "--store", str(store), "-o", "json") == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "folder"), [("ipv6", "commitlog"), ("filter_ext", "consumequeue_ext/FilterTopic/1")]
)
def test_a_name_that_nothing_can_be_read_by_is_listed(
    name: str, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden(name, tmp_path)
    file = max((store / folder).iterdir())
    file.rename(file.with_name(f"{65537:020d}"))
    assert run("verify", "--store", str(store), "-o", "json") == 1
    report = json.loads(capsys.readouterr().out)
    first = report["findings"][0]
    assert first["place"] == f"{folder}/{65537:020d}"
    assert first["reason"].startswith("its name is no multiple of ")
    assert report["log"] is None


def test_a_rebuild_reports_missing_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    segments = sorted((store / "commitlog").iterdir())
    begin, end = int(segments[1].name), int(segments[2].name)
    segments[1].unlink()
    target = str(tmp_path / "new")
    assert run("rebuild", "--store", str(store), "--into", target) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"missing  {begin} to {end}: no segments, passed over"
    assert said[1].startswith("rebuilt: ") and said[1].endswith(" records from 0 to 136142")
    assert run("verify", "--store", str(store)) == 1
    assert f"files from {begin} to {end} are missing before it" in capsys.readouterr().out


def test_a_rebuild_into_a_folder_leaves_the_store_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    names = sorted(path.name for path in store.iterdir())
    target = tmp_path / "new"
    assert run("rebuild", "--store", str(store), "--into", str(target), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "records": 160,
        "begin": 0,
        "end": 136142,
        "missing": [],
        "badStretches": [],
        "moves": [],
    }
    assert [data for _, data in sorted(queues(target).items())] == [
        data for _, data in sorted(queues(store).items())
    ]
    assert sorted(path.name for path in store.iterdir()) == names
    assert run("rebuild", "--store", str(store), "--into", str(target)) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["crash", "crash_lost_cq", "crash_torn_body", "crash_torn_page"])
def test_a_repair_makes_a_crashed_store_sound(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden(name, tmp_path)
    assert run("repair", "--store", str(store)) == 0
    assert "sound: " in capsys.readouterr().out
    assert run("verify", "--store", str(store)) == 0
    capsys.readouterr()
    assert run("repair", "--store", str(store), "-o", "json") == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["quarantined"], again["moves"]) == ([], [])


@pytest.mark.parametrize("command", ["rebuild", "repair"])
def test_a_store_in_use_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    lock = StoreLock(FileSystem(), str(store / "lock"))
    try:
        assert run(command, "--store", str(store)) == 1
    finally:
        lock.release()
    assert "is already running" in capsys.readouterr().err
    assert not (store / "wakelog.quarantine").exists()


@pytest.mark.parametrize("command", ["rebuild", "repair"])
def test_a_link_out_of_the_store_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    (store / "index").rename(tmp_path / "index")
    (store / "index").symlink_to(tmp_path / "index")
    assert run(command, "--store", str(store)) == 1
    assert "a link out of the store" in capsys.readouterr().err
    assert not (store / "wakelog.quarantine").exists()


def test_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = open_golden("basic", tmp_path)
    words = ["dump", "--store", str(store), "--topic", "GoldTopicA", "--limit", "2"]
    assert run(*words, "--body-bytes", "4") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["1005", "GoldTopicA/0@0"]
    assert first.endswith("'thet'...")
    assert run(*words, "--offset", "1006", "-o", "json", "--hex") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    assert str(lines[0]["physicalOffset"]) == second.split()[0]
    assert bytes.fromhex(lines[0]["body"])


def test_a_dump_says_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = open_golden("basic", tmp_path)
    assert run("dump", "--store", str(store), "--topic", "NoSuch") == 0
    assert capsys.readouterr() == ("", "no record is selected\n")
    assert run("dump", "--store", str(store), "-o", "json") == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (100, "ended at 100 records: --limit shows more\n")
    [first, second] = (json.loads(line) for line in out.splitlines()[:2])
    with (store / "commitlog" / ("0" * 20)).open("r+b") as file:
        file.write(bytes(8))
    assert run("dump", "--store", str(store), "--limit", "1", "-o", "json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == second
    assert err.startswith(f"passed over  0 to {first['sizeBytes']}: ")


def test_a_dump_by_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = open_golden("basic", tmp_path)
    assert run("dump", "--store", str(store), "--limit", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    since, until = (line.split()[2] for line in lines[1:])
    assert run("dump", "--store", str(store), "--since", since, "--until", until) == 0
    assert capsys.readouterr().out.splitlines() == lines[1:2]


def test_a_rebuild_into_a_folder_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("rebuild", "--store", store.name, "--into", "new") == 0
    assert (tmp_path / "new" / "consumequeue").is_dir()
    min((store / "consumequeue").rglob("0" * 20)).unlink()
    assert run("verify", "--store", store.name, "--scratch", "new") == 1


@pytest.mark.parametrize("words", [["rebuild"], ["rebuild", "--into", "new"]])
def test_what_a_rebuild_made_when_it_failed_is_removed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*asked: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, _ = open_golden("ipv6", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rebuild, "sync_tree", fail)
    assert run(*words, "--store", str(store)) == 1
    assert not (tmp_path / "new").exists() and not (store / "wakelog.rebuild").exists()
    assert run("verify", "--store", str(store)) == 0


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["verify", "--store", "/nowhere"], "/nowhere holds no commitlog"),
        (
            ["dump", "--since", "noon"],
            "'noon' is no time. Give 10m, 2h, 2026-11-24T06:00, beginning, ",
        ),
        (["verify", "--set", "x"], "--set x has no value"),
        (["dump", "--limit", "-1"], "a count below zero"),
    ],
)
def test_a_mistake(words: list[str], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert cause in capsys.readouterr().err


def test_lag_dead_letters_and_keys_need_no_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = open_golden("basic", tmp_path)
    assert run("hotkeys", "--store", str(store), "--limit", "1", "-o", "json") == 0
    out, err = capsys.readouterr()
    [row] = [json.loads(line) for line in out.splitlines()]
    assert row["messages"] >= 1 and 0 < row["percent"] <= 100
    assert "more: --limit shows them" in err
    assert run("deadletters", "--store", str(store)) == 0
    assert capsys.readouterr().out
    assert run("lag", "--store", str(store), "--group", "nobody") == 2
    assert "group nobody has committed no offset" in capsys.readouterr().err
