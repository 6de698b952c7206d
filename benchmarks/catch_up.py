"""The row ``catch-up``: an empty slave gets a log of 1 GB.

The log is the rebuild's, one segment, so that 4.9.3's slave, which asks for the last segment alone,
gets all of it. The master starts over a copy of it and makes its queues first. The time begins with
the first byte that the slave has: 4.9.3's says nothing for 5 s after it has connected. It ends when
the slave has all of the log and all queues of it. ``log_mb_per_second`` ends with the log.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from benchmarks.load import SETTINGS, Run, memory
from benchmarks.sides import Side
from tests.compat.frames import RawConnection
from wakelog.protocol.codes import RequestCode

POLL_SECONDS = 0.02
READY_SECONDS_MAX = 120.0
CAUGHT_UP_SECONDS_MAX = 120.0


class Reach(NamedTuple):
    """How far a broker's log reaches, and how much of it is in its queues."""

    end: int
    dispatched: int


def read_reach(body: bytes) -> Reach | None:
    """Return what a broker's runtime information says, None if it does not say it yet."""
    values = json.loads(body or b"{}").get("table", {})
    try:
        end = int(values["commitLogMaxOffset"])
        return Reach(end, end - int(values["dispatchBehindBytes"]))
    except KeyError:
        return None


def timed(
    ask: Callable[[], Reach | None],
    end: int,
    *,
    clock_seconds: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[float, float]:
    """Return the seconds from a slave's first byte until it has the log, and until its queues do.

    Raises: RuntimeError if that takes too long.
    """
    began = clock_seconds()
    limit, copied = began + READY_SECONDS_MAX, 0.0
    while (now := clock_seconds()) < limit:
        reach = ask()
        if reach is None or reach.end <= 0:
            began = now
            limit = max(limit, now + CAUGHT_UP_SECONDS_MAX) if reach else limit
        else:
            if reach.end >= end:
                copied = copied or clock_seconds() - began
            if reach.dispatched >= end:
                return copied, clock_seconds() - began
        pause(POLL_SECONDS)
    raise RuntimeError("the slave has not caught up")


def measure_catch_up(side: Side) -> tuple[Run, Mapping[str, object]]:
    """Add a slave to a side that has a log, and time it; return figures and configuration."""
    with RawConnection(side.broker) as master:
        end = wait_dispatched(master)
        if end > int(SETTINGS["mappedFileSizeCommitLog"]):
            raise RuntimeError("4.9.3's slave gets the last segment alone, and the log has more")
        before = side.cost().cpu_seconds
        address = side.add_slave()
        asked: list[RawConnection] = []
        started = [0.0]

        def ask() -> Reach | None:
            if not asked:
                with suppress(OSError):
                    asked.append(RawConnection(address))
                    started.append(side.slave_cost().broker_cpu_seconds)
            return _ask(asked[0]) if asked else None

        try:
            copied, queued = timed(ask, end)
        finally:
            for connection in asked:
                connection.close()
    cost, slave = side.cost(), side.slave_cost()
    gigabytes = end / 1e9
    run: Run = {
        "errors": 0,
        "messages": end,
        "mb_per_second": end / 1e6 / queued,
        "log_mb_per_second": end / 1e6 / copied,
        "master_cpu_per_gb": (cost.cpu_seconds - slave.cpu_seconds - before) / gigabytes,
        "slave_cpu_per_gb": (slave.broker_cpu_seconds - started[-1]) / gigabytes,
        "busy_percent": {},
        **memory(cost),
    }
    return run, side.configuration


def wait_dispatched(master: RawConnection) -> int:
    """Return the log's end once the queues reach it. Raises: RuntimeError if not in time."""
    limit = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < limit:
        reach = _ask(master)
        if reach is not None and 0 < reach.end == reach.dispatched:
            return reach.end
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the broker has not made its queues in {READY_SECONDS_MAX:.0f} s")


def _ask(connection: RawConnection) -> Reach | None:
    return read_reach(connection.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)
