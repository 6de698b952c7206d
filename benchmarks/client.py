"""The Python client in one run with Ray's own queue, Redis Streams, NATS JetStream and Kafka.

    ./dev bench client [--rounds N] [--row TEXT]... [--without NAMES] [--output DIR]

One broker of `wakelog up` with its defaults serves every row of wakelog. `ray.util.queue` is an
actor of the same Ray, which keeps what it gets in memory. `others` has the servers of the others
and their clients. The rows take turns, round by round, so that noise of the machine meets all.
`telemetry` has the rows with OpenTelemetry (`--row OpenTelemetry`), which have a page of their own.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import wakelog
from benchmarks.kept import RESULTS
from benchmarks.others import NAMES, OtherServer, Ran
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import Wakelog
from benchmarks.telemetry import LOADS, measure_telemetry, write_telemetry
from benchmarks.ways import BATCH_COUNT, BODY, LISTS_IN_FLIGHT, WAYS, Watch, send_batches
from tests.compat.provision import ProvisionFailed
from wakelog.client import Consumer, Producer
from wakelog.client.sync import Consumer as BlockingConsumer
from wakelog.client.sync import Producer as BlockingProducer

JSON_NAME = "client.json"
TABLE_NAME = "client.md"
ROUNDS_COUNT = 5
LISTS_BETWEEN = 20
ARROW_COUNT = 10_000
FETCH_SECONDS = 5.0
RUN_SECONDS_MAX = 120.0

TEXT = f"""`./dev bench client`: messages a second of {BODY_BYTES} bytes, one client in one
process. The median of the rounds stands before the least and the greatest. Nothing waits for a sync
of the disk. The queue of Ray keeps its messages in memory; all others write them to a log. Client
CPU is the share of one processor that the client's process takes. Near 1, it bounds the row; far
below, it waits for calls or for the server. Kafka's client has threads of its own.
benchmarks/README.md says what bounds each row."""


class Found(msgspec.Struct, frozen=True):
    """One row, a figure a round.

    client_cpu: the client process's CPU seconds for each second.
    """

    row: str
    messages: int
    per_second: list[float]
    client_cpu: list[float]


class Targets(NamedTuple):
    """What the rows use. address: of the name server. queue: of ray.util.queue.

    by_calls: the cluster as clients of other hosts reach it.
    """

    address: str
    cluster: Any
    by_calls: Any
    queue: Any
    others: dict[str, OtherServer]

    def target(self, by: str) -> Any:
        """Return what a client gets."""
        return {"tcp": self.address, "handle": self.cluster, "calls": self.by_calls}[by]


class Row(NamedTuple):
    """One way of sending or receiving. run: takes the count, returns when all are through.

    system: of another server, "" for wakelog and Ray.
    """

    name: str
    messages: int
    run: Callable[[Targets, str, int], Awaitable[Ran]]
    system: str = ""


def sending(way: str, by: str) -> Callable[[Targets, str, int], Awaitable[Ran]]:
    """Return what sends in a way, and returns what that took."""

    async def run(targets: Targets, topic: str, count: int) -> Ran:
        async with Producer(targets.target(by), group="bench") as producer:
            await WAYS[way](producer, topic, BATCH_COUNT)  # routes, topic and connection
            watch = Watch()
            await WAYS[way](producer, topic, count)
            return watch.ran()

    return run


async def send_blocking(targets: Targets, topic: str, count: int) -> Ran:
    """Send one by one without asyncio."""
    with BlockingProducer(targets.address, group="bench") as producer:
        for _ in range(BATCH_COUNT):  # routes, topic and connections
            producer.send(topic, BODY)
        watch = Watch()
        for _ in range(count):
            producer.send(topic, BODY)
        return watch.ran()


def other(system: str, row: str) -> Callable[[Targets, str, int], Awaitable[Ran]]:
    """Return what runs a row of another system."""

    async def run(targets: Targets, topic: str, count: int) -> Ran:
        return targets.others[system].run(row, topic, count)

    return run


async def receive_blocking(targets: Targets, topic: str, count: int) -> Ran:
    """Receive a backlog without asyncio, and acknowledge each message by itself."""
    async with Producer(targets.address, group="bench") as producer:
        await send_batches(producer, topic, count)
    group = f"{topic}-readers"
    with BlockingConsumer(targets.address, group=group, topics=topic, start="first") as consumer:
        watch = Watch()
        for number, message in enumerate(consumer, 1):
            message.ack()
            if number == count:
                break
        return watch.ran()


def receiving(by: str, form: str) -> Callable[[Targets, str, int], Awaitable[Ran]]:
    """Return what receives a backlog that it has sent before, and returns what that took."""

    async def run(targets: Targets, topic: str, count: int) -> Ran:
        async with Producer(targets.address, group="bench") as producer:
            await send_batches(producer, topic, count)
        group = f"{topic}-readers"
        target = targets.target(by)
        async with Consumer(target, group=group, topics=topic, start="first") as consumer:
            watch = Watch()
            left_count = count
            while left_count > 0:
                if form == "Arrow":
                    rows = await consumer.fetch_arrow(min(ARROW_COUNT, left_count), FETCH_SECONDS)
                    await consumer.ack_arrow(rows)
                    left_count -= len(rows)
                else:
                    messages = await consumer.fetch(BATCH_COUNT, FETCH_SECONDS)
                    await consumer.ack(*messages)
                    left_count -= len(messages)
            return watch.ran()

    return run


async def put_into_queue(targets: Targets, topic: str, count: int) -> Ran:
    """Put lists of `BATCH_COUNT` bodies into Ray's queue, and take them out between the puts."""
    bodies = [BODY] * BATCH_COUNT
    seconds = cpu_seconds = 0.0
    for _ in range(count // BATCH_COUNT):
        watch = Watch()
        targets.queue.put_nowait_batch(bodies)
        ran = watch.ran()
        seconds, cpu_seconds = seconds + ran.seconds, cpu_seconds + ran.cpu_seconds
        targets.queue.get_nowait_batch(BATCH_COUNT)
    return Ran(seconds, cpu_seconds)


async def put_into_queue_in_flight(targets: Targets, topic: str, count: int) -> Ran:
    """Put lists with `LISTS_IN_FLIGHT` callers, and take out what they have put from time to time.

    The store of the Ray of `up` has room for all lists of `LISTS_BETWEEN`.
    """
    bodies = [BODY] * BATCH_COUNT
    put = targets.queue.actor.put_nowait_batch.remote

    async def put_in_turn() -> None:
        for _ in range(LISTS_BETWEEN // LISTS_IN_FLIGHT):
            await put(bodies)

    seconds = cpu_seconds = 0.0
    for _ in range(count // BATCH_COUNT // LISTS_BETWEEN):
        watch = Watch()
        await asyncio.gather(*(put_in_turn() for _ in range(LISTS_IN_FLIGHT)))
        ran = watch.ran()
        seconds, cpu_seconds = seconds + ran.seconds, cpu_seconds + ran.cpu_seconds
        targets.queue.get_nowait_batch(LISTS_BETWEEN * BATCH_COUNT)
    return Ran(seconds, cpu_seconds)


def _others(row: str, counts: dict[str, int]) -> list[Row]:
    """Return the rows of other systems."""
    return [
        Row(f"{row}, {NAMES[system]}", count, other(system, row), system)
        for system, count in counts.items()
    ]


ROWS = (
    Row("one by one, TCP", 4_000, sending("one", "tcp")),
    Row("one by one, without asyncio, TCP", 4_000, send_blocking),
    Row("one by one, handle", 4_000, sending("one", "handle")),
    Row("one by one, handle by calls", 1_000, sending("one", "calls")),
    *_others("one by one", {"redis": 4_000, "nats": 4_000, "kafka": 4_000}),
    Row("256 in flight, TCP", 51_200, sending("in flight", "tcp")),
    Row("256 in flight, handle", 51_200, sending("in flight", "handle")),
    *_others("256 in flight", {"nats": 25_600}),
    Row("batches of 1,000, TCP", 50_000, sending("batches", "tcp")),
    Row("batches of 1,000, handle", 50_000, sending("batches", "handle")),
    Row("batches of 1,000, handle by calls", 50_000, sending("batches", "calls")),
    Row("batches of 1,000, ray.util.queue", 50_000, put_into_queue),
    Row("batches of 1,000, four in flight, TCP", 100_000, sending("batches in flight", "tcp")),
    Row(
        "batches of 1,000, four in flight, handle",
        100_000,
        sending("batches in flight", "handle"),
    ),
    Row("batches of 1,000, four in flight, ray.util.queue", 100_000, put_into_queue_in_flight),
    *_others("batches of 1,000", {"redis": 50_000, "kafka": 200_000}),
    Row("consumed, TCP", 200_000, receiving("tcp", "messages")),
    Row("consumed, handle", 200_000, receiving("handle", "messages")),
    Row("consumed, handle by calls", 50_000, receiving("calls", "messages")),
    Row("consumed one by one, without asyncio, TCP", 50_000, receive_blocking),
    Row("consumed, Arrow, TCP", 200_000, receiving("tcp", "Arrow")),
    Row("consumed, Arrow, handle", 200_000, receiving("handle", "Arrow")),
    *_others("consumed", {"redis": 50_000, "nats": 25_600, "kafka": 200_000}),
)


def measure(
    targets: Targets, rows: Sequence[Row], rounds_count: int, say: Callable[[str], None]
) -> list[Found]:
    """Run every row in each round, over a topic of its own."""
    found = [Found(row.name, row.messages, [], []) for row in rows]
    for number in range(rounds_count):
        for place, row in enumerate(rows):
            running = row.run(targets, f"bench-{place}-{number}", row.messages)
            ran = asyncio.run(asyncio.wait_for(running, RUN_SECONDS_MAX))
            found[place].client_cpu.append(round(ran.cpu_seconds / ran.seconds, 2))
            found[place].per_second.append(round(row.messages / ran.seconds, 1))
            say(f"round {number + 1}, {row.name}: {row.messages / ran.seconds:,.0f}/s")
    return found


def table(found: Sequence[Found]) -> str:
    """Return the page."""
    lines = ["# The Python client", "", TEXT, ""]
    lines += [
        "| row | messages/s | least | greatest | client CPU |",
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


@contextmanager
def temporary_directory() -> Iterator[str]:
    """Have temporary files in a directory of their own.

    So `attach` finds the `up` of this run and no other. Ray's socket paths allow no longer name.
    """
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="wlb-", dir="/tmp") as name:
        os.environ["TMPDIR"] = tempfile.tempdir = name
        try:
            yield name
        finally:
            tempfile.tempdir = before[0]
            os.environ.pop("TMPDIR")
            if before[1] is not None:
                os.environ["TMPDIR"] = before[1]


def main(arguments: Sequence[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="./dev bench client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_COUNT, metavar="N")
    parser.add_argument(
        "--row", metavar="TEXT", action="append", help="rows with this in their names; repeat it"
    )
    parser.add_argument(
        "--without", metavar="NAMES", default="", help=f"of {', '.join(NAMES)}, with commas between"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    left_out = set(filter(None, options.without.split(",")))
    if unknown := left_out - NAMES.keys():
        parser.error(f"--without {','.join(unknown)}: give {', '.join(NAMES)}")
    wanted = options.row or [""]
    rows = [
        row
        for row in ROWS
        if any(text in row.name for text in wanted) and row.system not in left_out
    ]
    recorded = [load for load in LOADS if any(text in load.name for text in wanted)]
    with temporary_directory() as name, ExitStack() as stack:
        try:
            others = {
                system: stack.enter_context(OtherServer(system, Path(name, system)))
                for system in NAMES
                if any(row.system == system for row in rows)
            }
        except ProvisionFailed as failure:
            print(f"./dev bench client: {failure}", file=sys.stderr)
            return 1
        side = Wakelog(Path(name, "side"), {})
        try:
            cluster, by_calls = wakelog.attach(), wakelog.attach(by_calls=True)
            from ray.util.queue import Queue

            queue = Queue(actor_options={"num_cpus": 0})
            targets = Targets(side.name_server, cluster, by_calls, queue, others)
            if rows:
                write(measure(targets, rows, options.rounds, print), options.output)
            if recorded:
                found = measure_telemetry(targets.address, recorded, options.rounds, print)
                write_telemetry(found, options.output)
        finally:
            side.stop(in_order=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
