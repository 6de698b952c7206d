"""What `wakelog.otel` costs the Python client: loads without OpenTelemetry and with it, in turns.

    ./dev bench client --row OpenTelemetry [--rounds N] [--output DIR]
    python -m benchmarks.telemetry [--rounds N] [--row TEXT] [--output DIR]

The second one runs `wakelog up --local` itself, and needs no Ray. A client stays open while its
mode changes every few milliseconds: so noise of the machine meets all modes. Spans go through a
BatchSpanProcessor to an exporter that drops them, metrics to a reader that nobody asks.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    ParentBased,
    Sampler,
    TraceIdRatioBased,
)

from benchmarks.kept import RESULTS
from benchmarks.sides import READY_SECONDS_MAX
from benchmarks.ways import BATCH_COUNT, WAYS, Watch, send_batches
from tests.compat.processes import TestProcess, free_port
from wakelog.client import Consumer, Producer
from wakelog.otel import RocketMQInstrumentor

NAME: Final = "telemetry"
ROUNDS_COUNT: Final = 5
TURNS_COUNT: Final = 4
"""Turns of each mode within a round."""
PLAIN: Final = "without"
SAMPLED_RATIO: Final = 0.01
FETCH_SECONDS: Final = 5.0
ROUND_SECONDS_MAX: Final = 300.0
RETRIES_MAX: Final = 20
"""On a machine that is busy a broker may refuse a batch for a while."""

TEXT: Final = f"""`./dev bench client --row OpenTelemetry` runs loads of
[client.md](client.md) over TCP in four modes. Without the instrumentor, with it and no SDK, with
an SDK that samples {SAMPLED_RATIO:.0%} of the traces, and with one that records all. The modes take
turns while one client stays open. Figures are medians of the rounds, and `of plain` is the median
of the ratios within a round. Client CPU is that of the client's process for each message, the
SDK's work and its thread's among it. `more` is what it has above the mode without. An exporter
drops the spans: one that sends them takes more. Where more processes wanted to run than there are
processors, messages a second say little, and CPU is up to three times what it is alone. A consumer
looks at the body of each message, which decodes it in all modes. What is consumed comes from traces
that are sampled, so that the mode with {SAMPLED_RATIO:.0%} records the work on it, too. The last
load alone is of traces that are not: there that mode drops the spans of all. Their parts were made
cheaper last: by CPU this load had 0.42 of plain before and 0.45 after, the medians of three
interleaved runs of both on a busy machine. What is left of `256 in flight` is two random ids for
each message, their text, and the SDK's own questions."""

Run = Callable[[int], Awaitable[None]]


class Load(NamedTuple):
    """One way of sending or receiving.

    turn: messages of one turn. opened: gives what runs so many of them, at an address and a topic;
    the count is of all that it will be asked for.
    """

    name: str
    turn: int
    opened: Callable[[str, str, int], AbstractAsyncContextManager[Run]]


class Dropped(SpanExporter):
    """An exporter that keeps nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS


@contextmanager
def no_sdk() -> Iterator[None]:
    """Have the instrumentor alone."""
    RocketMQInstrumentor().instrument()
    try:
        yield
    finally:
        RocketMQInstrumentor().uninstrument()


@contextmanager
def plain() -> Iterator[None]:
    """Have no instrumentor."""
    yield


def with_sdk(sampler: Sampler) -> Callable[[], AbstractContextManager[None]]:
    """Return what has the instrumentor with an SDK."""

    @contextmanager
    def run() -> Iterator[None]:
        tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(Dropped()))
        meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
        RocketMQInstrumentor().instrument(tracer_provider=tracers, meter_provider=meters)
        try:
            yield
        finally:
            RocketMQInstrumentor().uninstrument()
            tracers.shutdown()
            meters.shutdown()

    return run


MODES: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    PLAIN: plain,
    "no SDK": no_sdk,
    f"{SAMPLED_RATIO:.0%} sampled": with_sdk(ParentBased(TraceIdRatioBased(SAMPLED_RATIO))),
    "all recorded": with_sdk(ALWAYS_ON),
}


def sending(way: str) -> Callable[[str, str, int], AbstractAsyncContextManager[Run]]:
    """Return what opens a producer that sends in a way."""

    @asynccontextmanager
    async def opened(address: str, topic: str, count: int) -> AsyncIterator[Run]:
        async with Producer(address, group="bench", retries_max=RETRIES_MAX) as producer:
            await WAYS[way](producer, topic, BATCH_COUNT)  # routes, topic and connection
            yield lambda turn: WAYS[way](producer, topic, turn)

    return opened


def receiving(
    *, iterates: bool, sampler: Sampler = ALWAYS_ON
) -> Callable[[str, str, int], AbstractAsyncContextManager[Run]]:
    """Return what opens a consumer of a backlog, each message of which has a context.

    iterates: whether it takes the messages one by one, with a span for the work on each.
    sampler: of their producer.
    """

    @asynccontextmanager
    async def opened(address: str, topic: str, count: int) -> AsyncIterator[Run]:
        async with Producer(address, group="bench", retries_max=RETRIES_MAX) as producer:
            with with_sdk(sampler)():
                await send_batches(producer, topic, count + BATCH_COUNT)
        group = f"{topic}-readers"
        async with Consumer(address, group=group, topics=topic, start="first") as consumer:
            yield lambda turn: _consume(consumer, turn, iterates=iterates)

    return opened


async def _consume(consumer: Consumer, count: int, *, iterates: bool) -> None:
    """Consume messages, and look at the body of each, as every user does: that decodes it."""
    left_count = count
    if iterates:
        async for message in consumer:
            assert message.body
            await message.ack()
            left_count -= 1
            if not left_count:
                return
    while left_count:
        messages = await consumer.fetch(min(BATCH_COUNT, left_count), FETCH_SECONDS)
        assert all(message.body for message in messages)
        await consumer.ack(*messages)
        left_count -= len(messages)


LOADS: Final = tuple(
    Load(f"{name}, OpenTelemetry", turn, opened)
    for name, turn, opened in (
        ("one by one", 400, sending("one")),
        ("256 in flight", 5_120, sending("in flight")),
        ("batches of 1,000", 5_000, sending("batches")),
        ("consumed", 4_000, receiving(iterates=False)),
        ("consumed one by one", 1_000, receiving(iterates=True)),
        ("not sampled, consumed one by one", 1_000, receiving(iterates=True, sampler=ALWAYS_OFF)),
    )
)


class Recorded(msgspec.Struct, frozen=True):
    """One load in one mode, a figure a round. cpu_us: of the client, for each message."""

    row: str
    mode: str
    per_second: list[float]
    cpu_us: list[float]


def measure_telemetry(
    address: str, loads: Sequence[Load], rounds_count: int, say: Callable[[str], None]
) -> list[Recorded]:
    """Run every load in every mode in each round."""
    found = {
        (load.name, mode): Recorded(load.name, mode, [], []) for load in loads for mode in MODES
    }
    for number in range(rounds_count):
        for place, load in enumerate(loads):
            running = _round(address, load, f"telemetry-{place}-{number}", number)
            ran = asyncio.run(asyncio.wait_for(running, ROUND_SECONDS_MAX))
            for mode, (seconds, cpu_seconds) in ran.items():
                one, count = found[load.name, mode], TURNS_COUNT * load.turn
                one.per_second.append(round(count / seconds, 1))
                one.cpu_us.append(round(cpu_seconds / count * 1e6, 2))
                say(f"{number + 1}, {load.name}, {mode}: {one.per_second[-1]:,.0f}/s")
    return list(found.values())


async def _round(
    address: str, load: Load, topic: str, number: int
) -> dict[str, tuple[float, float]]:
    """Return the seconds and the CPU seconds of each mode. In each turn another mode is first."""
    spent = dict.fromkeys(MODES, (0.0, 0.0))
    modes = list(MODES)
    turns_count = (TURNS_COUNT + 1) * len(modes)
    async with load.opened(address, topic, turns_count * load.turn) as run:
        for turn in range(TURNS_COUNT + 1):
            first = (number + turn) % len(modes)
            for mode in modes[first:] + modes[:first]:
                with MODES[mode]():
                    watch = Watch()
                    await run(load.turn)
                    ran = watch.ran()
                if turn:  # the first one warms up
                    seconds, cpu_seconds = spent[mode]
                    spent[mode] = seconds + ran.seconds, cpu_seconds + ran.cpu_seconds
    return spent


def table(found: Sequence[Recorded], load: float) -> str:
    """Return the page. load: how many processes wanted to run, on the average of a minute."""
    lines = ["# What OpenTelemetry costs the Python client", "", TEXT, ""]
    lines += [
        f"{_processor()}, {os.cpu_count()} processors; CPython {platform.python_version()}. At the "
        f"end {load:.1f} processes wanted to run.",
        "",
        "| load | mode | messages/s | of plain | client CPU, µs | more |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    without = {one.row: one for one in found if one.mode == PLAIN}
    for one in found:
        base = without[one.row]
        ratio = statistics.median(
            own / other for own, other in zip(one.per_second, base.per_second, strict=True)
        )
        more = statistics.median(
            own - other for own, other in zip(one.cpu_us, base.cpu_us, strict=True)
        )
        name = one.row.removesuffix(", OpenTelemetry")
        figures = f"{statistics.median(one.per_second):,.0f} | {ratio:.3f}"
        figures += f" | {statistics.median(one.cpu_us):.1f} | {more:.1f}"
        lines.append(f"| {name} | {one.mode} | {figures} |")
    return "\n".join(lines) + "\n"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write_telemetry(found: Sequence[Recorded], folder: Path) -> None:
    """Write a line of JSON a row, and the page."""
    lines = [msgspec.json.encode(each).decode() for each in found]
    (folder / f"{NAME}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    (folder / f"{NAME}.md").write_text(table(found, os.getloadavg()[0]))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run `wakelog up --local` until the end of the block; give the name server's address."""
    name_server, broker = free_port(), free_port(-2, 1)
    log_path = folder / "up.out"
    command = [sys.executable, "-m", "wakelog", "up", "--local", "--metrics-port", "0"]
    command += ["--store", str(folder / "store"), "--namesrv-port", str(name_server)]
    command += ["--broker-port", str(broker), "--console-port", "0"]
    with TestProcess(command, env=dict(os.environ), log_path=log_path) as process:
        process.wait_until(
            lambda: "ready after" in log_path.read_text(),
            seconds_max=READY_SECONDS_MAX,
            what="ready",
        )
        yield f"127.0.0.1:{name_server}"


def main(arguments: Sequence[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_COUNT, metavar="N")
    parser.add_argument("--row", metavar="TEXT", default="", help="loads with this in their names")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    loads = [load for load in LOADS if options.row in load.name]
    with tempfile.TemporaryDirectory(prefix="wlb-") as name, served(Path(name)) as address:
        found = measure_telemetry(address, loads, options.rounds, print)
    write_telemetry(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
