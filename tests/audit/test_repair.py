"""Work on a store: a verify of a sound one writes nothing, a refused repair leaves all in place."""

import os
from pathlib import Path

import pytest

from tests.golden_stores import open_golden
from wakelog.audit.operator import AuditRefused
from wakelog.audit.rebuild import rebuild_into
from wakelog.audit.repair import repair
from wakelog.audit.replacement import rebuild_store
from wakelog.audit.verify import verify
from wakelog.cli.log_settings import store_config
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore

pytestmark = pytest.mark.golden


def test_a_repair_that_recovery_refuses_moves_nothing(tmp_path: Path) -> None:
    store, _ = open_golden("ipv6", tmp_path)
    _, middle, _ = sorted((store / "commitlog").iterdir())
    middle.unlink()
    config = store_config(str(store), None, [])
    with pytest.raises(DamagedStore, match="is missing"):
        repair(config, scratch=str(tmp_path))
    assert (store / "consumequeue").is_dir() and (store / "index").is_dir()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_of_ours_is_left_alone(tmp_path: Path, kind: str) -> None:
    store, _ = open_golden("basic", tmp_path)
    (tmp_path / "other").mkdir()
    place = store / "wakelog.rebuild"
    if kind == "link":
        place.symlink_to(tmp_path / "other")
    else:
        place.write_text("mine")
    with pytest.raises(AuditRefused, match="is no folder"):
        rebuild_store(store_config(str(store), None, []))
    assert place.is_symlink() if kind == "link" else place.read_text() == "mine"
    assert (store / "consumequeue").is_dir()


def files_of(store: Path, folder: str) -> dict[str, bytes]:
    paths = (path for path in (store / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(store)): path.read_bytes() for path in paths}


def reasons_of(config: StoreConfig, tmp_path: Path) -> set[str]:
    report = verify(config, scratch=str(tmp_path))
    return {finding.reason for finding in report.findings.kept}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_sound_store_is_compared_and_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    store, _ = open_golden("basic", tmp_path)
    queue = min((store / "consumequeue").rglob("0" * 20))
    if is_damaged:
        with queue.open("r+b") as file:
            file.write(b"\xff" * 20)
    written: set[str] = set()
    write = os.pwrite

    def note(fd: int, data: bytes, position: int) -> int:
        written.add(os.readlink(f"/proc/self/fd/{fd}"))
        return write(fd, data, position)

    monkeypatch.setattr(os, "pwrite", note)
    report = verify(store_config(str(store), None, []), scratch=str(tmp_path))
    assert bool(report.findings.kept) == is_damaged
    assert report.entries_count == 808 - is_damaged
    place = str(queue.relative_to(store))
    queues = {path for path in written if "consumequeue" in path}
    assert len(queues) == is_damaged and all(path.endswith(place) for path in queues)


@pytest.mark.parametrize("is_guarded", [False, True])
def test_units_are_verified_and_rebuilt_with_the_bits_of_the_kept_filters(
    tmp_path: Path, is_guarded: bool
) -> None:
    store, _ = open_golden("filter_ext", tmp_path)
    kept = store / "config" / "consumerFilter.json"
    if is_guarded:  # as a broker of ours leaves it that was killed
        kept.rename(store / "config" / "consumerFilterKept.json")
        for link in (kept, kept.with_suffix(".json.bak")):
            link.unlink(missing_ok=True)
            link.symlink_to("/proc/1/fd/nothing")
    config = store_config(str(store), None, [])
    assert reasons_of(config, tmp_path) == set()


def test_a_bit_that_is_missing_is_damage_and_repaired(tmp_path: Path) -> None:
    store, _ = open_golden("filter_ext", tmp_path)
    config = store_config(str(store), None, [])
    path = store / "consumequeue_ext" / "FilterTopic" / "3" / f"{2048:020d}"
    whole = path.read_bytes()
    # One byte of a bitmap that is not zero: whichever bits it has, some group needs them.
    at = next(i for i in range(len(whole)) if i % 34 >= 20 and whole[i])
    path.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    [reason] = reasons_of(config, tmp_path)
    assert reason == "another extension unit than the record's"
    report = repair(config, scratch=str(tmp_path))
    assert report.after.findings.kept == []
    first = files_of(store, "consumequeue_ext")
    assert len(first) == 14
    assert list((store / "wakelog.quarantine").glob("replaced.*/consumequeue_ext/FilterTopic/3"))
    rebuild_store(config)
    assert files_of(store, "consumequeue_ext") == first
    assert reasons_of(config, tmp_path) == set()


@pytest.mark.parametrize("damage", ["no file", "a text that is none", "no filters"])
def test_without_kept_filters_units_have_no_bitmaps(tmp_path: Path, damage: str) -> None:
    store, _ = open_golden("filter_ext", tmp_path)
    for path in (store / "config").glob("consumerFilter.json*"):
        path.unlink()
        if damage != "no file":
            path.write_text("{}" if damage == "no filters" else "no JSON")
    config = store_config(str(store), None, [])
    target = tmp_path / "into"
    rebuild_into(config, str(target))
    found = files_of(target, "consumequeue_ext")
    assert found and all(data[:2] == b"\0\x14" for data in found.values())
