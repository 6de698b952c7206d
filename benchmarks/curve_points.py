"""How a point of a curve is driven: a new broker, a warm-up that is the same for all, and the load.

A JVM's compiler settles within some 50,000 messages. So each broker first gets 60,000 of 1 KiB,
whatever the point is: else the first point of a curve would pay for what the others find done.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from benchmarks.catch_up import wait_dispatched
from benchmarks.cost import Cost
from benchmarks.curve_rows import Curve, layout
from benchmarks.held import TOPICS, add_topics, fill, hold, pull_requests, send_in_turns
from benchmarks.load import SETTINGS, TOPIC, Drivers, Run, costs, create_topic
from benchmarks.paced import Connection
from benchmarks.rows import BODY_BYTES, Kind, Row
from benchmarks.sides import Prepare, Side, leave_empty
from tests.compat.frames import RawConnection

MESSAGES = 100_000
WARMUP = 60_000
IN_FLIGHT = 64
SPREAD_IN_FLIGHT = 1_000
BODIES_IN_FLIGHT = 16
LATENCY_MESSAGES = 10_000
LATENCY_WARMUP = 2_000
BODIES_BYTES_MAX = 400 << 20
"""Of all bodies of a point: so a point of large ones has fewer messages."""

QUEUE_FILE_BYTES = 100_000
"""Of curves with many queues. 4.9.3 maps queue files, and a read-ahead of the kernel's takes all of
one into memory when it is touched first: 10,000 of the usual 6 MB would not fit."""

HELD_SETTLE_SECONDS = 3.0

_WARM = Row("warm", Kind.FRAMES, (), "send", IN_FLIGHT, 1_000, warmup=WARMUP)


def warm(side: Side, drivers: Drivers) -> None:
    """Send what a JVM's compiler needs, to a topic of its own, and wait for the queues."""
    create_topic(side, TOPIC)
    drivers.frames(side, _WARM, lambda: None)
    _wait_dispatched(side)


def _wait_dispatched(side: Side) -> None:
    """Return once the queues show the last message."""
    # A connection of its own: a broker closes one that says nothing while a driver runs.
    with RawConnection(side.broker) as connection:
        wait_dispatched(connection)


def row_of(curve: Curve, size: int) -> Row:
    """Return the load of a point that the light driver makes."""
    row = Row(curve.name, Kind.FRAMES, (), "send", IN_FLIGHT, MESSAGES, warmup=WARMUP)
    if curve.name == "queues":
        topics, queues = layout(size)
        return row._replace(topics=topics, queues=queues)
    if curve.name == "connections":
        # One at a time takes a wake-up for each message.
        count = MESSAGES if size > 1 else MESSAGES // 4
        return row._replace(connections=size, workers=1, messages=count, warmup=count // 2)
    if curve.name == "spread":
        return row._replace(connections=size, workers=SPREAD_IN_FLIGHT // size)
    assert curve.name == "bodies"
    count = min(MESSAGES, BODIES_BYTES_MAX // size)
    return row._replace(
        workers=BODIES_IN_FLIGHT, body_bytes=size, messages=count, warmup=count // 5
    )


def measure_point(
    curve: Curve,
    size: int,
    make_side: Callable[[Mapping[str, str], Prepare], Side],
    drivers: Drivers,
) -> tuple[Run, Mapping[str, object]]:
    """Measure one point of one side; return figures and configuration."""
    prepare, settings = leave_empty, SETTINGS
    if curve.name in ("queues", "held"):
        settings = SETTINGS | {"mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES)}
        topics, queues = layout(size)
        prepare = partial(add_topics, topics_count=topics, queues_count=queues)
    side = make_side(settings, prepare)
    try:
        warm(side, drivers)
        if curve.name == "held":
            return _beside_pulls(side, size), side.configuration
        topic = TOPICS if curve.name == "queues" else TOPIC
        return _load(side, row_of(curve, size), drivers, topic), side.configuration
    finally:
        side.stop()


def _load(side: Side, row: Row, drivers: Drivers, topic: str) -> Run:
    """Run the driver; what the broker has to do behind the last answer is counted, too."""
    before: list[Cost] = []

    def measure_warm() -> None:
        _wait_dispatched(side)
        before.append(side.cost())

    run = drivers.frames(side, row, measure_warm, topic)
    _wait_dispatched(side)
    after = side.cost()
    run |= costs(before[-1], after, run, run["messages"])
    return run | {
        "us_each": 1e6 / run["per_second"],
        "mb_per_second": run["per_second"] * row.body_bytes / 1e6,
    }


def _beside_pulls(side: Side, pulls_count: int) -> Run:
    """Send one at a time beside pulls; ``errors`` counts those that were answered meanwhile."""
    topics, queues = layout(pulls_count)
    with ExitStack() as stack:
        sender = stack.enter_context(Connection(side.broker))
        fill(sender, topics, queues)
        _wait_dispatched(side)
        holding = hold(side, stack, pull_requests(topics, queues), pulls_count)
        time.sleep(HELD_SETTLE_SECONDS)
        send_in_turns([sender], LATENCY_WARMUP)
        _wait_dispatched(side)
        before = side.cost()
        [took_ms] = send_in_turns([sender], LATENCY_MESSAGES)
        _wait_dispatched(side)
        after = side.cost()
        answered = sum(len(connection.answers(0.0)) for connection in holding)
    spent_seconds = after.broker_cpu_seconds - before.broker_cpu_seconds
    return {
        "p50_ms": statistics.median(took_ms),
        "broker_cpu": spent_seconds / LATENCY_MESSAGES * 1e6,
        "messages": LATENCY_MESSAGES,
        "body_bytes": BODY_BYTES,
        "errors": answered,
    }
