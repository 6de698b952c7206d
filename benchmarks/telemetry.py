"""What `wakelog.otel` costs the Python client: rows of `client`, with the instrumentor and without.

    python -m benchmarks.telemetry [--rounds N] [--row TEXT] [--output DIR]

One broker of `wakelog up --local` serves all. The modes of a row take turns within each round, so
that noise of the machine meets all of them. Spans go to an exporter that drops them.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased

from benchmarks.client import BATCH_COUNT, RUN_SECONDS_MAX, Row, Targets, receiving, sending
from benchmarks.kept import RESULTS
from benchmarks.sides import READY_SECONDS_MAX
from tests.compat.processes import TestProcess, free_port
from wakelog.otel import RocketMQInstrumentor

NAME: Final = "telemetry"
ROUNDS_COUNT: Final = 5
PLAIN: Final = "without"
SAMPLED_RATIO: Final = 0.01

ROWS: Final = (
    Row("one by one", 4_000, sending("one", "tcp")),
    Row("256 in flight", 51_200, sending("in flight", "tcp")),
    Row("batches of 1,000", 50_000, sending("batches", "tcp")),
    Row("consumed", 50_000, receiving("tcp", "messages")),
)

TEXT: Final = f"""`python -m benchmarks.telemetry` runs rows of [client.md](client.md) in four ways.
Without the instrumentor, with it and no SDK, with an SDK that samples {SAMPLED_RATIO:.0%} of
the traces, and with one that records all. Figures are medians of the rounds. `of plain` is the
median of the ratios within a round. Client CPU is that of the client's process for each message,
the SDK's work among it. It is disturbed less by other programs than messages a second are. A span
takes 20 to 40 µs in OpenTelemetry's SDK for Python, so no call of one message has one for
nothing."""


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


class Found(msgspec.Struct, frozen=True):
    """One row in one mode, a figure a round. cpu_us: of the client, for each message."""

    row: str
    mode: str
    per_second: list[float]
    cpu_us: list[float]


def measure(
    targets: Targets, rows: Sequence[Row], rounds_count: int, say: Callable[[str], None]
) -> list[Found]:
    """Run every row in every mode in each round; in the next round another mode is first."""
    found = {(row.name, mode): Found(row.name, mode, [], []) for row in rows for mode in MODES}
    for number in range(rounds_count):
        for place, row in enumerate(rows):
            modes = list(MODES)[number % len(MODES) :] + list(MODES)[: number % len(MODES)]
            for mode in modes:
                topic = f"telemetry-{place}-{number}-{list(MODES).index(mode)}"
                count = max(row.messages, BATCH_COUNT)
                with MODES[mode]():
                    running = asyncio.wait_for(row.run(targets, topic, count), RUN_SECONDS_MAX)
                    ran = asyncio.run(running)
                one = found[row.name, mode]
                one.per_second.append(round(count / ran.seconds, 1))
                one.cpu_us.append(round(ran.cpu_seconds / count * 1e6, 2))
                say(f"{number + 1}, {row.name}, {mode}: {one.per_second[-1]:,.0f}/s")
    return list(found.values())


def table(found: Sequence[Found], load: float) -> str:
    """Return the page. load: how many processes wanted to run, on the average of a minute."""
    lines = ["# What OpenTelemetry costs the Python client", "", TEXT, ""]
    processors = f"{os.cpu_count()} processors"
    lines += [f"At the end {load:.1f} processes wanted to run on {processors}.", ""]
    lines += [
        "| row | mode | messages/s | of plain | client CPU, µs |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    without = {one.row: one for one in found if one.mode == PLAIN}
    for one in found:
        pairs = zip(one.per_second, without[one.row].per_second, strict=True)
        ratio = statistics.median(own / other for own, other in pairs)
        figures = f"{statistics.median(one.per_second):,.0f} | {ratio:.3f}"
        lines.append(
            f"| {one.row} | {one.mode} | {figures} | {statistics.median(one.cpu_us):.1f} |"
        )
    return "\n".join(lines) + "\n"


class Served(NamedTuple):
    """A broker of its own process. name_server: where clients ask."""

    name_server: str


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Run `wakelog up --local` until the end of the block."""
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
        yield Served(f"127.0.0.1:{name_server}")


def main(arguments: Sequence[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS_COUNT, metavar="N")
    parser.add_argument("--row", metavar="TEXT", default="", help="rows with this in their names")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if options.row in row.name]
    with tempfile.TemporaryDirectory(prefix="wlb-") as name, served(Path(name)) as broker:
        targets = Targets(broker.name_server, None, None, None, {})
        found = measure(targets, rows, options.rounds, print)
    lines = [msgspec.json.encode(each).decode() for each in found]
    (options.output / f"{NAME}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    (options.output / f"{NAME}.md").write_text(table(found, os.getloadavg()[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
