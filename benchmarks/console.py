"""What the console answers in, what it takes, and what a broker pays for it.

    python -m benchmarks.console [--topics 2000] [--groups 500] [--seconds 60] [--pairs 5]

One `wakelog up --local` has so many topics of 8 queues, and groups that have committed. First each
page is asked for, again and again. Then the requests that the broker gets are counted, while
nobody watches and while a browser does. At last messages are sent to brokers with a console that
is watched and without one, in turns: the ratio is above 1 where the broker beside a console is
faster.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.idle import use_of
from tests.compat.processes import free_port
from wakelog.client.admin import Admin, open_admin
from wakelog.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from wakelog.protocol.codes import RequestCode

PAGES: Final = (
    "/", "/topics", "/topics?page=20", "/topics/topic-7", "/groups", "/groups/group-7", "/brokers",
    "/brokers/broker-a", "/clients", "/dead-letters", "/delayed", "/access", "/trace", "/audit",
    "/messages", "/search?q=topic-1",
)  # fmt: skip
"""Those that the console does not have are left out."""

QUEUES: Final = 8
AT_ONCE_MAX: Final = 16
READY_SECONDS_MAX: Final = 60.0
SETTLE_SECONDS: Final = 40.0
"""After the last page nobody is a viewer any more."""
ASKS: Final = 30
MESSAGES: Final = 600_000
START_SECONDS: Final = 10.0
"""After its first page a console has read the cluster, and imports nothing more."""
RATE_NAMES: Final = ("per second", "per_second", "persecond")
P95_MS_MAX: Final = 300.0
MIB: Final = 1 << 20


class Deployment(NamedTuple):
    """A broker that runs, and where things are."""

    name_server: str
    broker: str
    console: str
    metrics: str
    process_id: int

    @property
    def console_id(self) -> int:
        """The process of the console."""
        children = Path(f"/proc/{self.process_id}/task/{self.process_id}/children")
        for text in children.read_text().split():
            if b"console_process" in Path(f"/proc/{text}/cmdline").read_bytes():
                return int(text)
        return 0


@contextlib.contextmanager
def deployment(*, has_console: bool) -> Iterator[Deployment]:
    """Yield a broker of its own, which ends with the block."""
    name_server, broker, console, metrics = free_port(), free_port(-2, 1), free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="wakelog-console-") as folder:
        words = ["up", "--local", "--store", f"{folder}/store", "--namesrv-port", str(name_server)]
        words += ["--broker-port", str(broker), "--metrics-port", str(metrics)]
        words += ["--console-port", str(console) if has_console else "0"]
        command = [sys.executable, "-m", "wakelog", *words]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as up:
            try:
                url = f"http://127.0.0.1:{console if has_console else metrics}/"
                wait_answer(url if has_console else f"{url}metrics")
                yield Deployment(
                    f"127.0.0.1:{name_server}",
                    f"127.0.0.1:{broker}",
                    f"http://127.0.0.1:{console}",
                    f"http://127.0.0.1:{metrics}/metrics",
                    up.pid,
                )
            finally:
                up.send_signal(signal.SIGINT)


def wait_answer(url: str) -> None:
    """Return once a page answers. Raises: TimeoutError."""
    end_seconds = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < end_seconds:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise TimeoutError(url)


def wait_shown(at: Deployment, topics: int) -> None:
    """Return once the console's pages have all topics. Raises: TimeoutError."""
    end_seconds = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < end_seconds:
        with urllib.request.urlopen(f"{at.console}/topics", timeout=30) as answer:
            if f"{topics:,} topics" in answer.read().decode():
                return
        time.sleep(1)
    raise TimeoutError(f"{at.console} does not show {topics:,} topics")


async def fill(at: Deployment, topics: int, groups: int) -> None:
    """Make topics and groups; each group has committed for four topics."""
    slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def make_topic(admin: Admin, number: int) -> None:
        async with slots:
            await admin.update_topic(at.broker, TopicConfig(f"topic-{number}", QUEUES, QUEUES))

    async def make_group(admin: Admin, number: int) -> None:
        group = f"group-{number}"
        async with slots:
            await admin.update_group(at.broker, SubscriptionGroupConfig(group))
            for topic in (f"topic-{(number * 4 + each) % topics}" for each in range(4)):
                for queue in range(QUEUES):
                    fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
                    fields["commitOffset"] = 0
                    await admin.ask(at.broker, RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    async with open_admin(at.name_server, timeout=timedelta(seconds=30)) as admin:
        await asyncio.gather(*(make_topic(admin, number) for number in range(topics)))
        await asyncio.gather(*(make_group(admin, number) for number in range(groups)))


def ask_pages(at: Deployment) -> dict[str, list[float]]:
    """Return how many ms each page took, each time."""
    found: dict[str, list[float]] = {}
    for _ in range(ASKS):
        for page in PAGES:
            began = time.perf_counter()
            try:
                with urllib.request.urlopen(at.console + page, timeout=30) as answer:
                    answer.read()
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    continue
                raise
            found.setdefault(page, []).append(1000 * (time.perf_counter() - began))
    return found


def requests_of(at: Deployment) -> float:
    """Return how many requests the broker has processed."""
    with urllib.request.urlopen(at.metrics, timeout=30) as answer:
        text = answer.read().decode()
    rows = re.findall(r'^rocketmq_requests_total\{[^}]*role="broker"[^}]*\} (\S+)', text, re.M)
    return sum(map(float, rows))


@contextlib.contextmanager
def watching(at: Deployment) -> Iterator[None]:
    """Watch the first page, as a browser does, until the end of the block."""
    answer = urllib.request.urlopen(f"{at.console}/live?of=/", timeout=60)
    is_over = threading.Event()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            while not is_over.is_set() and answer.readline():
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join(60)
        answer.close()


def cost(at: Deployment, seconds: float) -> tuple[float, float, float]:
    """Return requests a second, and % of a core of the broker's and of the console's process."""
    folders = [Path(f"/proc/{each}") for each in (at.process_id, at.console_id)]
    before, uses = requests_of(at), [use_of(folder) for folder in folders]
    time.sleep(seconds)
    spent = [use_of(x).since(use).cpu_seconds for x, use in zip(folders, uses, strict=True)]
    asked = (requests_of(at) - before) / seconds
    return asked, *(100 * each / seconds for each in spent)  # type: ignore[return-value]


def sent_a_second(at: Deployment, messages: int) -> float:
    """Return how many messages a second a sender gets acknowledged."""
    words = ["bench", "speed", "-n", at.name_server, "--messages", str(messages), "-o", "json"]
    command = [sys.executable, "-m", "wakelog", *words]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    values = json.loads(text.splitlines()[-1])
    [rate] = [value for name, value in values.items() if name.lower() in RATE_NAMES]
    return float(rate)


def compare(pairs: int, messages: int) -> list[str]:
    """Return the rates of a broker beside a console that is watched, and of one without."""
    ratios, lines = [], []
    for number in range(pairs):
        rates = {}
        for has_console in (True, False) if number % 2 else (False, True):
            with deployment(has_console=has_console) as at, contextlib.ExitStack() as stack:
                if has_console:
                    stack.enter_context(watching(at))
                time.sleep(START_SECONDS)
                rates[has_console] = sent_a_second(at, messages)
        ratios.append(rates[True] / rates[False])
        lines.append(f"| {rates[True]:,.0f} | {rates[False]:,.0f} | {ratios[-1]:.3f} |")
    head = ["| messages/s beside a console | without | ratio |", "| ---: | ---: | ---: |"]
    return [*head, *lines, "", f"Median of the ratios: {statistics.median(ratios):.3f}."]


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table; 1 if a page is too slow."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=SETTLE_SECONDS)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    options = parser.parse_args(arguments)
    is_slow = False
    with deployment(has_console=True) as at:
        asyncio.run(fill(at, options.topics, options.groups))
        wait_shown(at, options.topics)
        print(f"## {options.topics:,} topics of {QUEUES} queues, {options.groups:,} groups\n")
        print("| page | p50, ms | p95, ms |\n| --- | ---: | ---: |")
        for page, took in ask_pages(at).items():
            p95_ms = statistics.quantiles(took, n=20)[-1]
            is_slow |= p95_ms > P95_MS_MAX
            print(f"| `{page}` | {statistics.median(took):.1f} | {p95_ms:.1f} |", flush=True)
        print("\n| | requests/s | broker, % of a core | console, % of a core |")
        print("| --- | ---: | ---: | ---: |")
        with watching(at):
            print("| watched | {:.1f} | {:.2f} | {:.2f} |".format(*cost(at, options.seconds)))
        time.sleep(options.settle)
        print("| not watched | {:.1f} | {:.2f} | {:.2f} |".format(*cost(at, options.seconds)))
        memory = use_of(Path(f"/proc/{at.console_id}")).pss_bytes / MIB
        print(f"\nThe console's process has {memory:.0f} MiB on {os.cpu_count()} cores.\n")
    if options.pairs:
        print("\n".join(compare(options.pairs, options.messages)))
    return 1 if is_slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
