"""What a scrape of a large broker takes, and what it costs those who send.

    python -m benchmarks.scrape [--every SECONDS ...] [--turns N] [--results FOLDER]

The broker of `wakelog up` has 1,000 topics of 8 queues, a message in each queue, and 50 groups that
have consumed of every topic. It serves all three sets of names. A scrape is what Prometheus asks
for: OpenMetrics with gzip. Scrapes one after the other give their time and each process's CPU. The
first few are left out: they read every queue once.

Then sends are measured in turns, with a scrape every so many seconds and without. First 16 are kept
in flight, which gives the rate. Then sends keep a steady pace, whose p99 counts. A ratio is taken
within a turn.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.held import add_topics, topic_name
from benchmarks.kept import RESULTS, row_lines
from benchmarks.loop import figures_of, run
from benchmarks.paced import Connection, Template
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import Wakelog
from tests.compat.processes import free_port
from wakelog.protocol.codes import RequestCode

TOPICS, QUEUES, GROUPS = 1_000, 8, 50
SETTINGS = {
    "mappedFileSizeConsumeQueue": "20000",
    "wakelog.metricsNames": "native,exporter,v5",
}
ACCEPTS = {
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
}
FIRST_SCRAPES = 5
SCRAPES = 9
EVERY_SECONDS = (15.0, 5.0)
"""Between two scrapes; Prometheus' own default is a minute, deploy/prometheus.yml has 15 s."""

TURNS = 7
PER_SECOND = 1_000.0
PACED_SECONDS = 15.0
MESSAGES = 60_000
SENT_BYTES = BODY_BYTES + 1
"""Of a body: larger ones are not sent in batches."""

WINDOW = 256
SCRAPE_SECONDS_MAX = 1.0
LOSS_MAX = 0.05
CPU_MS_MIN = 5
BROKER = "BrokerActor"
SHOWN = ("per_second", "p50_ms", "p99_ms")
JSON_NAME = "scrape.json"

Figures = dict[str, Any]


def prepare(store: Path) -> None:
    """Write topics, and offsets of every group in every queue, into a store that is empty."""
    add_topics(store, TOPICS, QUEUES)
    offsets = dict.fromkeys(map(str, range(QUEUES)), 0)
    pairs = (f"{topic_name(each)}@{group}" for each in range(TOPICS) for group in group_names())
    path = store / "config" / "consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": dict.fromkeys(pairs, offsets)}))


def group_names() -> list[str]:
    """Return the names of the groups."""
    return [f"group-{number:02}" for number in range(GROUPS)]


def ask_all(address: str, requests: Iterable[Template]) -> None:
    """Send requests, some in flight at a time; what they answer does not count."""
    left = enumerate(requests)
    with Connection(address) as connection:
        while window := list(islice(left, WINDOW)):
            for number, request in window:
                connection.send(request, number)
            waiting = len(window)
            while waiting:
                waiting -= len(connection.answers(10.0))


def sends() -> Iterator[Template]:
    """Yield a send to each queue."""
    fields = {"a": "scrape", "c": "TBW102", "d": str(QUEUES), "f": "0", "g": "1", "h": "0"}
    fields |= {"i": "", "j": "0", "k": "false", "m": "false"}
    for topic in map(topic_name, range(TOPICS)):
        for queue in range(QUEUES):
            own = {"b": topic, "e": str(queue)}
            yield Template(RequestCode.SEND_MESSAGE_V2, fields | own, bytes(100))


def pulls() -> Iterator[Template]:
    """Yield a pull of each group from each topic."""
    fields = {"queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4"}
    fields |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
    fields |= {"subVersion": "1", "expressionType": "TAG"}
    for topic in map(topic_name, range(TOPICS)):
        for group in group_names():
            own = {"consumerGroup": group, "topic": topic}
            yield Template(RequestCode.PULL_MESSAGE, fields | own)


def scrape(port: int) -> tuple[float, int]:
    """Scrape once; return how many seconds it took, and the bytes of the answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=ACCEPTS)
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=30) as answer:
        size_bytes = len(answer.read())
    return time.perf_counter() - began, size_bytes


@contextmanager
def scraped(port: int, every_seconds: float) -> Iterator[list[float]]:
    """Scrape at a pace until the end of the block; gives how long each scrape took."""
    is_over, took = threading.Event(), list[float]()

    def scrape_on() -> None:
        while not is_over.wait(max(0.0, every_seconds - (took[-1] if took else every_seconds))):
            took.append(scrape(port)[0])

    thread = threading.Thread(target=scrape_on)
    thread.start()
    try:
        yield took
    finally:
        is_over.set()
        thread.join()


def send(address: str) -> Figures:
    """Send as fast as it goes, then at a steady pace; return what came out."""
    filled = run("fill", address, "fast", SENT_BYTES, MESSAGES)
    paced = figures_of(run("send", address, "paced", PER_SECOND, PACED_SECONDS)["samples"])
    per_second = round(filled["messages"] / filled["seconds"])
    return {"per_second": per_second, "p50_ms": paced["p50_ms"], "p99_ms": paced["p99_ms"]}


def measure(port: int, address: str, every_seconds: float, turns: int) -> list[dict[str, Figures]]:
    """Return each turn: what sends were with scrapes and without, and how long those took."""
    found = []
    send(address)
    for number in range(turns):
        turn: dict[str, Figures] = {}
        for name in ("scraped", "alone") if number % 2 else ("alone", "scraped"):
            if name == "alone":
                turn[name] = send(address)
            else:
                with scraped(port, every_seconds) as took:
                    turn[name] = send(address)
                turn[name] |= {"scrapes": len(took), "scrape_s": _median(took)}
        found.append(turn)
        print(f"turn {number + 1}: {turn}", flush=True)
    return found


def ratios(turns: Sequence[Mapping[str, Figures]], figure: str) -> Figures:
    """Return what a figure was with scrapes by what it was without: median, least, greatest."""
    found = [round(turn["scraped"][figure] / turn["alone"][figure], 3) for turn in turns]
    return {"median": _median(found), "min": min(found), "max": max(found)}


def cost(side: Wakelog, port: int) -> Figures:
    """Scrape some times, one after the other; return what one takes, and whose CPU.

    The CPU holds on a busy machine, too. That of the Broker is all that the send path can lose.
    """
    for _ in range(FIRST_SCRAPES):
        scrape(port)
    before = side.cost().cpu_by_role
    taken = [scrape(port) for _ in range(SCRAPES)]
    after = side.cost().cpu_by_role
    spent = {role: after[role] - seconds for role, seconds in before.items() if role in after}
    cpu_ms = {role: round(seconds * 1000 / SCRAPES) for role, seconds in spent.items()}
    return {
        "scrape_s": _median([seconds for seconds, _ in taken]),
        "scrape_s_least": round(min(seconds for seconds, _ in taken), 3),
        "gzip_bytes": taken[-1][1],
        "cpu_ms": {role: ms for role, ms in sorted(cpu_ms.items()) if ms >= CPU_MS_MIN},
    }


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3)


def main(arguments: Sequence[str]) -> int:
    """Measure, and keep the result; 1 if a scrape takes too long or costs too many sends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape", description=__doc__)
    parser.add_argument("--every", type=float, nargs="+", default=EVERY_SECONDS, metavar="SECONDS")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    port = free_port()

    class Scraped(Wakelog):
        options = ("--metrics-port", str(port))

    with tempfile.TemporaryDirectory(prefix="wakelog-scrape-") as name:
        side = Scraped(Path(name) / "up", SETTINGS, prepare)
        try:
            ask_all(side.broker, sends())
            ask_all(side.broker, pulls())
            costs = cost(side, port)
            print(costs, flush=True)
            by_interval = {
                each: measure(port, side.broker, each, options.turns) for each in options.every
            }
        finally:
            side.stop()
    result = {
        "topics": TOPICS,
        "queues": QUEUES,
        "groups": GROUPS,
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "load": os.getloadavg()[1],
        **costs,
        "ratio": {
            f"every {seconds:g} s": {each: ratios(turns, each) for each in SHOWN}
            for seconds, turns in by_interval.items()
        },
        "turns": [turn for turns in by_interval.values() for turn in turns],
    }
    text = row_lines(result)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / JSON_NAME).write_text(text + "\n")
    print(text)
    is_slow = result["scrape_s_least"] > SCRAPE_SECONDS_MAX
    return int(is_slow or costs["cpu_ms"].get(BROKER, 0) > LOSS_MAX * min(options.every) * 1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
