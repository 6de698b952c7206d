"""Each small file of a store in turn is something else: a start and every reader survive.

The store is one of wakelog's own, with every file that it keeps. Nothing may come of it but a
result or an error of the store; a pipe is not waited for, and no text's nesting or length ends a
process.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from tests.fakes.stores import NOW_MS, open_store, put, store_config
from tests.kinds import some_daily
from wakelog.dispatchers.cursor_file import CursorFile
from wakelog.protocol.fastjson import loads
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.deleted_topics import DeletedTopics
from wakelog.storage.durability.dispatched import DispatchedFile, IndexEnd
from wakelog.storage.durability.store_identity import claim_identity
from wakelog.storage.durability.sum_keeper import SumWriter, compare_sums
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.retention.leases import LeaseBook

SEGMENT = f"{0:020d}"
FILES = (
    "checkpoint",
    "lock",
    "config/topics.json",
    "config/topics.json.bak",
    f"wakelog.crc/{SEGMENT}",
    "wakelog.cursor.mine",
    "wakelog.deleted",
    "wakelog.dispatched",
    "wakelog.leases",
    "wakelog.store",
    "wakelog.watermark",
)
_GREATEST = ((1 << 63) - 1).to_bytes(8, "big")


def _written(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _doubled(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _filled(byte: bytes) -> Callable[[Path], None]:
    def fill(path: Path) -> None:
        path.write_bytes(byte * max(path.stat().st_size, 16))

    return fill


def _counted_out(path: Path) -> None:
    """Give a file of slots the greatest sequence that there is, with a right sum."""
    data = bytearray(path.read_bytes())
    summed_bytes = {"wakelog.watermark": 64, "wakelog.dispatched": 32}.get(path.name, 24)
    data[8:16] = _GREATEST
    data[summed_bytes : summed_bytes + 4] = crc32(data[:summed_bytes]).to_bytes(4, "big")
    path.write_bytes(data)


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILS: dict[str, Callable[[Path], object]] = {
    "empty": _written(b""),
    "one byte": _written(b"\1"),
    "twice": _doubled,
    "ones": _filled(b"\xff"),
    "zeros": _filled(b"\0"),
    "broken": _written(b'{"storeId": "x", "leases'),
    "no text": _written(b'{"storeId": "\xff"}'),
    "other types": _written(b'{"storeId":[1],"brokerName":{},"version":"1","leases":7}'),
    "a list": _written(b"[]"),
    "deep": _written(b'{"storeId":' * 50_000),
    "a long number": _written(b'{"version":%s}' % (b"9" * 5_000)),
    "counted out": _counted_out,
    "pipe": _piped,
    "folder": _folder,
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that was run and stopped in order, with every file."""
    root = tmp_path_factory.mktemp("sound") / "store"
    config = store_config(store_path_root=str(root))
    run(config)
    run(config)
    assert all((root / name).is_file() for name in FILES)
    return root


def run(config: StoreConfig) -> None:
    """Do what the processes of a broker do with the small files. Raises: StoreError, OSError."""
    fs = FileSystem()
    store = open_store(fs, config)
    try:
        claim_identity(fs, config.paths.store_identity, broker_name="b", new_store_id="id")
        tables = ConfigFiles(fs, config.paths.config)
        tables.load("topics.json", loads)
        tables.save("topics.json", '{"a": 1}')
        put(store, b"x" * 500)
        book = LeaseBook(fs, config.paths, NOW_MS)
        book.grant(f"id{book.statistics().held_count}", "me", begin=0, end=9, now_ms=NOW_MS)
        DeletedTopics(fs, config.paths).note(("Gone",), 10)
        dispatched = DispatchedFile(fs, config.paths.dispatched)
        dispatched.note(20, IndexEnd())
        dispatched.close()
        cursor = CursorFile(fs, config.paths.root, "mine")
        cursor.read()
        cursor.write(5)
        writer = SumWriter(fs, config)
        writer.step(1024, 1 << 20)
        writer.close()
        list(compare_sums(fs, config))
    finally:
        store.close(dispatch_behind_bytes=0)


@pytest.mark.parametrize(
    ("spoil", "name"), some_daily(3, [(spoil, name) for spoil in SPOILS for name in FILES])
)
def test_a_file_that_is_something_else(name: str, spoil: str, sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    SPOILS[spoil](root / name)
    config = store_config(store_path_root=str(root))
    try:
        run(config)
    except (StoreError, OSError) as error:
        assert str(error)
        return
    # Whoever comes next has nothing to say any more.
    run(config)
