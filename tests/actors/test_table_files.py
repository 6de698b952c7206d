"""Tables are saved one at a time, as they are then, and all of them at the end."""

import asyncio
import errno

import pytest

from tests.actors.bounded import on_loop
from tests.broker.harness import Harness, sql_subscription
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.actors.table_files import TableFiles
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.paths import StorePaths
from wakelog.telemetry.logs import Log


def make_tables(fs: MemoryFileSystem) -> TableFiles:
    fs.make_directories("/store")
    return TableFiles(ConfigFiles(fs, StorePaths("/store").config), Log.BROKER, "test")


@on_loop
async def test_saves_that_are_asked_for_together_are_one() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs)
    saved: list[BaseException | None] = []
    for _ in range(2):
        for _ in range(10):
            tables.save_soon(harness.broker, "topics", saved.append)
        await asyncio.sleep(0)
    await tables.wait_saved()
    assert saved == [None] * 20
    tables.close()
    assert tables.saved_count == 2
    assert fs.exists("/store/config/topics.json")


def test_everything_is_saved_at_the_end_and_loaded_at_the_start() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    make_tables(fs).save_all(harness.broker)
    names = {f"{name}.json" for name in harness.broker.tables}
    assert names <= set(fs.list_directory("/store/config"))
    make_tables(fs).load_all(Harness().broker, {})


def test_a_file_has_the_name_it_is_kept_under() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    kept = {"consumerFilter.json": "consumerFilterKept.json"}
    tables = make_tables(fs)
    tables.load_all(harness.broker, kept)
    harness.beat("g", sql_subscription("a > 1"))
    tables.save_all(harness.broker)
    names = fs.list_directory("/store/config")
    assert "consumerFilterKept.json" in names and "consumerFilter.json" not in names
    again = Harness()
    make_tables(fs).load_all(again.broker, kept)
    assert len(again.broker.state.filters) == 1


def test_a_table_that_cannot_be_saved_does_not_keep_the_others_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs)
    fs.fail("rename", number=errno.EIO)
    tables.save_all(harness.broker)
    saved = [name for name in fs.list_directory("/store/config") if name.endswith(".json")]
    assert len(saved) == len(harness.broker.tables) - 1
    assert tables.failed_count == 1 and "table not saved" in caplog.text
