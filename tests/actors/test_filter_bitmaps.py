"""Filters reach dispatch while the broker runs: no message is without the bits of a filter that was
there before it."""

import asyncio
from pathlib import Path

import pytest

from tests.actors.client import Client, records
from tests.actors.deployments import running, small_plan, wait_until
from wakelog.actors.deploy.plan import Plan
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.filter.sql92 import compile_filter
from wakelog.protocol.bodies import ConsumerData, HeartbeatData, SubscriptionData
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import MessageRecord
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt, ExtensionUnit

pytestmark = pytest.mark.slow

TOPIC = "t"
UNIT_FILE_BYTES = 4096
QUEUE_FILE_BYTES = 6000  # of a small plan
SETTINGS = (
    "enablePropertyFilter=true",
    "enableConsumeQueueExt=true",
    "enableCalcFilterBitMap=true",
    f"mappedFileSizeConsumeQueueExt={UNIT_FILE_BYTES}",
)
GROUPS_COUNT = 20
BLOOM = BloomFilter(error_percent=20, names_count=32)


async def subscribe(client: Client, group: str, expression: str, version: int = 1) -> None:
    wanted = SubscriptionData(
        topic=TOPIC, sub_string=expression, sub_version=version, expression_type="SQL92"
    )
    data = ConsumerData(group, subscription_data_set=[wanted])
    beat = HeartbeatData("c1", [], [data])
    answer = await client.call(RequestCode.HEART_BEAT, {}, encode_body(beat))
    assert answer.code == ResponseCode.SUCCESS


async def pull(client: Client, group: str, queue_offset: int, hold_ms: int = 0) -> list[bytes]:
    fields = {
        "consumerGroup": group,
        "topic": TOPIC,
        "queueId": 0,
        "queueOffset": queue_offset,
        "maxMsgNums": 32,
        "sysFlag": 0x2 if hold_ms else 0,
        "commitOffset": 0,
        "suspendTimeoutMillis": hold_ms,
        "subVersion": 1,
    }
    answer = await client.call(RequestCode.PULL_MESSAGE, fields)
    return [record.body for record in records(answer)]


def units_of(store: Path, count: int) -> list[ExtensionUnit]:
    fs, paths = FileSystem(), StorePaths(str(store))
    queue = ConsumeQueue(
        fs, paths.consume_queue(TOPIC, 0), file_bytes=QUEUE_FILE_BYTES, open_files=OpenFiles()
    )
    units = ConsumeQueueExt(
        fs,
        paths.consume_queue_extension(TOPIC, 0),
        file_bytes=UNIT_FILE_BYTES,
        open_files=OpenFiles(),
    )
    found = []
    for i in range(count):
        entry = queue.entry(i)
        assert entry is not None
        unit = units.unit(entry.tags_code)
        assert unit is not None
        found.append(unit)
    queue.close()
    units.close()
    return found


def plan_of(store: Path) -> Plan:
    return small_plan(store, *SETTINGS, segment_bytes=1 << 20)


def test_no_message_is_without_the_bits_of_a_filter_before_it(tmp_path: Path) -> None:
    sent: list[MessageRecord] = []

    async def body() -> None:
        async with running(plan_of(tmp_path)) as (_, client):
            for i in range(GROUPS_COUNT):
                # Behind one another on one connection, without waiting for the answers.
                await asyncio.gather(
                    client.send(TOPIC, b"x", properties=f"a\x01{i}"),
                    subscribe(client, f"g{i}", f"a >= {i}"),
                    *(client.send(TOPIC, b"x", properties=f"a\x01{i + k}") for k in range(3)),
                )
            count = GROUPS_COUNT * 4

            async def all_sent() -> list[MessageRecord]:
                found: list[MessageRecord] = []
                while len(found) < count:
                    answer = await client.pull(TOPIC, len(found))
                    if answer.code != ResponseCode.SUCCESS:
                        return []
                    found += records(answer)
                return found

            sent.extend(await wait_until(all_sent, "all messages"))

    asyncio.run(body())
    kept = (tmp_path / "config" / "consumerFilter.json").read_text()
    filters = ConsumerFilters(BLOOM, 0, dead_ms_max=1 << 60)
    filters.load(kept)
    assert len(filters) == GROUPS_COUNT
    compared = 0
    for record, unit in zip(sent, units_of(tmp_path, len(sent)), strict=True):
        assert unit.store_timestamp_ms == record.store_timestamp_ms
        properties = decode_properties(record.properties_text)
        for one in filters.all():
            if unit.store_timestamp_ms <= one.born_ms:
                continue
            assert len(unit.bitmap) == BLOOM.bit_count // 8
            if compile_filter(one.compiled.text).matches(properties):
                assert BLOOM.may_hold(unit.bitmap, one.positions)
                compared += 1
    assert compared > GROUPS_COUNT
    assert not (tmp_path / "wakelog.filters").exists()


def test_each_group_gets_what_its_expression_wants(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(plan_of(tmp_path)) as (_, client):
            await client.send(TOPIC, b"before", properties="a\x017")
            await subscribe(client, "low", "a < 3")
            await subscribe(client, "high", "a >= 3")
            for a in range(6):
                await client.send(TOPIC, b"%d" % a, properties=f"a\x01{a}")

            async def whole(group: str, expected: list[bytes]) -> bool:
                return await pull(client, group, 0) == expected

            await wait_until(lambda: whole("low", [b"0", b"1", b"2"]), "low")
            await wait_until(lambda: whole("high", [b"before", b"3", b"4", b"5"]), "high")
            held = asyncio.ensure_future(pull(client, "high", 7, hold_ms=15_000))
            await client.send(TOPIC, b"not", properties="a\x011")
            await client.send(TOPIC, b"last", properties="a\x019")
            assert await held == [b"last"]

    asyncio.run(body())
