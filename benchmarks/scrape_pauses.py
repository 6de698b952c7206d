"""What a scrape does to the loop of a broker: CPU on the loop and beside it, and pauses.

    python -m benchmarks.scrape_pauses [--scrapes N] [--results FOLDER]

The broker of `benchmarks.scrape` runs in this process, in one thread with its loop. Nothing makes
the text here: in a deployment that is the Supervisor's work. First come scrapes one after the
other. The first of them reads every queue. Then the loop is asked for a turn each 2 ms, in spans
with a scrape and without one by turns. The longest time between two turns of a span is its pause.

CPU holds on a busy machine, too. Of pauses compare both kinds of spans.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.kept import RESULTS, row_lines
from benchmarks.scrape import SETTINGS, ask_all, prepare, pulls, sends
from tests.actors.deployments import running, small_plan
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.deploy.local import LocalDeployment

SCRAPES = 15
TURN_SECONDS = 0.002
SPAN_SECONDS = 0.4
JSON_NAME = "scrape_pauses.json"
PATIENT = "waitTimeMillsInSendQueue=10000"
"""No send is refused for having waited: it comes from a thread of this process."""

Figures = dict[str, Any]


class Measured:
    """Measures the scrapes of one broker."""

    def __init__(self, service: BrokerService) -> None:
        self._service = service
        self.thread_ms: list[float] = []
        submit = service._pool.submit

        def timed(work: Callable[[], Any]) -> Future[Any]:
            def run() -> Any:
                began = time.thread_time()
                try:
                    return work()
                finally:
                    self.thread_ms.append((time.thread_time() - began) * 1000)

            return submit(run)

        service._pool.submit = timed  # type: ignore[method-assign]

    async def scrape(self) -> Figures:
        """Scrape once; return what that took."""
        cpu, began = time.thread_time(), time.perf_counter()
        await self._service.measure_by_name(has_other_names=True)
        loop_ms = (time.thread_time() - cpu) * 1000
        wall_ms = (time.perf_counter() - began) * 1000
        return {"loop_ms": loop_ms, "thread_ms": self.thread_ms[-1], "wall_ms": wall_ms}

    async def pause_ms(self, *, with_scrape: bool) -> float:
        """Return the longest time between two turns of the loop, in a span."""
        loop = asyncio.get_running_loop()
        turns, end = [time.perf_counter()], time.perf_counter() + SPAN_SECONDS
        scrape = loop.create_task(self.scrape()) if with_scrape else None
        while time.perf_counter() < end or (scrape is not None and not scrape.done()):
            await asyncio.sleep(TURN_SECONDS)
            turns.append(time.perf_counter())
        return max(after - before for before, after in pairwise(turns)) * 1000


async def measure(folder: Path, scrapes_count: int) -> Figures:
    """Return what scrapes took, and the pauses."""
    store = folder / "store"
    prepare(store)
    plan = small_plan(store, PATIENT, *(f"{key}={value}" for key, value in SETTINGS.items()))
    async with running(plan) as (deployment, _):
        assert isinstance(deployment, LocalDeployment)
        [broker] = deployment.brokers
        for requests in (sends(), pulls()):
            await asyncio.to_thread(ask_all, broker.plan.settings.broker.broker_addr, requests)
        measured = Measured(broker.service)
        scrapes = [await measured.scrape() for _ in range(scrapes_count)]
        pauses: dict[str, list[float]] = {"scraped": [], "alone": []}
        for number in range(2 * scrapes_count):
            name = ("scraped", "alone")[number % 2]
            pauses[name].append(await measured.pause_ms(with_scrape=name == "scraped"))
    later = scrapes[len(scrapes) // 2 :]
    return {
        "first": _rounded(scrapes[0]),
        "later": _rounded({key: statistics.median(one[key] for one in later) for key in later[0]}),
        "pause_ms": {
            name: {"median": round(statistics.median(found), 1), "max": round(max(found), 1)}
            for name, found in pauses.items()
        },
    }


def _rounded(figures: Figures) -> Figures:
    return {key: round(value, 1) for key, value in figures.items()}


def main(arguments: Sequence[str]) -> int:
    """Measure, and keep the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape_pauses", description=__doc__)
    parser.add_argument("--scrapes", type=int, default=SCRAPES, metavar="N")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wakelog-scrape-") as name:
        found = asyncio.run(measure(Path(name), options.scrapes))
    result = {
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "load": os.getloadavg()[1],
        **found,
    }
    text = row_lines(result)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / JSON_NAME).write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
