"""What a Prometheus would have seen of brokers: their scrapes in turn, as series for promtool.

A `Watched` runs brokers, each a deployment of its own in this process, and asks them for `/metrics`
as Prometheus does. Every scrape is one sample, an interval after the one before. The brokers' clock
moves with `advance`, so that an hour takes seconds.

promtool's clock begins at 0: a time of day in a sample is moved to it.
"""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.alert_rules import ALERTS, RECORDED
from scripts.generate import ROOT
from tests.actors.client import Client
from tests.actors.deployments import wait_until
from tests.compat.processes import free_port
from tests.compat.provision import prometheus_binaries
from tests.telemetry.test_exposition import exchange, get
from tests.test_dashboards import selectors_of
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.transport import clocks
from wakelog.testing.embedded_broker import SMALL_FILES
from wakelog.testing.faulty_disk import FaultyDisk

INTERVAL_SECONDS: Final = 15
"""Between two scrapes, as in deploy/prometheus.yml."""

HOLD_COUNT: Final = 60
"""For how many scrapes a fault stays: a quarter of an hour."""

RULES: Final = ROOT / "dashboards" / "rules" / "wakelog.yml"
MADE: Final = {rule.name for rule in RECORDED}
EXPRESSIONS: Final = (*(one.expression for one in ALERTS), *(one.expression for one in RECORDED))
ASKED: Final = {str(each.name) for text in EXPRESSIONS for each in selectors_of(text)} - MADE
"""The metrics that the rules ask for; only these are kept."""

ASKED_LINE: Final = re.compile(rf"^(?:{'|'.join(sorted(ASKED))})[{{ ].*\n", re.MULTILINE)

UP: Final = "up"
TIME_OF_DAY: Final = "_timestamp_seconds"
ABSENT, STALE = "_", "stale"

Labels = tuple[tuple[str, str], ...]


class Scrapes:
    """The samples of every series, one after the other."""

    def __init__(self, interval_seconds: int = INTERVAL_SECONDS) -> None:
        """Begin at promtool's 0."""
        self.interval_seconds = interval_seconds
        self.count = 0
        self._values: dict[tuple[str, Labels], list[float | None]] = {}

    def add(self, texts: dict[str, str | None]) -> None:
        """Take what one scrape of each instance gave: its text, None if it did not answer."""
        now_seconds = clocks.wall_ms() / 1000
        shift_seconds = self.count * self.interval_seconds - now_seconds
        for instance, text in texts.items():
            target = {"job": "wakelog", "instance": instance}
            self._put(UP, target, float(text is not None))
            asked = "".join(ASKED_LINE.findall(text or ""))
            for family in text_string_to_metric_families(asked):
                for name, labels, value, *_ in family.samples:
                    moved = shift_seconds if name.endswith(TIME_OF_DAY) else 0.0
                    self._put(name, {**target, **labels}, value + moved)
        self.count += 1

    def hold(self, count: int = HOLD_COUNT) -> None:
        """Have the last sample of each series so many times more, as of one that stays as it is."""
        for values in self._values.values():
            if len(values) == self.count:
                values += [values[-1]] * count
        self.count += count

    def names(self) -> set[str]:
        """Return the metrics of which there are samples."""
        return {name for name, _ in self._values}

    def series(self) -> Iterator[dict[str, str]]:
        """Yield the series as promtool reads them."""
        for (name, labels), values in self._values.items():
            inner = ", ".join(f"{label}={json.dumps(text)}" for label, text in labels)
            yield {"series": f"{name}{{{inner}}}", "values": " ".join(_notation(values))}

    def _put(self, name: str, labels: dict[str, str], value: float) -> None:
        values = self._values.setdefault((name, tuple(sorted(labels.items()))), [])
        values += [None] * (self.count - len(values))
        values.append(value)


def _notation(values: list[float | None]) -> Iterator[str]:
    """Yield values as promtool has them; where a series is gone, Prometheus marks that once."""
    before: float | None = None
    for value in values:
        yield repr(value) if value is not None else ABSENT if before is None else STALE
        before = value
    if before is not None:
        yield STALE


def complaints(scrapes: Scrapes, folder: Path, *, firing: str | None) -> str:
    """Return what promtool complains of: an alert that never fires; or, for None, any that does.

    folder: for its files.
    """
    selected = "" if firing is None else f',alertname="{firing}"'
    seconds, interval = scrapes.count * scrapes.interval_seconds, f"{scrapes.interval_seconds}s"
    fired = f'count_over_time(ALERTS{{alertstate="firing"{selected}}}[{seconds}s])'
    asked = {
        "expr": f"group by (alertname) ({fired})",
        "eval_time": f"{seconds}s",
        "exp_samples": [{"labels": f'{{alertname="{firing}"}}', "value": 1}] if firing else [],
    }
    test = {
        "interval": interval,
        "input_series": list(scrapes.series()),
        "promql_expr_test": [asked],
    }
    document = {"rule_files": [_rules(folder, firing)], "evaluation_interval": interval}
    path = folder / "series.yml"
    path.write_text(json.dumps({**document, "tests": [test]}))  # JSON is YAML, too
    command = [prometheus_binaries().promtool, "test", "rules", str(path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if outcome.returncode == 0 else outcome.stdout + outcome.stderr


def _rules(folder: Path, firing: str | None) -> str:
    """Write the rules, those of one alert alone if that is asked for; return where they are."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    for group in groups:
        kept = [one for one in group["rules"] if firing in (None, one.get("alert", firing))]
        group["rules"] = kept
    path = folder / "rules.yml"
    path.write_text(json.dumps({"groups": groups}))
    return str(path)


class WatchedBroker:
    """A name server and a broker with their metrics, a client of it, and its disk."""

    def __init__(
        self, name: str, store: Path, *settings: str, own_name_server: bool = True
    ) -> None:
        """Start nothing. settings: keys of broker.conf with their values."""
        self.instance = f"{name}:5557"
        self.disk = FaultyDisk()
        self.store = store
        ports = free_port(-2, 1), free_port(), free_port()
        small = (f"{key}={value}" for key, value in SMALL_FILES.items())
        options = UpOptions(
            store=str(store),
            name_server_port=ports[1] if own_name_server else 0,
            broker_port=ports[0],
            metrics_port=ports[2],
            is_local=True,
            settings=(*small, *settings),
        )
        plan = make_plan(options)
        self.address, self.name_server = plan.brokers[0].address, f"127.0.0.1:{ports[1]}"
        self.deployment = LocalDeployment(plan, self.disk)
        self.client = Client(self.address)
        self._metrics_port = ports[2]
        self._runs = False

    async def start(self) -> None:
        """Return once the broker accepts and all its services have joined."""
        await self.deployment.start(lambda what: None)
        self._runs = True

    async def stop(self) -> None:
        """Stop in order; what it does not answer any more is a fault. May be called twice."""
        if self._runs:
            self._runs = False
            await self.client.close()
            await self.deployment.stop(lambda what: None)

    async def scrape(self) -> str | None:
        """Return the text of its metrics, None if it does not answer."""
        try:
            answer = (await exchange(self._metrics_port, get())).decode()
        except ConnectionError:
            return None
        head, _, text = answer.partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200"), head
        return text


class Watched:
    """Brokers, and their scrapes."""

    def __init__(self, folder: Path, scrapes: Scrapes) -> None:
        """Start nothing. folder: of their stores. scrapes: where samples are added."""
        self.folder = folder
        self.scrapes = scrapes
        self._brokers: list[WatchedBroker] = []

    async def start(self, name: str, *settings: str, own_name_server: bool = True) -> WatchedBroker:
        """Start another broker."""
        store = self.folder / name
        one = WatchedBroker(name, store, *settings, own_name_server=own_name_server)
        await one.start()
        self._brokers.append(one)
        return one

    async def stop(self) -> None:
        """Stop all brokers, the last one first."""
        for one in reversed(self._brokers):
            await one.stop()

    async def scrape(self) -> None:
        """Take a sample of every broker."""
        self.scrapes.add({one.instance: await one.scrape() for one in self._brokers})

    async def scrape_until(self, seen: Callable[[str], bool], broker: WatchedBroker) -> None:
        """Wait until a broker's metrics show something, then take a sample of all."""

        async def shows() -> bool:
            return seen(await broker.scrape() or "")

        await wait_until(shows, "the metrics that show it")
        await self.scrape()

    async def advance(self) -> None:
        """Move the clock by a scrape interval, and let what is due by then happen.

        Not by more: a slave would be silent for too long.
        """
        clocks.advance(INTERVAL_SECONDS * 1000)
        await asyncio.sleep(0)


class AdvancedLoop(asyncio.SelectorEventLoop):
    """A loop whose timers follow the process's clock."""

    def time(self) -> float:
        return clocks.steady_ms() / 1000


def watch(folder: Path, course: Callable[[Watched], Awaitable[None]], scrapes: Scrapes) -> Scrapes:
    """Have a course of events happen to brokers; return what was scraped meanwhile."""

    async def main() -> None:
        watched = Watched(folder, scrapes)
        try:
            await course(watched)
        finally:
            await watched.stop()

    try:
        with asyncio.Runner(loop_factory=AdvancedLoop) as runner:
            runner.run(main())
    finally:
        clocks.restore()
        shutil.rmtree(folder)
    return scrapes
