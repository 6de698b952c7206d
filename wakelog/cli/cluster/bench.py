"""`wakelog bench`: send to a topic, consume it, or both, and say how fast that was.

A message begins with a mark of the run and the time at which it was made. So its way to the
consumer can be timed, and messages of others are not counted. Nothing here knows wakelog: any
RocketMQ 4.x can be measured.

Invariants: at most `UNDER_WAY_BYTES_MAX` of messages are under way. A figure has counted each
message once, after its receipt or its arrival.

Source: none upstream; `nats bench` and `kafka-producer-perf-test` are the models.
"""

import asyncio
import math
import os
import struct
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.output import Columns
from wakelog.cli.cluster.send import account_of
from wakelog.cli.stop_signals import run_interruptibly
from wakelog.client.consumer import Consumer
from wakelog.client.errors import ClientError
from wakelog.client.messages import BODY_BYTES_MAX, Message
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer

GROUP: Final = "wakelog-bench"
UNDER_WAY_BYTES_MAX: Final = 512 << 20
FETCH_MAX: Final = 1_000
PROGRESS_SECONDS: Final = 1.0
SILENCE_SECONDS_MAX: Final = 5.0
"""A consumer that gets nothing for so long has come to the end, or waits in vain."""
BUCKETS_PER_OCTAVE: Final = 32
"""Latencies are kept to some two percent."""

HEADS: Final = (
    "what", "messages", "seconds", "per second", "mib per second", "p50 ms", "p99 ms", "p999 ms",
    "max ms",
)  # fmt: skip

Mode = Literal["send", "consume", "both"]

_MARK = struct.Struct(">8sq")
BODY_BYTES_MIN: Final = _MARK.size


class Load(NamedTuple):
    """What is sent. batch: messages of one call. in_flight: calls that wait at the same time.

    rate: messages a second, 0 for as many as can be.
    """

    topic: str
    messages: int = 100_000
    size_bytes: int = 1_024
    batch: int = 1
    in_flight: int = 256
    rate: float = 0.0

    def check(self) -> None:
        """Raise NotPossible for what cannot be sent."""
        if not BODY_BYTES_MIN <= self.size_bytes <= BODY_BYTES_MAX:
            cause = f"--size {self.size_bytes} is out of range"
            raise NotPossible(cause, f"Give {BODY_BYTES_MIN} to {BODY_BYTES_MAX}.")
        if self.under_way_bytes > UNDER_WAY_BYTES_MAX:
            cause = f"{self.under_way_bytes:,} bytes would be under way"
            remedy = f"Lower --in-flight, --batch or --size to {UNDER_WAY_BYTES_MAX:,} in all."
            raise NotPossible(cause, remedy)

    @property
    def under_way_bytes(self) -> int:
        """How many bytes may be under way."""
        return self.in_flight * self.batch * self.size_bytes


class Latencies:
    """How long things took, in buckets."""

    def __init__(self) -> None:
        """Have none."""
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.max_ns = 0

    def add(self, took_ns: int, count: int = 1) -> None:
        """Note `count` things that took as long."""
        self._buckets[math.ceil(math.log2(max(took_ns, 1)) * BUCKETS_PER_OCTAVE)] += count
        self.count += count
        self.max_ns = max(self.max_ns, took_ns)

    def quantile_ms(self, share: float) -> float | None:
        """Return what the given share of all did not exceed, None without any."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return float(min(2 ** (bucket / BUCKETS_PER_OCTAVE), self.max_ns) / 1e6)
        return None


class Figure:
    """What one side of the run has done so far."""

    def __init__(self, what: str, size_bytes: int, now_ns: int) -> None:
        """Begin now."""
        self.what = what
        self.latencies = Latencies()
        self.count = 0
        self._size_bytes = size_bytes
        self._began_ns = self._last_ns = now_ns

    def add(self, count: int, now_ns: int) -> None:
        """Count messages that are through."""
        self.count += count
        self._last_ns = now_ns

    @property
    def seconds(self) -> float:
        """From the begin to the last message."""
        return max(self._last_ns - self._began_ns, 1) / 1e9

    def row(self) -> tuple[Any, ...]:
        """Return what `HEADS` names."""
        per_second = self.count / self.seconds
        times = [self.latencies.quantile_ms(share) for share in (0.5, 0.99, 0.999, 1.0)]
        times_ms = [None if each is None else round(each, 3) for each in times]
        mib = per_second * self._size_bytes / (1 << 20)
        rounded = round(self.seconds, 3), round(per_second, 1), round(mib, 1)
        return self.what, self.count, *rounded, *times_ms

    def line(self, wanted: int) -> str:
        """Return how far it is, for a terminal."""
        p99 = self.latencies.quantile_ms(0.99)
        late = "" if p99 is None else f", p99 {p99:,.1f} ms"
        return f"{self.what} {self.count:,} of {wanted:,}, {self.count / self.seconds:,.0f}/s{late}"


class Bench:
    """One run. One loop, one thread."""

    def __init__(
        self,
        options: ClientOptions,
        load: Load,
        *,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Connect to nothing yet. Raises: NotPossible."""
        load.check()
        self._options = options
        self._load = load
        self._now_ns = now_ns
        self._run = os.urandom(8)
        self._filler = os.urandom((load.size_bytes - BODY_BYTES_MIN + 1) // 2).hex().encode()
        self._begun_count = 0
        self.figures: list[Figure] = []

    async def run(self, mode: Mode) -> Columns:
        """Do it, and return what came out. Raises: ClientError."""
        if mode == "send":
            async with self._producer() as producer:
                await self._send(producer)
        elif mode == "consume":
            async with self._consumer("first") as consumer:
                await self._consume(consumer, counts_all=True)
        else:
            await self._both()
        return Columns(HEADS, [each.row() for each in self.figures])

    async def _both(self) -> None:
        async with self._producer() as producer:
            await producer.send(self._load.topic, b"warm-up")  # makes the topic if need be
            async with self._consumer("last") as consumer, asyncio.TaskGroup() as group:
                group.create_task(self._consume(consumer, counts_all=False))
                group.create_task(self._send(producer))

    def _producer(self) -> Producer:
        load = self._load
        return Producer(
            ";".join(self._options.name_servers),
            group=GROUP,
            messages_max=load.in_flight * load.batch,
            bytes_max=load.under_way_bytes,
            **account_of(self._options),
        )

    @asynccontextmanager
    async def _consumer(self, place: str) -> AsyncIterator[Consumer]:
        addresses = ";".join(self._options.name_servers)
        async with Consumer(addresses, group=GROUP, **account_of(self._options)) as consumer:
            queues = await consumer.queues(self._load.topic)
            await consumer.assign(queues)
            for queue in queues:
                await consumer.seek(queue, place)
            yield consumer

    def _begin(self, what: str) -> Figure:
        figure = Figure(what, self._load.size_bytes, self._now_ns())
        self.figures.append(figure)
        return figure

    # Sending

    async def _send(self, producer: Producer) -> None:
        """Send all messages. Raises: ClientError."""
        load = self._load
        await producer.queues(load.topic)  # connects
        figure = self._begin("send")
        began_ns = self._now_ns()
        callers = (self._call(producer, figure, began_ns) for _ in range(load.in_flight))
        try:
            async with asyncio.TaskGroup() as group:
                for each in callers:
                    group.create_task(each)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _call(self, producer: Producer, figure: Figure, began_ns: int) -> None:
        """Send until all messages are begun, a call after the other."""
        load = self._load
        while count := min(load.batch, load.messages - self._begun_count):
            if load.rate:
                due_ns = began_ns + self._begun_count / load.rate * 1e9
                self._begun_count += count
                await asyncio.sleep(max(due_ns - self._now_ns(), 0) / 1e9)
            else:
                self._begun_count += count
            sent_ns = self._now_ns()
            body = _MARK.pack(self._run, sent_ns) + self._filler
            body = body[: load.size_bytes]
            if load.batch == 1:
                await producer.send(load.topic, body)
            else:
                await producer.send_many([Message(load.topic, body)] * count)
            now_ns = self._now_ns()
            figure.add(count, now_ns)
            figure.latencies.add(now_ns - sent_ns, count)

    # Consuming

    async def _consume(self, consumer: Consumer, *, counts_all: bool) -> None:
        """Consume as many messages as are sent. Raises: ClientError."""
        wanted, figure = self._load.messages, self._begin("consume")
        silence_seconds = SILENCE_SECONDS_MAX + (2 / self._load.rate if self._load.rate else 0)
        while figure.count < wanted:
            messages = await consumer.fetch(FETCH_MAX, silence_seconds)
            if not messages:
                if counts_all and figure.count:
                    return  # that is all there is
                cause = f"{figure.count:,} of {wanted:,} messages came, then none for "
                cause += f"{silence_seconds:.1f} s from topic {self._load.topic}"
                remedy = "Send some first" if counts_all else "Look with `wakelog doctor`"
                raise ClientError(cause, remedy)
            now_ns = self._now_ns()
            await consumer.ack(*messages)
            if counts_all:
                figure.add(len(messages), now_ns)
                continue
            for message in messages:
                made_ns = self._made_ns(message.body)
                if made_ns is not None:
                    figure.add(1, now_ns)
                    figure.latencies.add(now_ns - made_ns)

    def _made_ns(self, body: bytes) -> int | None:
        """Return when a message was made, None for one of another run."""
        if len(body) < _MARK.size:
            return None
        run, made_ns = _MARK.unpack_from(body)
        return made_ns if run == self._run else None


async def watched(
    running: Awaitable[Columns], lines: Callable[[], Iterator[str]], show: Callable[[str], None]
) -> Columns:
    """Return the outcome; until then show the lines each `PROGRESS_SECONDS`."""

    async def watch() -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            show("; ".join(lines()))

    watching = asyncio.create_task(watch())
    try:
        return await running
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


def run_bench(options: ClientOptions, load: Load, mode: Mode) -> Columns:
    """Run it, on a terminal with progress, and return the figures. Raises: ClientError."""
    bench = Bench(options, load)
    is_terminal = sys.stderr.isatty()

    def lines() -> Iterator[str]:
        return (each.line(load.messages) for each in bench.figures)

    def show(line: str) -> None:
        if is_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    try:
        return run_interruptibly(watched(bench.run(mode), lines, show))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        show("")
