"""What becomes of files that are not as they should be: in a verification, and at a start.

Each case spoils one file of a sound store. Nothing may end in anything but a result or an error
of the store, nothing outside it may change, and no more memory be taken than some segments have.
"""

import enum
import os
import shutil
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.dispatchers.test_golden_rebuild import config_of
from tests.fakes.stores import open_store, put
from tests.golden_stores import open_golden
from tests.kinds import some_daily
from wakelog.audit.verify import VerifyReport, verify, verify_store
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.append import PutStatus

pytestmark = pytest.mark.golden
# One segment of these stores, and as much again for what Python and numpy take.
# Beside what a store may take, Python's table of interned strings, which doubles now and then.
MEMORY_BYTES_MAX = (4 << 20) + (16 << 20)


def zero_length(path: Path, outside: Path) -> None:
    path.write_bytes(b"")


def short(path: Path, outside: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def too_long(path: Path, outside: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def extra(path: Path, outside: Path) -> None:
    path.with_name(f"{path.name}.swp").write_bytes(b"extra")


def missing(path: Path, outside: Path) -> None:
    path.unlink()


def misnamed(path: Path, outside: Path) -> None:
    path.rename(path.with_name(f"x{path.name}"))


def directory(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


def link_inside(path: Path, outside: Path) -> None:
    kept = path.with_name(f"{path.name}.kept")
    path.rename(kept)
    path.symlink_to(kept.name)


def link_outside(path: Path, outside: Path) -> None:
    shutil.copy(path, outside / "copy")
    path.unlink()
    path.symlink_to(outside / "copy")


def dangling(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "nothing")


SPOILS = (
    zero_length,
    short,
    too_long,
    extra,
    missing,
    misnamed,
    directory,
    link_inside,
    link_outside,
    dangling,
)


class Start(enum.Enum):
    """What comes of a start of the broker."""

    OPENS = "opens"
    READ_ONLY = "opens, takes no message, and leaves the log as it is"
    REFUSED = "refused with the cause"


OPENS, READ_ONLY, REFUSED = Start
# For each kind of file one row a way of spoiling, in the order above: what verification finds, with
# a note in brackets if it is harmless, and what comes of a start.
Row = tuple[str, Start]
TABLE: dict[str, tuple[Row, ...]] = {
    "log first": (
        ("file index queue", REFUSED),
        ("file index queue", REFUSED),
        ("file index queue", REFUSED),
        ("(file)", OPENS),
        ("", OPENS),  # as after retention: the log begins later
        ("(file)", OPENS),
        ("file", OPENS),
        ("(file link)", REFUSED),
        ("link", REFUSED),
        ("link", REFUSED),
    ),
    "log middle": (
        ("file index queue", REFUSED),
        ("file index queue", REFUSED),
        ("file index queue", REFUSED),
        ("(file)", OPENS),
        ("file index queue", READ_ONLY),
        ("file index queue", READ_ONLY),
        ("file index queue", READ_ONLY),
        ("(file link)", REFUSED),
        ("file link", REFUSED),
        ("file link", REFUSED),
    ),
    "log last": (
        ("file index queue", OPENS),  # recovery makes it whole
        ("file index queue", OPENS),
        ("file index queue", REFUSED),
        ("(file)", OPENS),
        ("index queue", OPENS),
        ("file index queue", OPENS),
        ("file index queue", REFUSED),  # when the stop removes what was made ahead
        ("(file link)", REFUSED),
        ("link", REFUSED),
        ("link", REFUSED),
    ),
    "queue": (
        ("file queue", OPENS),
        ("file", OPENS),
        ("file", REFUSED),
        ("(file)", OPENS),
        ("queue", OPENS),
        ("file queue", OPENS),
        ("file queue", OPENS),
        ("(file link)", REFUSED),
        ("link", REFUSED),
        ("link", OPENS),
    ),
    "index": (
        ("file index", OPENS),
        ("file index", OPENS),
        ("file index", OPENS),
        ("(file)", OPENS),
        ("index", OPENS),
        ("file index", OPENS),
        ("file index", OPENS),
        ("(file link)", OPENS),
        ("link", REFUSED),
        ("link", REFUSED),
    ),
    "checkpoint": (
        ("(file)", OPENS),
        ("(file)", OPENS),
        ("(file)", OPENS),
        ("", OPENS),
        ("", OPENS),
        ("", OPENS),
        ("file", REFUSED),
        ("(link)", REFUSED),
        ("link", REFUSED),
        ("link", REFUSED),
    ),
    "config": (  # the broker's tables read these, and take the .bak
        ("(file)", OPENS),
        ("(file)", OPENS),
        ("(file)", OPENS),
        ("", OPENS),
        ("", OPENS),
        ("", OPENS),
        ("file", OPENS),
        ("(link)", OPENS),
        ("link", REFUSED),
        ("link", REFUSED),
    ),
}
CASES = [
    pytest.param(which, spoil, *row, id=f"{which}-{spoil.__name__}")
    for which, rows in TABLE.items()
    for spoil, row in zip(SPOILS, rows, strict=True)
]


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import whatever a verification needs, of a sound store or not, before memory is counted."""
    for spoil in (extra, zero_length):
        folder = tmp_path_factory.mktemp("first")
        config, _ = spoiled("log first", spoil, folder)
        verification(config, folder)


def verification(config: StoreConfig, folder: Path) -> VerifyReport:
    fs, target = FileSystem(), folder / "rebuilt"
    target.mkdir()
    return verify_store(fs, config, str(target))


def victim(store: Path, which: str) -> Path:
    logs = sorted((store / "commitlog").iterdir())
    return {
        "log first": logs[0],
        "log middle": logs[1],
        "log last": logs[2],
        "queue": sorted((store / "consumequeue").rglob("0" * 20))[0],
        "index": sorted((store / "index").iterdir())[0],
        "checkpoint": store / "checkpoint",
        "config": store / "config" / "topics.json",
    }[which]


def spoiled(
    which: str, spoil: Callable[[Path, Path], None], tmp_path: Path
) -> tuple[StoreConfig, Path]:
    store, manifest = open_golden("ipv6", tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    spoil(victim(store, which), outside)
    return config_of(manifest, store), outside


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}


@pytest.mark.parametrize(("which", "spoil", "found", "start"), some_daily(3, CASES))
def test_a_verification(
    which: str, spoil: Callable[[Path, Path], None], found: str, start: Start, tmp_path: Path
) -> None:
    config, outside = spoiled(which, spoil, tmp_path)
    before = contents(outside)
    tracemalloc.start()
    report = verification(config, tmp_path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kinds = " ".join(sorted({finding.kind for finding in report.findings.kept}))
    is_harmless = found.startswith("(") or not found
    assert (kinds, report.findings.is_sound) == (found.strip("()"), is_harmless)
    assert contents(outside) == before
    assert peak_bytes < MEMORY_BYTES_MAX


@pytest.mark.parametrize("name", ["commitlog", "consumequeue", "index", "config"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.touch])
def test_a_file_in_a_folders_place(
    name: str, make: Callable[[Path], object], tmp_path: Path
) -> None:
    directory, manifest = open_golden("filter_ext", tmp_path)
    shutil.rmtree(directory / name)
    make(directory / name)
    config = config_of(manifest, directory)
    with suppress(StoreError):
        report = verify(config, scratch=str(tmp_path))
        assert not report.findings.is_sound
    with suppress(StoreError):
        open_store(FileSystem(), config, start_guard=True).close(dispatch_behind_bytes=0)


@pytest.mark.parametrize(("which", "spoil", "found", "start"), CASES)
def test_a_start_of_the_broker(
    which: str, spoil: Callable[[Path, Path], None], found: str, start: Start, tmp_path: Path
) -> None:
    config, outside = spoiled(which, spoil, tmp_path)
    before = contents(outside)
    log = contents(Path(config.paths.commit_log_directories[0]))
    try:
        store = open_store(FileSystem(), config)
        takes = put(store, b"more")[0].status is PutStatus.PUT_OK if store.writable else False
        store.close(dispatch_behind_bytes=0)
    except StoreError as error:
        assert start is REFUSED and str(error)
    else:
        assert takes is (start is OPENS)
        assert (store.recovery.read_only is None) is takes
    if start is READ_ONLY:
        assert contents(Path(config.paths.commit_log_directories[0])) == log
    assert contents(outside) == before
