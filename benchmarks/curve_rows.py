"""The curves as data: which size grows, at which points, and what of it a user suffers from.

``costs`` of a curve are what it is judged by; less is better in all of them. The others are shown.
"""

from typing import NamedTuple

from benchmarks.rows import Figure

QUEUES_EACH = 5
"""Of a topic, where a curve has more than one queue."""

LOG_GIB = (1, 4, 16)

_EACH = Figure("us_each", "time a message, us")
_CPU = Figure("broker_cpu", "broker's CPU a message, us")
_P50 = Figure("p50_ms", "p50 of a send, ms")
_RATE = Figure("per_second", "messages/s", less_is_better=False)
_MB_RATE = Figure("mb_per_second", "MB/s", less_is_better=False)


class Curve(NamedTuple):
    """One size that grows.

    unit: what stands behind a size.
    about: what of it a user suffers from, and how it is driven.
    """

    name: str
    unit: str
    sizes: tuple[int, ...]
    about: str
    costs: tuple[Figure, ...]
    shown: tuple[Figure, ...] = ()


CURVES = (
    Curve(
        "queues",
        "queues",
        (1, 10, 100, 1_000, 10_000),
        "A producer gets slower, and a broker fuller, as queues are added. One connection keeps 64 "
        "sends of 1 KiB in flight and sends to all queues in turn, in topics of 5. Each has "
        "messages before the time begins. CPU is counted until the queues show the last message.",
        (_EACH, _CPU),
        (_RATE, _P50),
    ),
    Curve(
        "held",
        "held pulls",
        (1, 10, 100, 1_000, 10_000),
        "A sender waits longer beside consumers that wait. One client sends a message of 1 KiB at "
        "a time to a topic that nobody reads; the pulls wait for as many other queues.",
        (_P50, _CPU),
    ),
    Curve(
        "connections",
        "connections",
        (1, 10, 100, 1_000),
        "All wait longer as clients are added. Each connection has one send of 1 KiB in flight, as "
        "a producer that waits for each answer. All are made before the warm-up.",
        (_EACH, _CPU),
        (_RATE, _P50),
    ),
    Curve(
        "spread",
        "connections",
        (1, 10, 100, 1_000),
        "The same load costs more from many clients than from one. 1,000 sends of 1 KiB are in "
        "flight, evenly over the connections.",
        (_EACH, _CPU),
        (_RATE, _P50),
    ),
    Curve(
        "bodies",
        "bytes of a body",
        (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20),
        "A producer of large messages waits for each. One connection keeps 16 sends in flight.",
        (_EACH, _CPU),
        (_RATE, _MB_RATE),
    ),
    Curve(
        "log",
        "GiB of log",
        LOG_GIB,
        "An operator waits for a start over a large log, and a consumer for messages from long "
        "ago. Both sides begin with the same log of messages of 1 KiB with a key each. It is out "
        "of the page cache before each start. The consumer pulls 4 queues side by side from their "
        "beginning, 200,000 messages, right after the start that follows the kill.",
        (
            Figure("orderly_seconds", "ready after an orderly stop, s"),
            Figure("killed_seconds", "ready after a kill, s"),
            _P50,
            Figure("seconds_per_gb", "consumed from the beginning, s/GB"),
        ),
        (_MB_RATE,),
    ),
)


def layout(queues_count: int) -> tuple[int, int]:
    """Return how many topics have so many queues together, and how many each has."""
    each = min(QUEUES_EACH, queues_count)
    return queues_count // each, each


def size_text(curve: Curve, size: int) -> str:
    """Return a size as a table shows it."""
    if curve.name != "bodies":
        return f"{size:,}"
    for unit_bytes, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit_bytes:
            return f"{size // unit_bytes} {unit}"
    return f"{size} B"
