"""`wakelog up` from the first check to the last line: start, watch, stop.

    start   shows each step of the deployment; ends early at a signal or an error
    watch   shows rates; ends at a signal, or when the deployment has failed
    stop    always, however far the start came, within the sum of its parts' limits

Exit code 0 after a stop that was asked for, left every store in order, and with all services at
work until then, else 1.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import msgspec
import uvloop

from wakelog.actors.deploy.deployment import Deployment, make_deployment
from wakelog.actors.deploy.group import BROKER
from wakelog.actors.deploy.host_addresses import reachable_from_here
from wakelog.actors.deploy.plan import CONSOLE_HOST, NameServerOptions, Plan, UpOptions
from wakelog.actors.deploy.planning import make_name_server_plan, make_plan
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.options import actor_name
from wakelog.actors.services.session import open_logs
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.free_memory import free_memory
from wakelog.actors.transport.full_collections import FullCollections
from wakelog.actors.transport.stop_limits import stop_seconds_max
from wakelog.broker.trouble import Trouble, trouble_text
from wakelog.cli.console_beside import ConsoleBeside, make_console_beside
from wakelog.cli.preflight import free_broker_port, preflight
from wakelog.cli.program import FAILED, command_line
from wakelog.cli.rates import RateWatch
from wakelog.cli.screen import Screen
from wakelog.cli.stop_signals import StopSignals
from wakelog.network.tls import TlsMode
from wakelog.network.tls_properties import read_tls
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.build import version
from wakelog.telemetry.logs import FILES_OF_BROKER, Log, logger

if TYPE_CHECKING:
    from wakelog.cli.failures import Failure

DeploymentFactory = Callable[[Plan], Deployment]

FAILURE_SECONDS = 1.0
"""How often the deployment is asked whether it has failed."""

STATISTICS_SECONDS_MAX = 5.0
"""After so long without statistics, a broker is shown as one that does not answer."""

MASTERS_SECONDS_MAX = 10.0
"""How long a start waits until its groups of replicas have a master: the one before may be gone."""

MASTERS_POLL_SECONDS = 0.1

NOT_IN_ORDER = "stopped, but not in order: the next start recovers the store as after a crash"
ACTOR = "up"
"""The actor's name in the logs, unless this process is the broker."""


def run_name_server(options: NameServerOptions, signals: StopSignals) -> int:
    """As `run_up`, for a name server alone."""
    return _run(make_name_server_plan(options), signals, None)


def run_up(options: UpOptions, signals: StopSignals, make: DeploymentFactory | None) -> int:
    """Plan, check, start, watch and stop; return the exit code.

    Raises: DeploymentError, StoreError while nothing was started yet.
    """
    if options.broker_port == 0:
        port = free_broker_port(options.bind, options.store_count)
        options = msgspec.structs.replace(options, broker_port=port)
    return _run(make_plan(options), signals, make)


def _run(plan: Plan, signals: StopSignals, make: DeploymentFactory | None) -> int:
    began_seconds = time.monotonic()
    plan = preflight(plan, FileSystem())
    # First: it may fork this process, and a fork must not share its log files.
    deployment = make(plan) if make is not None else make_deployment(plan, forks=True)
    actor = FILES_OF_BROKER if plan.is_local else ACTOR
    open_logs(plan, actor, wall_ms(), plan.brokers[0].name if len(plan.brokers) == 1 else "")
    up = Up(plan, deployment, make_screen(sys.stdout), signals, began_seconds)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(up.run())


def make_screen(out: TextIO) -> Screen:
    """Return the screen that fits where output goes."""
    if out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from wakelog.cli.live_screen import LiveScreen  # its library takes 50 ms to import

        return LiveScreen(out)
    return Screen(out)


class Up:
    """One run of `wakelog up`: its deployment, its screen, and the step under way."""

    def __init__(
        self,
        plan: Plan,
        deployment: Deployment,
        screen: Screen,
        signals: StopSignals,
        began_seconds: float,
    ) -> None:
        """Start nothing yet. began_seconds: when the deployment was begun, of `time.monotonic`."""
        self._plan = plan
        self._deployment = deployment
        self._screen = screen
        self._signals = signals
        self._began_seconds = began_seconds
        self._start: asyncio.Task[None] | None = None
        self._troubles: dict[str, str] = {}
        self._phase = "starting"
        self._step = ""
        self._console: ConsoleBeside | None = None
        in_turn_count = len(plan.brokers) if plan.is_local else 1
        self._stop_seconds_max = stop_seconds_max(in_turn_count) + plan.drain_seconds

    async def run(self) -> int:
        """Run until a stop is asked for or something fails; return the exit code."""
        self._signals.attach(on_repeat=self._stop_asked_again)
        failures = []
        try:
            await self._start_and_watch()
        except Exception as error:
            failures.append(self._explain(error))
        self._phase = "stopping"
        stop = asyncio.create_task(self._stop_in_order())
        await asyncio.wait((stop,), timeout=self._stop_seconds_max)
        if not stop.done():
            self._end_at_once()
        try:
            in_order = stop.result()
        except Exception as error:
            failures.append(self._explain(error))
        else:
            self._screen.say("wakelog: stopped" if in_order else f"wakelog: {NOT_IN_ORDER}")
            if in_order and not failures and not self._troubles:
                self._screen.close()
                return 0
            for line in self._troubles.values():
                self._screen.say(f"wakelog: {line}")
        self._screen.close()
        for failure in failures:
            _complain(failure.line)
        return FAILED

    async def _start_and_watch(self) -> None:
        """Return when a stop is asked for. Raises: whatever ends this run."""
        asked = asyncio.create_task(self._signals.wait())
        for warning in self._plan.warnings:
            self._screen.say(f"wakelog: {warning}")
        self._start = asyncio.create_task(self._start_all())
        if not await _first(self._start, asked):
            return
        for notice in self._deployment.notices():
            self._screen.say(f"wakelog: {notice}")
        seconds = time.monotonic() - self._began_seconds
        for line in ready_lines(self._plan, seconds, await self._broker_processes()):
            self._screen.say(line)
        self._console = make_console_beside(self._plan, connection_flags(self._plan))
        if self._console is not None:
            self._console.begin(lambda line: self._screen.say(f"wakelog: {line}"))
        watching = asyncio.create_task(self._watch())
        collections, memory = FullCollections(), free_memory()
        if self._plan.is_local:  # this process has the clients
            collections.begin()
            memory.begin()
        try:
            await _first(watching, asked)
        finally:
            collections.end()
            memory.end()
            watching.cancel()
            if self._console is not None:
                await self._console.end()

    async def _start_all(self) -> None:
        await self._deployment.start(self._report)
        plan = self._plan
        wanted = led_here(plan)
        if wanted:
            self._report("the election")
        end_seconds = time.monotonic() + MASTERS_SECONDS_MAX
        while wanted and time.monotonic() < end_seconds:
            brokers = (await self._statistics()).get("brokers", {})
            for one in plan.brokers:
                if brokers.get(one.name, {}).get("election", {}).get("leads"):
                    wanted.discard(one.settings.broker.broker_name)
            await asyncio.sleep(MASTERS_POLL_SECONDS)

    async def _broker_processes(self) -> dict[str, int]:
        """Return the process of each broker that is known, by the broker's name."""
        if self._plan.is_local:
            return {one.name: os.getpid() for one in self._plan.brokers}
        found = (await self._statistics()).get("supervisor", {}).get("process_ids", {})
        own = {one.name: found.get(actor_name(one.name, BROKER), 0) for one in self._plan.brokers}
        return {name: process_id for name, process_id in own.items() if process_id}

    async def _watch(self) -> None:
        """Show rates until the deployment has failed. Raises: DeploymentFailed."""
        rates = RateWatch(broker.name for broker in self._plan.brokers)
        shown_seconds = float("-inf")
        process_ids: dict[str, int] = {}
        while True:
            reason = self._deployment.failure()
            if reason is not None:
                raise DeploymentFailed(reason, f"The logs in {self._plan.log_directory} say more.")
            now_seconds = time.monotonic()
            if now_seconds - shown_seconds >= self._screen.rates_seconds:
                shown_seconds = now_seconds
                statistics = await self._statistics()
                found = statistics.get("supervisor", {}).get("process_ids", {})
                for line in restart_lines(process_ids, found):
                    self._screen.say(line)
                self._show_troubles(statistics)
                process_ids |= {name: number for name, number in found.items() if number}
                rows = rates.measure(statistics, now_seconds)
                self._screen.show_rates(rows, changed=rates.changed)
            await asyncio.sleep(FAILURE_SECONDS)

    def _show_troubles(self, statistics: Mapping[str, Any]) -> None:
        """Say what does not work, once, and what works again."""
        if not statistics:
            return
        found = trouble_lines(statistics)
        for part, line in found.items():
            if self._troubles.get(part) != line:
                self._screen.say(f"wakelog: {line}")
        for part in self._troubles.keys() - found.keys():
            self._screen.say(f"wakelog: {part} works again")
        self._troubles = found

    async def _statistics(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(STATISTICS_SECONDS_MAX):
                return await self._deployment.statistics()
        except Exception as error:
            # The screen shows it; `failure` decides whether it matters.
            logger(Log.BROKER).warning("no statistics", error=repr(error))
            return {}

    async def _stop_in_order(self) -> bool:
        if self._start is not None and not self._start.done():
            self._start.cancel()
            await asyncio.wait((self._start,))
        return await self._deployment.stop(self._report)

    def _end_at_once(self) -> NoReturn:
        """Report the step that did not end, and end this process: everything ends with it."""
        self._screen.close()
        _complain(
            f"wakelog: not stopped within {self._stop_seconds_max:.0f} s, the last step was: "
            f"{self._step}. Everything ends with this process, and the next start recovers the "
            "store."
        )
        os._exit(FAILED)

    def _stop_asked_again(self) -> None:
        self._screen.say(f"wakelog: stopping already, the step under way is: {self._step}")

    def _report(self, step: str) -> None:
        step = f"{self._phase} {step}"
        if step != self._step:
            self._step = step
            self._screen.step(step)

    def _explain(self, error: Exception) -> "Failure":
        from wakelog.cli.failures import explain  # it knows the errors of clients and of Spark too

        failure = explain(error)
        if failure.is_ours:
            logger(Log.BROKER).error("unexpected error", exc_info=error)
        return failure


def led_here(plan: Plan) -> set[str]:
    """Return the groups with a register of which this deployment has several replicas."""
    names = [one.settings.broker.broker_name for one in plan.brokers if one.register]
    return {name for name in names if names.count(name) > 1}


async def _first(work: asyncio.Task[None], asked: asyncio.Task[None]) -> bool:
    """Wait for work or a stop; return whether the work is done. Raises: what the work raised."""
    await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
    return work.done() and not asked.done()


def _complain(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def trouble_lines(statistics: Mapping[str, Any]) -> dict[str, str]:
    """Return a line for each part that does not work, by the part."""
    found = {}
    for broker, values in statistics.get("brokers", {}).items():
        for part, reasons in values.get("service_clients", {}).get("troubles", {}).items():
            for reason, remedies in reasons.items():
                name = f"{broker}: {part}"
                found[name] = trouble_text(name, Trouble(reason, next(iter(remedies))))
    failure = statistics.get("supervisor", {}).get("failure")
    if failure is not None:
        found["a broker"] = f"a broker cannot start again: {failure['cause']}. {failure['remedy']}"
    return found


def restart_lines(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Return a line for each actor that has another process than before; 0 is none yet."""
    return [
        f"wakelog: {name.strip('.')} ended and runs again, as process {process_id}"
        for name, process_id in after.items()
        if process_id and before.get(name, process_id) != process_id
    ]


def connection_flags(plan: Plan) -> list[str]:
    """Return what a command needs to connect to these brokers, besides their address."""
    if plan.tls.mode is not TlsMode.ENFORCING:
        return []
    return ["--tls-insecure" if read_tls(plan.tls).server.is_self_signed else "--tls"]


def ready_lines(plan: Plan, seconds: float, processes: Mapping[str, int]) -> list[str]:
    """Return the lines that are shown once clients can connect.

    processes: of the brokers, by their names.
    """
    name_server = plan.name_server_address
    rows = [("name server", name_server if plan.name_server else f"{name_server} (not ours)")]
    for one in plan.brokers:
        process = f"  process {processes[one.name]}" if one.name in processes else ""
        rows.append((one.name, f"{one.address}  store {one.store_directory}{process}"))
    rows += [("register", one.register) for one in plan.brokers[:1] if one.register]
    rows.append(("logs", plan.log_directory))
    if plan.tls_text:
        rows.append(("tls", plan.tls_text))
    if plan.metrics_port:
        host = reachable_from_here(plan.bind_host)
        host = f"[{host}]" if ":" in host else host
        rows.append(("metrics", f"http://{host}:{plan.metrics_port}/metrics"))
    if plan.console is not None:
        url = f"http://{CONSOLE_HOST}:{plan.console.port}"
        rows.append(("console", plan.console.why_not or url))
    if plan.brokers:
        words = (command_line(), "hello", name_server, *connection_flags(plan))
        rows.append(("try", " ".join(words)))
    width = max(len(title) for title, _ in rows)
    return [
        f"wakelog {version()}",
        *(f"{title:<{width}}  {text}" for title, text in rows),
        f"ready after {seconds:.1f} s; Ctrl-C stops in order",
    ]
