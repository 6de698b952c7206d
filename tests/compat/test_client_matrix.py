"""The Python client beside Java's, feature by feature, at 4.9.3's broker and at ours.

Each row runs once for each cluster in `./dev long`, and at one of them in turn every day.
`docs/compatibility.md` lists the rows, and what other tests have of the same client.
"""

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from scripts.client_matrix import FEATURES
from tests.compat.admin_play import by_mqadmin, wakelog_admin
from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, bodies, message
from tests.compat.mixed_group import (
    POLL_SECONDS,
    SETTLE_MS_MAX,
    SETTLE_SECONDS_MAX,
    Scene,
    numbers_of,
    take,
)
from wakelog.client import ConsumerMessage, Message, NotAcknowledged, Sql
from wakelog.client.admin import open_admin
from wakelog.client.options import ClientOptions
from wakelog.client.trace_notes import SUB_BEFORE, read_notes
from wakelog.protocol.names import TRACE_TOPIC

NO_MESSAGE = 208
ILLEGAL = 13
HELD_MAX = 1_000
"""Messages of a queue that may wait for `ack`; what was asked for before comes on top."""
PULLED_MAX = 1_000
DELAY_SECONDS_MIN = 0.9
"""Level 1 is a second, by the broker's clock."""
Row = Callable[[Scene], Awaitable[None]]
ROWS: dict[str, Row] = {}


def row(function: Row) -> Row:
    """Add a function to the matrix under its name."""
    ROWS[function.__name__] = function
    return function


# What Java sends, Python and Java consume in one group


@row
async def java_sends_in_every_way(scene: Scene) -> None:
    async with scene.consumer() as consumer:
        await scene.java_consumes()
        await scene.shared_out(consumer)
        topic, ways = scene.topic, {}
        for way in ("send", "sendAsync", "sendBatch", "sendOneway", "sendOrdered"):
            ways[way] = [b"%s %d" % (way.encode(), n) for n in range(8)]
            sent = [message(topic, body, orderKey=n) for n, body in enumerate(ways[way])]
            await scene.java(way, group="g", messages=sent)
        began = time.monotonic()
        await scene.java("send", group="g", messages=[message(topic, b"later", delayLevel=1)])
        ended = {"local": "COMMIT_MESSAGE"}, {"local": "ROLLBACK_MESSAGE"}
        halves = [message(topic, str(p["local"]).encode(), properties=p) for p in ended]
        await scene.java("sendInTransaction", group=f"tx_{topic}", messages=halves)
        expected = sorted([*chain(*ways.values()), b"later", b"COMMIT_MESSAGE"])
        mine: list[bytes] = []
        theirs: list[bytes] = []
        took_seconds = 0.0
        while len(mine) + len(theirs) < len(expected):
            mine += [each.body for each in await acknowledge_some(consumer)]
            theirs = await scene.java_got(0)
            if not took_seconds and b"later" in mine + theirs:
                took_seconds = time.monotonic() - began
        assert took_seconds >= DELAY_SECONDS_MIN
        assert sorted(mine + theirs) == expected
        assert mine and theirs
        await scene.java_leaves()


async def acknowledge_some(consumer: Any) -> list[Any]:
    found = list(await consumer.fetch(100, POLL_SECONDS))
    await consumer.ack(*found)
    return found


# What Python sends, both consume in one group


@row
async def python_sends_in_every_way(scene: Scene) -> None:
    async with scene.consumer() as consumer:
        await scene.java_consumes()
        await scene.shared_out(consumer)
        topic = scene.topic
        async with scene.producer() as producer:
            await producer.send(topic, b"one")
            await producer.send_many(Message(topic, b"many %d" % n) for n in range(40))
            await asyncio.gather(*[producer.send(topic, b"once %d" % n) for n in range(40)])
            await producer.send_oneway(Message(topic, b"one way"))
            await producer.send(topic, b"keyed", sharding_key="k")
            await producer.send(topic, b"x" * 10_000)
            await producer.send(topic, b"later", delay=timedelta(milliseconds=500))
            async with producer.transaction(topic, b"committed"):
                pass
        count = 86
        mine: list[bytes] = []
        theirs: list[bytes] = []
        while len(mine) + len(theirs) < count:
            mine += [each.body for each in await acknowledge_some(consumer)]
            theirs = await scene.java_got(0)
        assert len(set(mine + theirs)) == count
        assert mine and theirs
        await scene.java_leaves()


# Groups


@row
async def circle(scene: Scene) -> None:
    await both_allocate(scene, "AVG_BY_CIRCLE")


@row
async def consistent_hash(scene: Scene) -> None:
    await both_allocate(scene, "CONSISTENT_HASH")


async def both_allocate(scene: Scene, strategy: str) -> None:
    """Let both members share the queues by a strategy, and give all to the one that stays."""
    async with scene.consumer(allocation=strategy) as consumer:
        await scene.java_consumes(allocation=strategy)
        await scene.java("consume", name="third", group=scene.group, topics=[scene.topic],
                         allocation=strategy)  # fmt: skip
        has: list[list[int]] = []
        while sorted(chain(*has)) != [0, 1, 2, 3] or len(await members(scene)) != 3:
            await asyncio.sleep(POLL_SECONDS)
            third = (await scene.java("assigned", name="third")).get(scene.topic, [])
            mine = [queue.queue_id for queue in consumer.assignment]
            has = [mine, await scene.java_has(), third]
        await scene.java("stopConsuming", name="third")
        await scene.java_leaves()
        while len(consumer.assignment) != 4:
            await asyncio.sleep(POLL_SECONDS)


async def members(scene: Scene) -> list[Any]:
    found = await asyncio.to_thread(scene.driver.once_there, 206, "consumers", group=scene.group)
    return list(found["connectionSet"])


@row
async def order_in_a_mixed_group(scene: Scene) -> None:
    """Java's member leaves in the middle; each queue goes on in order with Python's."""
    async with scene.consumer(ordered=True) as consumer:
        await scene.java_consumes(orderly=True)
        await scene.shared_out(consumer)
        numbered = [message(scene.topic, b"%d" % n, orderKey=n % 4) for n in range(80)]
        await scene.java("sendOrdered", group="g", messages=numbered)
        mine = [int(each.body) for each in await take(consumer, 40)]
        theirs = [int(each) for each in await scene.java_got(40)]
        await scene.java_leaves()
        for key in range(4):
            (part,) = [
                p for p in ([n for n in all_ if n % 4 == key] for all_ in (mine, theirs)) if p
            ]
            assert part == list(range(key, 80, 4))
        more = [message(scene.topic, b"%d" % n, orderKey=n % 4) for n in range(80, 120)]
        await scene.java("sendOrdered", group="g", messages=more)
        rest = [int(each.body) for each in await take(consumer, 40)]
        repeated = [n for n in rest if n < 80]  # Java's listener had it; its offset was not counted
        rest += [int(each.body) for each in await take(consumer, len(repeated))]
        assert set(repeated) <= set(theirs) & set(range(76, 80)), repeated  # each queue's last
        for key in range(4):
            expected = list(range(80 + key, 120, 4))
            assert [n for n in rest if n % 4 == key and n >= 80] == expected


@row
async def acks_out_of_order(scene: Scene) -> None:
    """The group's offset stays at the first message without an ack: Java begins there."""
    place = {"broker": scene.cluster.broker_name, "queueId": 0}
    numbered = [message(scene.topic, b"%d" % n, **place) for n in range(10)]
    await scene.java("send", group="g", messages=numbered)
    async with scene.consumer() as consumer:
        found = await take(consumer, 10, is_acknowledged=False)
        open_one = found.pop(4)
        assert open_one.queue_offset == 4
        for each in reversed(found):
            await each.ack()
    asked = {"address": scene.cluster.broker, "group": scene.group, "topic": scene.topic}
    assert await scene.java("consumeOffset", **asked, queueId=0) == 4
    await scene.java_consumes()
    assert sorted(await scene.java_got(6)) == [b"%d" % n for n in range(4, 10)]
    await scene.java_leaves()


@row
async def retries_in_a_mixed_group(scene: Scene) -> None:
    """What a Python member gives back, any member gets again, and counts."""
    await scene.java_sends([1])
    async with scene.consumer() as consumer:
        [first] = await take(consumer, 1, is_acknowledged=False)
        await first.nack(timedelta(seconds=1))
    await scene.java_consumes(failures=0)
    got = await scene.java("consumed", name=scene.topic, count=1, timeoutMs=SETTLE_MS_MAX)
    assert [(each["reconsumeTimes"], each["topic"]) for each in got] == [(1, scene.topic)]
    assert [each["msgId"] for each in got] == [first.message_id]
    await scene.java_leaves()


@row
async def a_dead_letter_of_java(scene: Scene) -> None:
    """Python reads what Java's member of the group has given up."""
    await scene.java_sends([7])
    await scene.java_consumes(failures=5, retriesMax=1)
    dead_topic = f"%DLQ%{scene.group}"
    assert len(await scene.java_got(2)) == 2
    async with scene.consumer(group=f"reads_{scene.topic}", topics=()) as consumer:
        await asyncio.to_thread(scene.driver.once_there, 17, "route", topic=dead_topic)
        await consumer.assign(await consumer.queues(dead_topic))
        [dead] = await take(consumer, 1)
        assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"7", scene.topic)
    await scene.java_leaves()


@row
async def dead_letters_by_command_line(scene: Scene) -> None:
    """`wakelog dlq` lists, shows, exports and resends what Java gave up, to its group alone."""
    await scene.java_sends([7, 8], properties={"colour": "red"})
    other = f"other_{scene.topic}"
    await scene.java("consume", name=other, group=other, topics=[scene.topic])
    assert len(await scene.java("consumed", name=other, count=2, timeoutMs=SETTLE_MS_MAX)) == 2
    await scene.java_consumes(failures=5, retriesMax=1)
    assert len(await scene.java_got(4)) == 4
    await asyncio.to_thread(scene.driver.once_there, 17, "route", topic=f"%DLQ%{scene.group}")
    while (letters := await of_command(scene, "dlq", "export", scene.group))[1:] == []:
        await asyncio.sleep(POLL_SECONDS)
    await scene.java_leaves()  # not sooner: it gives up again what it has no answer for
    assert sorted(each["body"] for each in letters) == ["7", "8"]
    assert {each["properties"]["colour"] for each in letters} == {"red"}
    listed = {each["group"]: each["deadLetters"] for each in await of_command(scene, "dlq", "ls")}
    assert listed[scene.group] == 2
    assert await of_command(scene, "dlq", "show", scene.group) == letters

    await scene.java_consumes()
    one = next(each for each in letters if each["body"] == "7")
    await of_command(scene, "dlq", "resend", scene.group, "--id", one["messageId"])
    [again] = await scene.java("consumed", name=scene.topic, count=1, timeoutMs=SETTLE_MS_MAX)
    assert (bodies([again]), again["topic"]) == ([b"7"], scene.topic)
    await of_command(scene, "dlq", "resend", scene.group, "--all")
    assert sorted(await scene.java_got(3)) == [b"7", b"7", b"8"]
    await scene.java_leaves()
    assert len(await scene.java("consumed", name=other, count=0, timeoutMs=0)) == 2
    await scene.java("stopConsuming", name=other)


async def of_command(scene: Scene, *words: str) -> list[dict[str, Any]]:
    """Return the objects that a command puts out."""
    command = [sys.executable, "-m", "wakelog", *words, "-n", scene.cluster.name_server]
    process = await asyncio.create_subprocess_exec(*command, "-o", "json", stdout=PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


# Filters


@row
async def filters_by_tags(scene: Scene) -> None:
    await both_filter(scene, {"expression": "A || C"}, "A || C")


@row
async def filters_by_sql(scene: Scene) -> None:
    await both_filter(scene, {"sql": "number <> 1"}, Sql("number <> 1"))


async def both_filter(scene: Scene, java: dict[str, str], python: str | Sql) -> None:
    """Let both members of a group have the same filter, and send each kind to every queue."""
    async with scene.consumer(topics={scene.topic: python}) as consumer:
        await scene.java_consumes(**java)
        await scene.shared_out(consumer)
        sent = [
            message(
                scene.topic,
                b"%d" % number,
                tags=tag,
                properties={"number": str(number)},
                broker=scene.cluster.broker_name,
                queueId=queue_id,
            )
            for number, tag in enumerate("ABC")
            for queue_id in range(4)
        ]
        await scene.java("send", group="g", messages=sent)
        mine = [each.body for each in await take(consumer, 4)]
        theirs = await scene.java_got(4)
        assert sorted([*mine, *theirs]) == [b"0"] * 4 + [b"2"] * 4
        await scene.java_leaves()


# Broadcasting


def make_broadcast(folder: Path) -> Row:
    async def broadcasting(scene: Scene) -> None:
        await scene.java_sends(range(8))
        await scene.java_consumes(broadcast=True)
        async with scene.consumer(broadcast=True, offset_folder=folder) as consumer:
            assert numbers_of(await take(consumer, 8)) == list(range(8))
        assert sorted(map(int, await scene.java_got(8))) == list(range(8))
        await scene.java_leaves()

    return broadcasting


# Manual assignment


@row
async def seeks_as_java_does(scene: Scene) -> None:
    place = {"broker": scene.cluster.broker_name, "queueId": 0}
    for number in range(5):
        await scene.java(
            "send", group="g", messages=[message(scene.topic, b"%d" % number, **place)]
        )
        await asyncio.sleep(0.01)  # so that they differ in time
    async with scene.consumer(topics=()) as consumer:
        queue = min(await consumer.queues(scene.topic))
        await consumer.assign([queue])
        await consumer.seek(queue, "first")
        found = await take(consumer, 5, is_acknowledged=False)
        for each in found:
            time_ms = each.record.store_timestamp_ms
            expected = await scene.java(
                "offsetByTime", topic=scene.topic, **place, timestamp=time_ms
            )
            await consumer.seek(queue, datetime.fromtimestamp(time_ms / 1000, UTC))
            assert consumer.position(queue) == expected == each.queue_offset
        await consumer.seek(queue, 3)
        assert numbers_of(await take(consumer, 2)) == [3, 4]
    # It has committed what it acknowledged, for its group.
    asked = {"address": scene.cluster.broker, "group": scene.group, "topic": scene.topic}
    assert await scene.java("consumeOffset", **asked, queueId=0) == 5


# Requests and traces


@row
async def both_reply_in_one_group(scene: Scene) -> None:
    await scene.java("answerRequests", group=scene.group, topic=scene.topic)

    async def reply(consumer: Any) -> None:
        async for each in consumer:
            await each.reply(each.body.upper())
            await each.ack()

    async with scene.consumer() as consumer, scene.producer() as producer:
        replying = asyncio.create_task(reply(consumer))
        while len(consumer.assignment) != 2:
            await asyncio.sleep(POLL_SECONDS)
        for number in range(8):  # to each queue
            timeout = timedelta(seconds=20)
            answer = await producer.request(scene.topic, f"a{number}", timeout=timeout)
            assert answer.body == b"A%d" % number
        replying.cancel()


@row
async def the_trace_of_a_python_consumer(scene: Scene) -> None:
    [sent] = await scene.java("send", group="g", messages=[message(scene.topic, b"traced")])
    async with scene.consumer(trace=True) as consumer:
        await take(consumer, 1)
    window = {"begin": 0, "end": int(time.time() * 1000) + 60_000, "countMax": 32}
    place = {"topic": TRACE_TOPIC, "key": sent["msgId"]}
    found = await asyncio.to_thread(
        scene.driver.once_there, NO_MESSAGE, "queryByKey", **place, **window
    )
    notes = [note for body in bodies(found) for note in read_notes(body.decode())]
    assert sent["msgId"] in {note.message_id for note in notes if note.kind != SUB_BEFORE}


@row
async def both_trace(scene: Scene) -> None:
    """mqadmin and `wakelog admin` show alike what both clients noted, whichever of them sent."""
    async with scene.producer(trace=True) as producer:
        python_sent = (await producer.send(scene.topic, b"by Python", keys="k1")).message_id
    [sent] = await scene.java(
        "send", group=f"traced_{scene.topic}", traced=True, messages=[message(scene.topic, b"J")]
    )
    await scene.java_consumes(traced=True)
    assert len(await scene.java_got(2)) == 2
    async with scene.consumer(group=f"python_{scene.group}", trace=True) as consumer:
        await take(consumer, 2)
    await scene.java_leaves()
    for message_id in (python_sent, sent["msgId"]):
        words = ["QueryMsgTraceById", "-i", message_id]
        wanted = {"Pub": 1, "Sub": 2}
        lines: list[str] = []
        end = time.monotonic() + SETTLE_SECONDS_MAX
        while kinds_of(lines) != wanted:
            assert time.monotonic() < end, lines
            await asyncio.sleep(POLL_SECONDS)
            lines = await asyncio.to_thread(by_mqadmin, scene.driver, words)
        assert not [line for line in lines if "failed" in line]
        ours = await asyncio.to_thread(wakelog_admin, words, scene.cluster)
        assert sorted(line.split() for line in ours if line) == sorted(
            line.split() for line in lines if line
        )


def kinds_of(lines: list[str]) -> dict[str, int]:
    """Return how many notes there are of a send and of a consumer, in what mqadmin prints."""
    firsts = [line.split()[0] for line in lines if line.strip()]
    return {kind: firsts.count(kind) for kind in ("Pub", "Sub") if kind in firsts}


# Limits, tables, errors


@row
async def a_slow_member_takes_no_more_than_its_limit(scene: Scene) -> None:
    """Python's member holds its share back; Java's goes on, and the rest comes after the acks."""
    count = 2_500
    async with scene.consumer() as consumer:
        await scene.java_consumes()
        mine, theirs = await scene.shared_out(consumer)
        async with scene.producer() as producer:
            for queue_id in range(4):
                queue = (scene.cluster.broker_name, queue_id)
                await producer.send_many(
                    Message(scene.topic, b"%d" % n, queue=queue) for n in range(count)
                )
        assert len(await scene.java_got(count * len(theirs))) == count * len(theirs)
        held: list[ConsumerMessage] = []
        while found := await consumer.fetch(10_000, 2.0):
            held += found
        assert HELD_MAX <= len(held) / len(mine) <= HELD_MAX + PULLED_MAX
        await consumer.ack(*held)
        await take(consumer, count * len(mine) - len(held))
        await scene.java_leaves()


@row
async def senders_wait_for_a_full_producer(scene: Scene) -> None:
    async with scene.producer(messages_max=10, bytes_max=50) as producer:
        sends = [producer.send(scene.topic, b"%d" % n) for n in range(1_000)]
        places = {(each.queue_id, each.queue_offset) for each in await asyncio.gather(*sends)}
        assert len(places) == 1_000
    await scene.java_consumes()
    assert sorted(map(int, await scene.java_got(1_000))) == list(range(1_000))
    await scene.java_leaves()


@row
async def a_table_of_what_java_sent(scene: Scene) -> None:
    place = {"broker": scene.cluster.broker_name, "queueId": 0}
    sent = [
        message(scene.topic, b"%d" % n, tags="t", keys=f"k{n}", properties={"n": str(n)}, **place)
        for n in range(50)
    ]
    ids = [each["msgId"] for each in await scene.java("send", group="g", messages=sent)]
    async with scene.consumer() as consumer:
        tables: list[Any] = []
        while sum(table.num_rows for table in tables) < 50:
            tables.append(await consumer.fetch_arrow(50, 1.0))
        found = [row for table in tables for row in table.to_pylist()]
        assert [row["body"] for row in found] == [b"%d" % n for n in range(50)]
        assert [row["queueOffset"] for row in found] == list(range(50))
        assert [row["msgId"] for row in found] == ids
        assert {row["tags"] for row in found} == {"t"}
        assert [dict(row["properties"])["n"] for row in found] == [str(n) for n in range(50)]
        for table in tables:
            await consumer.ack_arrow(table)
    asked = {"address": scene.cluster.broker, "group": scene.group, "topic": scene.topic}
    assert await scene.java("consumeOffset", **asked, queueId=0) == 50


@row
async def a_refusal_names_broker_and_reason(scene: Scene) -> None:
    """A record may have 4 MiB, so a body of 4 MiB is too much; what the broker said is kept."""
    async with scene.producer(retries_max=1) as producer:
        with pytest.raises(NotAcknowledged) as caught:
            await producer.send(scene.topic, os.urandom(4 << 20))
    error = caught.value
    assert (error.broker, error.code) == (scene.cluster.broker_name, ILLEGAL)
    assert error.remark and error.remedy and "MESSAGE_ILLEGAL" in error.cause


@row
async def the_admin_sees_what_java_did(scene: Scene) -> None:
    """Topics, groups, lag, messages by key: the same as of Java's client."""
    options = ClientOptions((scene.cluster.name_server,))
    await scene.java_sends(range(8), keys="key")
    await scene.java_consumes()
    await scene.java_got(8)
    async with open_admin(options) as admin:
        ends = (await admin.topic_stats(scene.topic)).offset_table
        assert sum(each.max_offset for each in ends.values()) == 8
        end, lags = time.monotonic() + SETTLE_SECONDS_MAX, [1]
        while any(lags):  # Java stores an offset when its listener is through
            assert time.monotonic() < end
            await scene.java("commit", name=scene.topic)
            stats = await admin.consume_stats(scene.group, scene.topic)
            lags = [one.broker_offset - one.consumer_offset for one in stats.offset_table.values()]
        assert len(lags) == 4
        [client] = (await admin.consumers(scene.group)).connection_set
        theirs = await scene.java("consumers", group=scene.group)
        assert client.client_id == theirs["connectionSet"][0]["clientId"]
    await scene.java_leaves()


# The runs


@pytest.fixture
def scene(request: pytest.FixtureRequest, cluster: Cluster, driver: JavaDriver) -> Scene:
    """Make a topic of four queues for one row."""
    name = f"matrix_{request.node.callspec.id.partition('-')[2] or request.node.originalname}"
    driver("createTopic", address=cluster.broker, topic=name, queues=4)
    return Scene(cluster, driver, name, f"group_{name}")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.daily("in turn")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ROWS)
def test_a_feature_works_beside_java(scene: Scene, name: str) -> None:
    scene.run(ROWS[name])


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.daily("in turn")
def test_a_broadcast_reaches_python_and_java(scene: Scene, tmp_path: Path) -> None:
    scene.run(make_broadcast(tmp_path))


def test_every_row_is_in_the_document() -> None:
    listed = {proof for feature in FEATURES for proof in feature.proofs}
    assert ROWS.keys() <= listed
    unknown = [name for name in listed if not name.startswith("test_") and name not in ROWS]
    assert not unknown
