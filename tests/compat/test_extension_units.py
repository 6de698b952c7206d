"""Extension units with bitmaps: what the real broker writes, ours reads and goes by, and back."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compat.clusters import Cluster, Starter, local_cluster, real_cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.compat.frames import RawConnection
from tests.compat.store_reading import AGELESS
from tests.filter.bits import bitmap_of
from tests.golden_stores import open_golden
from wakelog.audit.rebuild import Rebuild, run_rebuild
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.filter_table import stored_filters
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ADDRESS_BASE, ConsumeQueueExt
from wakelog.storage.settings_text import read_settings

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300)]

SIZES = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "mappedFileSizeConsumeQueueExt": "1024",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
}
SETTINGS = {
    **SIZES,
    **AGELESS,
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
}
TOPIC = "Bits"
GROUP = "bits_group"
EXPRESSION = "a > 5"
COUNT = 40
BLOOM = BloomFilter(error_percent=20, names_count=32)
POSITIONS = BLOOM.positions(f"{GROUP}#{TOPIC}")
PLACE: dict[str, Any] = {"topic": TOPIC, "queueId": 0}

OWNERS: dict[str, Starter] = {
    "wakelog": local_cluster,
    "real": partial(real_cluster, in_order=True),
}


class Unit(NamedTuple):
    """A unit of the queue, and where it lies in the extension."""

    offset: int
    tags_code: int
    store_timestamp_ms: int
    bitmap: bytes


def units_of(store: Path, topic: str = TOPIC, queue_id: int = 0) -> list[Unit]:
    """Return the units of a queue's entries, in order."""
    fs, paths = FileSystem(), StorePaths(str(store))
    queue = ConsumeQueue(
        fs, paths.consume_queue(topic, queue_id), file_bytes=1000, open_files=OpenFiles(2)
    )
    extension = ConsumeQueueExt(
        fs,
        paths.consume_queue_extension(topic, queue_id),
        file_bytes=1024,
        open_files=OpenFiles(2),
    )
    found = []
    for i in range(queue.end_of_written()):
        entry = queue.entry(i)
        assert entry is not None
        unit = extension.unit(entry.tags_code)
        assert unit is not None
        found.append(Unit(entry.tags_code - ADDRESS_BASE, *unit[1:]))
    queue.close()
    extension.close()
    return found


def hide(store: Path, unit: Unit) -> None:
    """Take every bit out of a unit's bitmap."""
    start = unit.offset - unit.offset % 1024
    path = store / "consumequeue_ext" / TOPIC / "0" / f"{start:020d}"
    data = bytearray(path.read_bytes())
    begin = unit.offset - start + 20
    data[begin : begin + len(unit.bitmap)] = bytes(len(unit.bitmap))
    path.write_bytes(data)


@contextmanager
def owned(start: Starter, folder: Path, store: Path) -> Iterator[tuple[Cluster, JavaDriver]]:
    cluster: AbstractContextManager[Cluster] = start(folder, store=store, settings=SETTINGS)
    with cluster as running, JavaDriver(running.name_server) as driver:
        yield running, driver


def send(driver: JavaDriver, cluster: Cluster, begin: int, end: int) -> None:
    """Send messages whose property a is their number, modulo 10."""
    queue = {"broker": cluster.broker_name, "queueId": 0}
    made = [
        message(TOPIC, b"%d" % i, properties={"a": str(i % 10)}, tags="t", **queue)
        for i in range(begin, end)
    ]
    driver("send", group="g", messages=made)
    wait_until(lambda: driver("maxOffset", **PLACE | queue) == end, what="dispatched")


def subscribe(driver: JavaDriver, name: str) -> None:
    driver("consume", name=name, group=GROUP, topics=[TOPIC], sql=EXPRESSION)
    wait_until(lambda: len(driver("assigned", name=name).get(TOPIC, [])) == 1, what="assigned")


def wanted(begin: int, end: int) -> list[bytes]:
    return [b"%d" % i for i in range(begin, end) if i % 10 > 5]


@pytest.mark.parametrize(
    ("first", "second"),
    [("real", "wakelog"), ("wakelog", "real")],
)
def test_a_broker_goes_by_the_bits_that_another_has_written(
    tmp_path: Path, first: str, second: str
) -> None:
    store = tmp_path / "store"
    with owned(OWNERS[first], tmp_path / "1", store) as (cluster, driver):
        driver("createTopic", address=cluster.broker, topic=TOPIC, queues=1)
        send(driver, cluster, 0, 1)
        subscribe(driver, "before")
        driver("stopConsuming", name="before")
        send(driver, cluster, 1, COUNT)
    units = units_of(store)
    assert len(units) == COUNT and {unit.tags_code for unit in units} == {ord("t")}
    assert units[0].bitmap == b""
    for i, unit in enumerate(units[1:], 1):
        assert BLOOM.may_hold(unit.bitmap, POSITIONS) is (i % 10 > 5)
        assert unit.bitmap in (bitmap_of([]), bitmap_of([POSITIONS]))
    hidden = units[17]
    hide(store, hidden)
    with owned(OWNERS[second], tmp_path / "2", store) as (cluster, driver):
        subscribe(driver, "after")
        send(driver, cluster, COUNT, 2 * COUNT)
        expected = [body for body in wanted(0, 2 * COUNT) if body != b"17"]
        got = driver("consumed", name="after", count=len(expected), timeoutMs=60_000)
        assert sorted(bodies(got)) == sorted(expected)
        check_shown(cluster)
        driver("stopConsuming", name="after")
    after = units_of(store)
    assert after[:COUNT] == [
        unit._replace(bitmap=bytes(14)) if unit == hidden else unit for unit in units
    ]
    for i, unit in enumerate(after[COUNT:], COUNT):
        assert BLOOM.may_hold(unit.bitmap, POSITIONS) is (i % 10 > 5)
    assert [unit.offset for unit in after] == sorted({unit.offset for unit in after})


def check_shown(cluster: Cluster) -> None:
    """Check what code 321 shows of the group's filter and of the first entries."""
    fields = {**PLACE, "index": 0, "count": COUNT, "consumerGroup": GROUP}
    with RawConnection(cluster.broker) as connection:
        shown = json.loads(connection.ask(321, fields).body)
    passing = [i == 0 or (i % 10 > 5 and i != 17) for i in range(COUNT)]
    assert [entry["eval"] for entry in shown["queueData"]] == passing
    kept = json.loads(shown["filterData"])
    assert kept.pop("bornTime") > kept.pop("deadTime") == 0
    assert kept.pop("clientVersion") == shown["subscriptionData"]["subVersion"]
    assert kept == {
        "bloomFilterData": {"bitNum": POSITIONS.bit_count, "bitPos": list(POSITIONS.bits)},
        "consumerGroup": GROUP,
        "dead": False,
        "expression": EXPRESSION,
        "expressionType": "SQL92",
        "topic": TOPIC,
    }


def tree(store: Path, folder: str) -> dict[str, bytes]:
    root = store / folder
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.golden
def test_units_of_a_copied_log_are_the_real_brokers(tmp_path: Path) -> None:
    golden, _ = open_golden("filter_ext", tmp_path)
    store = tmp_path / "copied"
    for name in ("commitlog", "config"):
        store.mkdir(exist_ok=True)
        (golden / name).rename(store / name)
    config = read_settings(StoreConfig, {**SETTINGS, "storePathRootDir": str(store)})
    table = stored_filters((store / "config" / "consumerFilter.json").read_text())
    assert table is not None and len(table) == 3
    target = str(tmp_path / "ours")
    run_rebuild(Rebuild(FileSystem(), config, target, filters=table))
    with owned(OWNERS["real"], tmp_path / "real", store) as (cluster, driver):
        end = {"topic": "FilterTopic", "queueId": 3, "broker": cluster.broker_name}
        wait_until(lambda: driver("maxOffset", **end) == 90, what="dispatched")
    text = json.loads((store / "config" / "consumerFilter.json").read_text())
    assert len(text["filterDataByTopic"]["FilterTopic"]["groupFilterData"]) == 3
    for folder in ("consumequeue", "consumequeue_ext"):
        theirs = tree(store, folder)
        ours = tree(tmp_path / "ours", folder)
        for name in list(theirs):
            if not name.startswith(("FilterTopic/", "PlainTopic/")):
                del theirs[name]
        assert ours == theirs and len(ours) >= 10
