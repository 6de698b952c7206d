"""What is measured: one row a way of using a broker, as data.

A row says how it is driven, the flush mode, and which figures of a run count. ``required`` of a
figure is the least ratio (wakelog to RocketMQ, the other way round where less is better) that the
project promises; None where it is only reported.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

BODY_BYTES = 1024
QUEUES = 4
REQUIRED = 0.95


class Figure(NamedTuple):
    """One number of a run.

    most: what wakelog alone may have at most, where the promise is no ratio.
    """

    name: str
    unit: str
    less_is_better: bool = True
    required: float | None = None
    most: float | None = None


class Kind(Enum):
    """How a row is driven, and so which module measures it."""

    CLIENT = "the real Java client"
    FRAMES = "the light driver"
    REBUILD = "a start over a log without queues and index"
    IDLE = "a start, and then nothing"
    CATCH_UP = "an empty slave of a broker that has a log of 1 GB"
    STARTS = "starts over many queues, after a stop and after a kill"
    HELD = "sends in turn to a broker with held pulls and to an empty one"


class Row(NamedTuple):
    """One way of using a broker; the first figure is what the row is about.

    workers: threads or messages in flight of the client; messages a second of ``latency`` and
        ``frames-latency``; frames in flight on each of ``connections``.
    driver_options: of the real client's JVM.
    has_slave: the broker is a SYNC_MASTER, and a slave of the same side follows it.
    own_settings: what only wakelog gets, for 4.9.3 does not know it.
    body_bytes, topics, queues: of ``FRAMES``; so many queues each topic has.
    """

    name: str
    kind: Kind
    figures: tuple[Figure, ...]
    mode: str = ""
    workers: int = 0
    messages: int = 0
    warmup: int = 0
    connections: int = 1
    synchronous_flush: bool = False
    access_control: bool = False
    driver_options: tuple[str, ...] = ()
    has_slave: bool = False
    own_settings: Mapping[str, str] = MappingProxyType({})
    body_bytes: int = BODY_BYTES
    topics: int = 1
    queues: int = QUEUES


_RATE = Figure("per_second", "messages/s", less_is_better=False)
_RATE_REQUIRED = _RATE._replace(required=REQUIRED)
_P50 = Figure("p50_ms", "p50, ms")
_P99 = Figure("p99_ms", "p99, ms")
_BROKER_CPU = Figure("broker_cpu", "broker's CPU s/million")
_BROKER_CPU_REQUIRED = _BROKER_CPU._replace(required=REQUIRED)
_CPU = Figure("cpu", "all CPU s/million")
_MEMORY = (Figure("pss_mib", "PSS, MiB"), Figure("memory_mib", "not droppable, MiB"))

_PROMISED = (_RATE_REQUIRED, _BROKER_CPU_REQUIRED, _CPU, *_MEMORY)
_PROMISED_SENDS = (_RATE_REQUIRED, _P50, _P99, _BROKER_CPU_REQUIRED, _CPU, *_MEMORY)
_REPORTED = (_RATE, _BROKER_CPU, _CPU, *_MEMORY)
_REPORTED_SENDS = (_RATE, _P50, _P99, _BROKER_CPU, _CPU, *_MEMORY)
_DELIVERY = (
    _P50._replace(required=REQUIRED),
    _P99,
    _BROKER_CPU_REQUIRED,
    _CPU,
    *_MEMORY,
)
_REBUILD = (
    Figure("seconds", "s", required=REQUIRED),
    Figure("kernel_seconds", "wakelog log rebuild, s"),
    Figure("verify_seconds", "wakelog log verify, s"),
    Figure("durable_seconds", "wakelog log rebuild, durable, s"),
    Figure("copy_gb_per_second", "memcpy on all cores, GB/s", less_is_better=False),
    Figure("rebuild_copy_percent", "log rebuild, % of memcpy", less_is_better=False),
    Figure("verify_copy_percent", "log verify, % of memcpy", less_is_better=False),
    Figure("whole_seconds", "with the start, s"),
    Figure("broker_cpu_seconds", "broker's CPU s", required=REQUIRED),
    Figure("cpu_seconds", "all CPU s"),
    *_MEMORY,
)
_CATCH_UP = (
    Figure("mb_per_second", "log and queues, MB/s", less_is_better=False),
    Figure("log_mb_per_second", "log alone, MB/s", less_is_better=False),
    Figure("master_cpu_per_gb", "master's CPU s/GB"),
    Figure("slave_cpu_per_gb", "slave's CPU s/GB"),
    *_MEMORY,
)
_IDLE = (
    Figure("ready_seconds", "ready after, s"),
    Figure("ready_cpu_seconds", "CPU s until ready"),
    Figure("idle_percent", "idle, % of a core"),
    Figure("above_empty_percent", "above empty actors, % of a core", most=5.0),
    *_MEMORY,
)
_STARTS = (
    Figure("killed_seconds", "ready after a kill, s"),
    Figure("killed_cpu_seconds", "CPU s until then"),
    Figure("orderly_seconds", "ready after an orderly stop, s"),
    Figure("orderly_cpu_seconds", "CPU s until then, after a stop"),
    Figure("promoted_seconds", "ready as a new master, s"),
    Figure("promoted_cpu_seconds", "CPU s until then, as a new master"),
    *_MEMORY,
)
_HELD = (
    Figure("slower", "send p50, times an empty broker's", most=1.2),
    _P50,
    Figure("empty_p50_ms", "p50 of an empty broker, ms"),
    Figure("held_kib", "memory of a held pull, KiB", most=4.0),
)

# Messages of a rebuild's log: with their keys they fill 1 GB.
REBUILD_MESSAGES = 832_000

# A consumer's second compiler takes a third of the machine for longer than any warm-up here lasts:
# with it one side's figures lay 1.5 times apart.
FIRST_COMPILER_ONLY = ("-XX:TieredStopAtLevel=1",)

ACCESS_KEY, SECRET_KEY = "benchmark", "a-secret-of-the-benchmark"
_SIGNED = (f"-DaccessKey={ACCESS_KEY}", f"-DsecretKey={SECRET_KEY}")

FROM_THE_PAGE_CACHE = {"haAckDurable": "false"}
"""What a slave of 4.9.3 always does."""

# A JVM's compiler settles within some 50,000 messages; what it takes until then is the warm-up's.
ROWS = (
    Row("sync-1", Kind.CLIENT, _PROMISED_SENDS, "sync", 1, 15_000, warmup=15_000),
    Row("sync-16", Kind.CLIENT, _PROMISED_SENDS, "sync", 16, 60_000, warmup=50_000),
    Row("sync-64", Kind.CLIENT, _PROMISED_SENDS, "sync", 64, 80_000, warmup=60_000),
    Row("transactions-64", Kind.CLIENT, _PROMISED_SENDS, "transactions", 64, 40_000, warmup=30_000),
    Row(
        "acl-64",
        Kind.CLIENT,
        _PROMISED_SENDS,
        "sync",
        64,
        80_000,
        warmup=60_000,
        access_control=True,
        driver_options=_SIGNED,
    ),
    Row(
        "tls-64",
        Kind.CLIENT,
        _PROMISED_SENDS,
        "sync",
        64,
        80_000,
        warmup=60_000,
        driver_options=("-Dtls.enable=true",),
    ),
    Row("async-256", Kind.CLIENT, _PROMISED_SENDS, "async", 256, 100_000, warmup=80_000),
    Row("oneway", Kind.CLIENT, _PROMISED, "oneway", 1, 100_000, warmup=80_000),
    Row("batch-32", Kind.CLIENT, _REPORTED_SENDS, "batch", 1, 320_000, warmup=160_000),
    Row(
        "flush-1",
        Kind.CLIENT,
        _PROMISED_SENDS,
        "sync",
        1,
        4_000,
        warmup=2_000,
        synchronous_flush=True,
    ),
    Row(
        "flush-64",
        Kind.CLIENT,
        _PROMISED_SENDS,
        "sync",
        64,
        50_000,
        warmup=30_000,
        synchronous_flush=True,
    ),
    *(
        Row(
            f"slave-{name}",
            Kind.CLIENT,
            _REPORTED_SENDS,
            "sync",
            workers,
            messages,
            warmup=messages // 2,
            has_slave=True,
            own_settings=own_settings,
        )
        for name, workers, messages, own_settings in (
            ("1", 1, 4_000, FROM_THE_PAGE_CACHE),
            ("64", 64, 60_000, FROM_THE_PAGE_CACHE),
            ("durable-1", 1, 4_000, {}),
            ("durable-64", 64, 60_000, {}),
        )
    ),
    Row(
        "consume",
        Kind.CLIENT,
        _PROMISED,
        "consume",
        1,
        300_000,
        warmup=100_000,
        driver_options=FIRST_COMPILER_ONLY,
    ),
    Row("latency", Kind.CLIENT, _DELIVERY, "latency", 500, 5_000, warmup=2_500),
    Row("frames-1", Kind.FRAMES, _REPORTED_SENDS, "send", 1, 30_000, warmup=20_000),
    Row("frames-64", Kind.FRAMES, _REPORTED_SENDS, "send", 64, 200_000, warmup=100_000),
    Row(
        "frames-4x64",
        Kind.FRAMES,
        _REPORTED_SENDS,
        "send",
        64,
        200_000,
        warmup=100_000,
        connections=4,
    ),
    Row("frames-oneway", Kind.FRAMES, _REPORTED, "oneway", 64, 200_000, warmup=100_000),
    Row("frames-batch", Kind.FRAMES, _REPORTED_SENDS, "batch", 8, 320_000, warmup=160_000),
    Row(
        "frames-latency",
        Kind.FRAMES,
        (_P50, _P99, _BROKER_CPU, _CPU, *_MEMORY),
        "delivery",
        500,
        5_000,
        warmup=2_500,
    ),
    Row("catch-up", Kind.CATCH_UP, _CATCH_UP, "up", messages=REBUILD_MESSAGES),
    Row("rebuild", Kind.REBUILD, _REBUILD, "up", messages=REBUILD_MESSAGES),
    Row("idle", Kind.IDLE, _IDLE, "up"),
    *(
        Row(f"starts-{queues}", Kind.STARTS, _STARTS, "up", messages=queues)
        for queues in (1, 1_000, 16_000)
    ),
    Row("held", Kind.HELD, _HELD, "send", 1, 10_000, warmup=3_000),
)
