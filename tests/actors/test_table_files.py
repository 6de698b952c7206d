"""Tables are saved one at a time, as they are then, and all of them at the end."""

import asyncio
import errno
from collections.abc import Callable
from itertools import pairwise

import pytest
import uvloop

from tests.actors.bounded import on_loop
from tests.broker.harness import Harness, sql_subscription
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.actors import table_files
from wakelog.actors.table_files import SAVED_AT_ONCE_MAX, TableFiles, WaitDurable
from wakelog.broker.broker import POSITIONS
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import NotWriteable, StoreFull
from wakelog.storage.paths import StorePaths
from wakelog.telemetry.logs import Log


def make_tables(
    fs: MemoryFileSystem, harness: Harness, wait_durable: WaitDurable | None = None
) -> TableFiles:
    fs.make_directories("/store")
    files = ConfigFiles(fs, StorePaths("/store").config)
    return TableFiles(harness.broker, files, Log.BROKER, "test", wait_durable)


@on_loop
async def test_saves_that_are_asked_for_together_are_one() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    saved: list[BaseException | None] = []
    for _ in range(2):
        for _ in range(10):
            tables.save_soon("topics", saved.append)
        await asyncio.sleep(0)
    await tables.wait_saved()
    assert saved == [None] * 20
    tables.close()
    assert tables.saved_count == 2
    assert fs.exists("/store/config/topics.json")


def test_everything_is_saved_at_the_end_and_loaded_at_the_start() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    make_tables(fs, harness).save_all()
    names = {f"{name}.json" for name in harness.broker.tables}
    assert names <= set(fs.list_directory("/store/config"))
    make_tables(fs, Harness()).load_all({})


def test_a_file_has_the_name_it_is_kept_under() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    kept = {"consumerFilter.json": "consumerFilterKept.json"}
    tables = make_tables(fs, harness)
    tables.load_all(kept)
    harness.beat("g", sql_subscription("a > 1"))
    tables.save_all()
    names = fs.list_directory("/store/config")
    assert "consumerFilterKept.json" in names and "consumerFilter.json" not in names
    again = Harness()
    make_tables(fs, again).load_all(kept)
    assert len(again.broker.state.filters) == 1


def test_a_table_that_cannot_be_saved_does_not_keep_the_others_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    fs.fail("rename", number=errno.EIO)
    tables.save_all()
    saved = [name for name in fs.list_directory("/store/config") if name.endswith(".json")]
    assert len(saved) == len(harness.broker.tables) - 1
    assert tables.failed_count == 1 and "table not saved" in caplog.text


@on_loop
async def test_positions_are_saved_once_what_they_count_is_durable() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    asked: list[str] = []
    durable = asyncio.Event()

    async def wait_durable(table: str) -> None:
        asked.append(table)
        await durable.wait()

    tables = make_tables(fs, harness, wait_durable)
    harness.broker.state.offsets.commit("g", "T", 0, 7)
    tables.save_soon("consumerOffset")
    while not asked:
        await asyncio.sleep(0)
    harness.broker.state.offsets.commit("g", "T", 0, 8)  # of what may not be durable then
    assert tables.saved_count == 0
    durable.set()
    await tables.wait_saved()
    assert asked == ["consumerOffset"] and tables.saved_count == 1
    loaded = Harness()
    make_tables(fs, loaded).load_all({})
    assert loaded.broker.state.offsets.query("g", "T", 0) == 7
    tables.close()


@on_loop
async def test_positions_that_count_what_never_will_be_durable_are_not_saved() -> None:
    fs, harness = MemoryFileSystem(), Harness()

    async def wait_durable(_table: str) -> None:
        raise NotWriteable("EIO")

    tables = make_tables(fs, harness, wait_durable)
    tables.save_soon("delayOffset")
    await tables.wait_saved()
    tables.save_all(except_for=POSITIONS)
    assert tables.failed_count == 1
    assert not fs.exists("/store/config/delayOffset.json")
    assert not fs.exists("/store/config/consumerOffset.json")
    assert fs.exists("/store/config/topics.json")


@on_loop
async def test_thousands_that_wait_for_one_save_are_answered_in_pieces() -> None:
    """60,000 values that were put at once held up a name server for 60 ms."""
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    saved: list[BaseException | None] = []
    for _ in range(10 * SAVED_AT_ONCE_MAX):
        tables.save_soon("topics", saved.append)
    counts = [0]
    while counts[-1] < 10 * SAVED_AT_ONCE_MAX:
        await asyncio.sleep(0)
        counts.append(len(saved))
    assert max(after - before for before, after in pairwise(counts)) == SAVED_AT_ONCE_MAX
    await tables.wait_saved()
    tables.close()


class Change:
    """A change that waits for its save, and a note of what became of it."""

    def __init__(self, tables: TableFiles, harness: Harness, name: str = "topics") -> None:
        self.failures: list[BaseException | None] = []
        self.undone = 0
        tables.save_soon(name, self.failures.append, undo=self.undo)

    def undo(self) -> None:
        assert not self.failures, "undone before it is answered"
        self.undone += 1


@on_loop
async def test_what_cannot_be_saved_is_undone_with_all_that_came_meanwhile() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    fs.fail("pwrite", number=errno.ENOSPC)
    first = Change(tables, harness)
    await asyncio.sleep(0)
    meanwhile = Change(tables, harness)
    await tables.wait_saved()
    for change in (first, meanwhile):
        [failure] = change.failures
        assert isinstance(failure, StoreFull) and change.undone == 1
    assert tables.failed_count == 1
    assert [name for name in fs.list_directory("/store/config") if "topics" in name] == [
        "topics.json"  # of the save that the second had asked for
    ]
    tables.close()


@on_loop
async def test_a_table_that_could_not_be_saved_is_saved_later_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(table_files, "RETRY_SECONDS", 0.001)
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    for nth in (1, 2, 3):
        fs.fail("pwrite", nth=nth, number=errno.ENOSPC)
    tables.save_soon("topics")  # by a topic that a send has created
    reasons = set()
    while not tables.saved_count:
        reasons |= {one.reason for one in tables.troubles.values()}
        await asyncio.sleep(0.001)
    full = "save of /store/config/topics.json failed: No space left on device"
    assert reasons == {full} and not tables.troubles
    assert tables.failed_count == 3 and fs.exists("/store/config/topics.json")
    assert caplog.text.count("table not saved") == 1
    tables.close()


@on_loop
async def test_a_long_table_rests_for_as_long_as_its_text_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    save = TableFiles._save

    def slow_save(self: TableFiles, name: str, encode: Callable[[], str]) -> float:
        save(self, name, encode)
        return 3600.0

    monkeypatch.setattr(TableFiles, "_save", slow_save)
    tables.save_soon("topics")
    while not tables.saved_count:
        await asyncio.sleep(0)
    again = Change(tables, harness)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not again.failures and tables.saved_count == 1
    await tables.wait_saved()  # an orderly stop does not wait for it
    assert again.failures == [None] and tables.saved_count == 2
    tables.close()


def test_a_table_whose_rest_is_nearly_over_is_saved_on_uvloop() -> None:
    """uvloop makes no timer of less than half a millisecond."""

    async def save_twice() -> None:
        fs, harness = MemoryFileSystem(), Harness()
        tables = make_tables(fs, harness)
        tables.save_soon("topics")
        await tables.wait_saved()
        for _ in range(2):
            tables._request_in(0.0001, "topics")
        again = Change(tables, harness)
        await tables.wait_saved()
        assert again.failures == [None]
        tables.close()

    uvloop.run(save_twice())


@on_loop
async def test_two_thousand_changes_beside_each_other_are_few_saves() -> None:
    fs, harness = MemoryFileSystem(), Harness()
    tables = make_tables(fs, harness)
    changes = []
    for number in range(2_000):
        changes.append(Change(tables, harness))
        if not number % 100:
            await asyncio.sleep(0)
    await tables.wait_saved()
    assert {tuple(change.failures) for change in changes} == {(None,)}
    assert tables.saved_count < 60
    tables.close()
