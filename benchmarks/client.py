"""The Python client in one run: over TCP, by actor handle, and beside Ray's own queue.

    ./dev bench client [--rounds N] [--output DIR]

One broker of `wakelog up` with its defaults serves every row of wakelog. `ray.util.queue` is an
actor of the same Ray, which keeps what it gets in memory. The rows take turns, round by round, so
that noise of the machine meets all of them.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import wakelog
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import Wakelog
from wakelog.client import Consumer, Message, Producer

RESULTS = Path(__file__).parent / "results"
JSON_NAME = "client.json"
TABLE_NAME = "client.md"
ROUNDS_COUNT = 5
IN_FLIGHT = 256
BATCH_COUNT = 1_000
FETCH_SECONDS = 5.0
RUN_SECONDS_MAX = 120.0

BODY = os.urandom(BODY_BYTES // 2).hex().encode()
"""Text, as most messages are; it is below the size that the client compresses."""

TEXT = (
    f"`./dev bench client`: messages a second of {BODY_BYTES} bytes, asynchronous flush, one client"
    " in one process. Median of the rounds, with the least and the greatest. The queue of Ray keeps"
    " its messages in memory; the broker writes them to its log. Client CPU is the share of one"
    " processor that the client's process takes: near 1, its Python bounds the row; far below, it"
    " waits for calls or for the broker."
)


class Found(msgspec.Struct, frozen=True):
    """One row, a figure a round.

    client_cpu: the client process's CPU seconds for each second, warm-up and connecting included.
        Near 1, its Python bounds the row; far below, it waits for calls or for the broker.
    """

    row: str
    messages: int
    per_second: list[float]
    client_cpu: list[float]


class Targets(NamedTuple):
    """What the rows use. address: of the name server. queue: of ray.util.queue."""

    address: str
    cluster: Any
    queue: Any


class Row(NamedTuple):
    """One way of sending or receiving. run: takes the count, returns when all are through."""

    name: str
    messages: int
    run: Callable[[Targets, str, int], Awaitable[float]]


def sending(way: str, by: str) -> Callable[[Targets, str, int], Awaitable[float]]:
    """Return what sends in a way, and returns the seconds from the first message to the last."""

    async def run(targets: Targets, topic: str, count: int) -> float:
        target = targets.cluster if by == "handle" else targets.address
        async with Producer(target, group="bench") as producer:
            await WAYS[way](producer, topic, BATCH_COUNT)  # routes, topic and connection
            began_seconds = time.perf_counter()
            await WAYS[way](producer, topic, count)
            return time.perf_counter() - began_seconds

    return run


async def send_one_by_one(producer: Producer, topic: str, count: int) -> None:
    """Send each message after the receipt of the one before."""
    for _ in range(count):
        await producer.send(topic, BODY)


async def send_in_flight(producer: Producer, topic: str, count: int) -> None:
    """Send with `IN_FLIGHT` callers, each one by one."""
    share = count // IN_FLIGHT
    await asyncio.gather(*(send_one_by_one(producer, topic, share) for _ in range(IN_FLIGHT)))


async def send_batches(producer: Producer, topic: str, count: int) -> None:
    """Send lists of `BATCH_COUNT` messages, one list after the other."""
    messages = [Message(topic, BODY)] * BATCH_COUNT
    for _ in range(count // BATCH_COUNT):
        await producer.send_many(messages)


WAYS = {"one": send_one_by_one, "in flight": send_in_flight, "batches": send_batches}


def receiving(by: str) -> Callable[[Targets, str, int], Awaitable[float]]:
    """Return what receives a backlog that it has sent before, and returns the seconds."""

    async def run(targets: Targets, topic: str, count: int) -> float:
        target = targets.cluster if by == "handle" else targets.address
        async with Producer(targets.address, group="bench") as producer:
            await send_batches(producer, topic, count)
        group = f"{topic}-readers"
        began_seconds = time.perf_counter()
        async with Consumer(target, group=group, topics=topic, start="first") as consumer:
            left_count = count
            while left_count > 0:
                messages = await consumer.fetch(BATCH_COUNT, FETCH_SECONDS)
                await consumer.ack(*messages)
                left_count -= len(messages)
            return time.perf_counter() - began_seconds

    return run


async def put_into_queue(targets: Targets, topic: str, count: int) -> float:
    """Put lists of `BATCH_COUNT` bodies into Ray's queue, and take them out between the puts."""
    bodies = [BODY] * BATCH_COUNT
    seconds = 0.0
    for _ in range(count // BATCH_COUNT):
        began_seconds = time.perf_counter()
        targets.queue.put_nowait_batch(bodies)
        seconds += time.perf_counter() - began_seconds
        targets.queue.get_nowait_batch(BATCH_COUNT)
    return seconds


ROWS = (
    Row("one by one, TCP", 2_000, sending("one", "tcp")),
    Row("one by one, handle", 1_000, sending("one", "handle")),
    Row("256 in flight, TCP", 20_480, sending("in flight", "tcp")),
    Row("256 in flight, handle", 20_480, sending("in flight", "handle")),
    Row("batches of 1,000, TCP", 50_000, sending("batches", "tcp")),
    Row("batches of 1,000, handle", 50_000, sending("batches", "handle")),
    Row("batches of 1,000, ray.util.queue", 50_000, put_into_queue),
    Row("consumed, TCP", 50_000, receiving("tcp")),
    Row("consumed, handle", 50_000, receiving("handle")),
)


def measure(
    targets: Targets, rows: Sequence[Row], rounds_count: int, say: Callable[[str], None]
) -> list[Found]:
    """Run every row in each round, over a topic of its own."""
    found = [Found(row.name, row.messages, [], []) for row in rows]
    for number in range(rounds_count):
        for place, row in enumerate(rows):
            running = row.run(targets, f"bench-{place}-{number}", row.messages)
            began_seconds, began_cpu_seconds = time.perf_counter(), time.process_time()
            seconds = asyncio.run(asyncio.wait_for(running, RUN_SECONDS_MAX))
            cpu_seconds = time.process_time() - began_cpu_seconds
            share = cpu_seconds / (time.perf_counter() - began_seconds)
            found[place].client_cpu.append(round(share, 2))
            found[place].per_second.append(round(row.messages / seconds, 1))
            say(f"round {number + 1}, {row.name}: {row.messages / seconds:,.0f}/s")
    return found


def table(found: Sequence[Found]) -> str:
    """Return the page."""
    lines = ["# The Python client", "", TEXT, ""]
    lines += [
        "| row | messages/s | least | greatest | bound by |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for each in found:
        figures = (statistics.median(each.per_second), min(each.per_second), max(each.per_second))
        cells = " | ".join(f"{figure:,.0f}" for figure in figures)
        lines.append(f"| {each.row} | {cells} | {statistics.median(each.client_cpu):.2f} |")
    return "\n".join(lines) + "\n"


def write(found: Sequence[Found], folder: Path) -> None:
    """Write a line of JSON a row, and the page."""
    rows = [msgspec.json.encode(each).decode() for each in found]
    (folder / JSON_NAME).write_text("[\n" + ",\n".join(rows) + "\n]\n")
    (folder / TABLE_NAME).write_text(table(found))


def main(arguments: Sequence[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="./dev bench client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_COUNT, metavar="N")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    # A temporary directory of its own, so that `attach` finds this `up` and no other; Ray's socket
    # paths allow no longer one.
    with tempfile.TemporaryDirectory(prefix="wlb-", dir="/tmp") as name:
        os.environ["TMPDIR"] = tempfile.tempdir = name
        side = Wakelog(Path(name, "side"), {})
        try:
            cluster = wakelog.attach()
            from ray.util.queue import Queue

            queue = Queue(actor_options={"num_cpus": 0})
            targets = Targets(side.name_server, cluster, queue)
            write(measure(targets, ROWS, options.rounds, print), options.output)
        finally:
            side.stop(in_order=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
