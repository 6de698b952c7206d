"""Stretches that tasks scanned give the same rebuild as the log read in order."""

from pathlib import Path

import pytest

from tests.audit.logs import derived_files, random_log
from tests.dispatchers.stores import dispatch_config
from tests.dispatchers.workers import InTurn
from tests.fakes.records import LogBytes, properties
from wakelog.audit import parts as parts_module
from wakelog.audit import rebuild
from wakelog.audit.parts import ScanJob, part_loader, scan_segment
from wakelog.audit.rebuild import LogReport, Rebuild, run_rebuild
from wakelog.audit.stretches import FillStretch
from wakelog.compiled.library import Choice
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem

SEGMENT_BYTES = 128 << 10


def store_of(log: LogBytes, root: Path, *, index_entry_count: int = 400) -> StoreConfig:
    folder = root / "store" / "commitlog"
    folder.mkdir(parents=True)
    for begin in range(log.begin, log.end, SEGMENT_BYTES):
        at = begin - log.begin
        data = bytes(log.data[at : at + SEGMENT_BYTES])
        (folder / f"{begin:020d}").write_bytes(data.ljust(SEGMENT_BYTES, b"\0"))
    return dispatch_config(
        store_path_root=str(root / "store"),
        commit_log_file_bytes=SEGMENT_BYTES,
        index_slot_count=97,
        index_entry_count=index_entry_count,
    )


def rebuilt(
    config: StoreConfig,
    target: Path,
    worker: InTurn | None = None,
    load: FillStretch = lambda lane, begin, end: None,
) -> tuple[LogReport, tuple[dict[str, bytes], list[bytes]]]:
    target.mkdir()
    made = Rebuild(FileSystem(), config, str(target), worker, load=load)
    return run_rebuild(made), derived_files(target)


@pytest.mark.parametrize("seed", range(6))
def test_any_log_gives_the_same_files(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = random_log(seed, segment_bytes=SEGMENT_BYTES, count=1500)
    assert log.end - log.begin > 3 * SEGMENT_BYTES
    config = store_of(log, tmp_path)
    parts = tmp_path / "parts"
    parts.mkdir()
    job = ScanJob(config, str(parts), check_bodies=True)
    for begin in reversed(range(log.begin, log.end, SEGMENT_BYTES)):  # in any order, and twice
        scan_segment(job, begin)
        before = {path.name: path.read_bytes() for path in parts.iterdir()}
        scan_segment(job, begin)
        assert {path.name: path.read_bytes() for path in parts.iterdir()} == before
    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "CHOICE", Choice(None))
        expected, ordered = rebuilt(config, tmp_path / "ordered")
    load, loaded = part_loader(str(parts)), []

    def count(lane: object, begin: int, end: int) -> object:
        filled = load(lane, begin, end)  # type: ignore[arg-type]
        loaded.extend([begin] if filled else [])
        return filled

    report, files = rebuilt(config, tmp_path / "made", InTurn(), count)  # type: ignore[arg-type]
    assert files == ordered and len(files[0]) > 20 and len(files[1]) > 3
    assert report == expected
    assert len(loaded) >= 3


@pytest.mark.parametrize("keyed", range(5))
@pytest.mark.parametrize("keyless", range(2))
def test_a_full_file_gets_a_successor_with_the_next_record(
    keyed: int, keyless: int, tmp_path: Path
) -> None:
    log = LogBytes(SEGMENT_BYTES)
    for i in range(keyed + keyless):
        log.add(properties(KEYS=f"k{i}") if i < keyed else b"", queue_offset=i)
    config = store_of(log, tmp_path, index_entry_count=3)
    report, (_, index) = rebuilt(config, tmp_path / "made")
    assert report.index_files_count == len(index)
    assert len(index) == (keyed + keyless + 1) // 2 if keyed % 2 == 0 else (keyed + 1) // 2


def test_a_task_without_the_compiled_library_leaves_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "CHOICE", Choice(None))
    config = store_of(random_log(1, segment_bytes=SEGMENT_BYTES, count=10), tmp_path)
    (tmp_path / "parts").mkdir()
    scan_segment(ScanJob(config, str(tmp_path / "parts"), check_bodies=True), 0)
    assert not list((tmp_path / "parts").iterdir())


def test_a_stretch_without_a_file_is_scanned_by_the_rebuild(tmp_path: Path) -> None:
    assert part_loader(str(tmp_path))(None, 0, 1 << 20) is None  # type: ignore[arg-type]
