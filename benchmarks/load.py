"""Rows that a driver makes: its figures, what the broker used meanwhile, and the driver itself.

The drivers are Java programs of ``drivers/``. When warm they say so and wait, so that the cost of
the warm-up is read apart. At the end they print a line of JSON with the figures, ``errors`` among
them.
"""

import json
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cost import Cost, cpu_seconds_of
from benchmarks.rows import ACCESS_KEY, BODY_BYTES, QUEUES, SECRET_KEY, Kind, Row
from benchmarks.sides import Side
from tests.compat.frames import RawConnection
from tests.compat.provision import JVM_OPTIONS, java_runtime, rocketmq_classpath

DRIVERS = Path(__file__).parent / "drivers"
DRIVER_SECONDS_MAX = 300
SETTINGS = {"mappedFileSizeCommitLog": str(1 << 30)}
TOPIC = "benchmark"
UPDATE_AND_CREATE_TOPIC = 17
HOME = "home"
ACCOUNTS = f"""accounts:
- accessKey: {ACCESS_KEY}
  secretKey: {SECRET_KEY}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""
WARM = "warm\n"
MIB = 1 << 20
BACKLOG_IN_FLIGHT = 256
QUEUE_FILE_BYTES = 40_000
"""Of the row with 16,000 queues: wakelog reserves up to 64 KiB of a larger file ahead."""
SETTLE_SECONDS = 1.0
"""After a backlog was sent, so that dispatching it is not counted as consuming it."""

Run = dict[str, Any]
"""The figures of one run of one side, by name."""


class Drivers(NamedTuple):
    """The compiled drivers."""

    classes: Path

    def client(
        self,
        side: Side,
        mode: str,
        workers: int,
        *,
        warmup: int,
        count: int,
        when_warm: Callable[[], None] = lambda: None,
        options: Sequence[str] = (),
    ) -> Run:
        """Run the real client, in a JVM with some more options."""
        numbers = [str(workers), str(warmup), str(count), str(BODY_BYTES)]
        command = [*options, "ClientLoad", side.name_server, mode, *numbers, TOPIC]
        return self._java(command, when_warm)

    def frames(
        self, side: Side, row: Row, when_warm: Callable[[], None], topic: str = TOPIC
    ) -> Run:
        """Run the light driver; its topics have to be there. topic: a format of their numbers."""
        host, _, port = side.broker.rpartition(":")
        counts = [row.connections, row.workers, row.warmup, row.messages, row.body_bytes]
        numbers = [str(count) for count in counts]
        command = ["FrameLoad", host, port, row.mode, *numbers, topic]
        command += [str(row.queues), str(row.topics)]
        return self._java(command, when_warm)

    def _java(self, command: list[str], when_warm: Callable[[], None]) -> Run:
        runtime = java_runtime()
        environment = {**runtime.env, "CLASSPATH": f"{self.classes}:{rocketmq_classpath()}"}
        lines: list[str] = []
        began_seconds = before_seconds = 0.0
        cpu_seconds = _children_seconds()
        home = f"-Duser.home={self.classes}"  # where RocketMQ's client writes its log
        with subprocess.Popen(
            [runtime.java, "-Xmx1g", home, *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            limit = threading.Timer(DRIVER_SECONDS_MAX, process.kill)
            limit.start()
            try:
                for line in process.stdout:
                    lines.append(line)
                    if line == WARM:
                        when_warm()
                        before_seconds = cpu_seconds_of(Path(f"/proc/{process.pid}"))
                        began_seconds = time.monotonic()
                        process.stdin.write("\n")
                        process.stdin.flush()
            finally:
                limit.cancel()
        found = [line for line in lines if line.startswith("{")]  # a client may log after it
        if not found:
            raise RuntimeError(f"{' '.join(command)} printed no figures: {''.join(lines)}")
        figures: Run = json.loads(found[-1])
        spent_seconds = _children_seconds() - cpu_seconds - before_seconds
        figures["driver_cpu_seconds"] = spent_seconds
        figures["driver_seconds"] = time.monotonic() - began_seconds
        return figures


def compile_drivers(classes: Path) -> Drivers:
    """Compile both drivers against the real client."""
    runtime = java_runtime()
    sources = [str(path) for path in sorted(DRIVERS.glob("*.java"))]
    options = [f"-J{option}" for option in JVM_OPTIONS]
    options += ["-XDsuppressNotes", "-cp", rocketmq_classpath(), "-d", str(classes)]
    subprocess.run([runtime.javac, *options, *sources], env=runtime.env, check=True)
    return Drivers(classes)


def settings_of(row: Row, folder: Path) -> Mapping[str, str]:
    """Return the keys of broker.conf that both sides get. folder: of the side."""
    settings = SETTINGS | {
        "flushDiskType": "SYNC_FLUSH" if row.synchronous_flush else "ASYNC_FLUSH"
    }
    if row.kind is Kind.HELD:
        settings |= {"mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES)}
    if row.has_slave or row.kind is Kind.CATCH_UP:
        settings |= {"brokerRole": "SYNC_MASTER"}
    if row.access_control:
        settings |= {"aclEnable": "true", "rocketmqHome": str(folder / HOME)}
    return settings


def write_accounts(store: Path) -> None:
    """Write the one account, with which the driver signs, beside a side's store."""
    accounts = store.parent / HOME / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    accounts.chmod(0o600)


def measure_load(row: Row, side: Side, drivers: Drivers) -> Run:
    """Run the row's driver once, after what it needs is there."""
    before: list[Cost] = []

    def measure_warm() -> None:
        before.append(side.cost())

    if row.mode == "consume":
        _fill(drivers, side, row.warmup + row.messages)
        time.sleep(SETTLE_SECONDS)
    elif row.kind is Kind.FRAMES:
        create_topic(side, TOPIC)
    if row.kind is Kind.CLIENT:
        numbers = {"warmup": row.warmup, "count": row.messages}
        run = drivers.client(
            side,
            row.mode,
            row.workers,
            **numbers,
            when_warm=measure_warm,
            options=row.driver_options,
        )
    else:
        run = drivers.frames(side, row, measure_warm)
    # Consuming has no pause behind its warm-up: all that was consumed is counted.
    counted = run["messages"] + (row.warmup if row.mode == "consume" else 0)
    return run | costs(before[-1], side.cost(), run, counted)


def costs(before: Cost, after: Cost, run: Run, counted: int) -> Run:
    """Return what so many messages of a run cost, and how busy which process was."""
    millions = counted / 1e6
    used = {
        role: _spent(before.cpu_by_role.get(role, 0.0), seconds)
        for role, seconds in after.cpu_by_role.items()
    }
    seconds = run["driver_seconds"]
    busy = {role: 100 * cpu_seconds / seconds for role, cpu_seconds in used.items()}
    busy["the driver"] = 100 * run["driver_cpu_seconds"] / seconds
    return {
        "cpu": _spent(before.cpu_seconds, after.cpu_seconds) / millions,
        "broker_cpu": _spent(before.broker_cpu_seconds, after.broker_cpu_seconds) / millions,
        **memory(after),
        "busy_percent": {role: round(share, 1) for role, share in busy.items() if share >= 1},
    }


def _spent(before_seconds: float, after_seconds: float) -> float:
    """Return the difference of two sums of what the kernel counts in hundredths of a second."""
    return round(after_seconds - before_seconds, 2)


def memory(cost: Cost) -> Run:
    """Return the figures of memory."""
    return {
        "pss_mib": cost.pss_bytes / MIB,
        "memory_mib": cost.memory_bytes / MIB,
        "shared_memory_mib": cost.shared_memory_bytes / MIB,
    }


def create_topic(side: Side, topic: str) -> None:
    """Make a topic of 4 queues. Raises: RuntimeError if the broker refuses."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    with RawConnection(side.broker) as connection:
        answer = connection.ask(UPDATE_AND_CREATE_TOPIC, fields)
    if answer.code:
        raise RuntimeError(f"the topic was not made: {answer.header}")


def _fill(drivers: Drivers, side: Side, count: int) -> None:
    sent = drivers.client(side, "async", BACKLOG_IN_FLIGHT, warmup=0, count=count)
    if sent["errors"]:
        raise RuntimeError(f"the backlog was not sent: {sent}")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
