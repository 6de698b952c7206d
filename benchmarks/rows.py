"""What is measured: one row a way of using a broker, as data.

A row names a driver and its arguments, the flush mode, and which figure of the driver's line
counts.
``required`` is the least ratio (wakelog to RocketMQ, the other way round for times) that the
project promises; None where it is only reported.
"""

from typing import NamedTuple

BODY_BYTES = 1024


class Row(NamedTuple):
    """One way of using a broker.

    driver: ``client`` is the real Java client, ``frames`` the light one.
    """

    name: str
    driver: str
    mode: str
    workers: int
    messages: int
    warmup: int = 20_000
    figure: str = "per_second"
    synchronous_flush: bool = False
    required: float | None = 0.95

    @property
    def less_is_better(self) -> bool:
        """Whether the figure is a time."""
        return self.figure != "per_second"


ROWS = (
    Row("sync-1", "client", "sync", 1, 20_000),
    Row("sync-16", "client", "sync", 16, 100_000),
    Row("sync-64", "client", "sync", 64, 150_000),
    Row("async-256", "client", "async", 256, 150_000),
    Row("oneway", "client", "oneway", 1, 100_000),
    Row("batch-32", "client", "batch", 1, 320_000, required=None),
    Row("flush-1", "client", "sync", 1, 4_000, warmup=1_000, synchronous_flush=True),
    Row("flush-64", "client", "sync", 64, 60_000, warmup=10_000, synchronous_flush=True),
    Row("consume", "client", "consume", 1, 150_000),
    Row("latency-p50", "client", "latency", 500, 5_000, warmup=2_500, figure="p50_ms"),
    Row("latency-p99", "client", "latency", 500, 5_000, 2_500, figure="p99_ms", required=None),
    Row("frames-64", "frames", "send", 64, 200_000, required=None),
    Row("frames-4x64", "frames", "send", 64, 300_000, required=None),
    Row("frames-batch", "frames", "batch", 8, 320_000, required=None),
)
