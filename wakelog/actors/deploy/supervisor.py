"""The Supervisor actor: makes the other actors, starts them, watches them, stops them.

    start   the name server, then all brokers at once; a broker attaches its services itself
    watch   a broker or name server whose process died: started again once Ray has its actor back
            an actor that Ray does not have any more: made again
            any actor that does not answer: killed unless it is busy, and then Ray starts it again
            a name server that was started again: all brokers register with it
    stop    all brokers at once, then the name server; then every actor ends

A service that died needs no Supervisor: Ray starts its actor again, and the Broker attaches it.

The Supervisor keeps no state that it cannot ask for again, so it may die at any moment. The next
one finds the actors by name. Starting an actor that already runs changes nothing.

Source: org.apache.rocketmq.broker.BrokerController.start, shutdown (4.9.3).
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ray.exceptions import RayActorError

from wakelog.actors.deploy.group import BROKER, NAME_SERVER, broker_makers, make_name_server
from wakelog.actors.deploy.metrics_end import HealthReader, serve_metrics
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.deploy.supervised_process import SupervisedProcess
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.options import end_actor
from wakelog.actors.services.session import open_logs
from wakelog.actors.services.table import SERVICES, services_of
from wakelog.actors.start_outcome import raise_failure
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.stop_limits import (
    BROKER_STOP_SECONDS_MAX,
    NAME_SERVER_STOP_SECONDS_MAX,
)
from wakelog.broker.traffic_columns import join_pieces
from wakelog.network.background import keep, log_failure, run_once
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.build import build_facts
from wakelog.telemetry.crash_traces import CRASH_FILE, Crashes
from wakelog.telemetry.exposition import MetricsServer
from wakelog.telemetry.logs import Log, News, logger
from wakelog.telemetry.metrics import specs_of
from wakelog.typed_values import convert

RETRY_SECONDS = 0.1
"""Between two tries to start what died; the call itself waits for Ray to have it back."""

RETRY_AFTER_FAILURE_SECONDS = 1.0
"""A port or a disk may be free again, and only the Supervisor starts a broker again."""

PING_SECONDS = 5.0
"""Ten actors answer within some milliseconds in all."""

STATISTICS_SECONDS_MAX = 2.0
SCRAPED_SECONDS_MAX = 1.0
"""A scrape leaves out an actor that is busy for longer, such as Reput with a flood of keys."""

ON_OTHER_NODE = f"see {CRASH_FILE} and the logs on its node"


class SupervisorActor:
    """The Supervisor of one deployment; it starts to work when it is constructed."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = convert(plan, Plan)
        self._movable = {name for name, one in self._plan.placements.items() if one.moves}
        self._name_servers: list[SupervisedProcess] = []  # one at most, as a plan has
        self._brokers: list[SupervisedProcess] = []
        self._services: list[SupervisedProcess] = []
        self._begun: set[SupervisedProcess] = set()  # what was asked to start
        self._failure: dict[str, str] | None = None
        self._progress = "starting"
        self._ready = asyncio.Event()
        self._health = HealthReader(SCRAPED_SECONDS_MAX)
        self._metrics = MetricsServer(self.metrics, specs_of(self._plan.metrics_names), self.health)
        self._references: Counter[str] = Counter()
        self._log = logger(Log.BROKER)
        self._tasks = [run_once(self._start_all(), self._on_mistake)]

    # The start.

    async def _start_all(self) -> None:
        epoch = wall_ms()
        try:
            # All at once: the others' processes begin while the first of them starts.
            if self._plan.name_server is not None:
                make = partial(make_name_server, self._plan)
                self._name_servers.append(SupervisedProcess(NAME_SERVER, make))
            for broker in self._plan.brokers:
                self._make_broker(broker)
            for name_server in self._name_servers:
                self._progress = "the name server"
                await self._start(name_server)
            self._progress = ", ".join(broker.name for broker in self._plan.brokers)
            await asyncio.gather(*map(self._start, self._brokers))
        except DeploymentFailed as failed:
            self._on_failure(failed)
            self._ready.set()
            return
        open_logs(self._plan, "supervisor", epoch)
        await self._serve_metrics()
        self._progress = "running"
        self._ready.set()
        for process in self._processes():
            watches = [self._kill_when_hung]
            if process.service is None:
                watches.append(self._restart_when_dead)
            on_failed = log_failure(self._log, f"watch of {process.kind}")
            self._tasks += [keep(partial(watch, process), on_failed) for watch in watches]

    def _make_broker(self, broker: ServicePlan) -> None:
        services = {row.actor_name: name for name, row in services_of(broker).items()}
        for kind, make in broker_makers(self._plan, broker).items():
            process = SupervisedProcess(kind, make, broker.name, services.get(kind))
            (self._brokers if kind == BROKER else self._services).append(process)

    async def _start(self, process: SupervisedProcess) -> None:
        """Start a broker or the name server. Raises: DeploymentFailed."""
        arguments = (process.store_id,) if process.kind == BROKER else ()
        if process.broker_name in self._movable:
            arguments = (None,)  # on another node it begins with an empty store
        self._begun.add(process)
        while True:
            try:
                outcome = await process.handle.start.remote(*arguments)
                break
            except RayActorError as error:
                self._log.warning("cannot start", actor_kind=process.kind, error=repr(error)[:500])
                await asyncio.sleep(RETRY_SECONDS)
                await process.make_again()
            except Exception as error:
                remedy = "This is a mistake in wakelog; see the logs, or try another version."
                cause = f"{process.kind} cannot be started: {str(error)[-500:]}"
                raise DeploymentFailed(cause, remedy) from error
        raise_failure(outcome)
        process.on_answer(outcome["process_id"])
        process.node_id = outcome["node_id"]
        process.store_id = outcome.get("store_id")
        process.notices = outcome.get("notices", [])
        for service in self._services:
            if service.broker_name == process.broker_name:
                service.node_id = process.node_id

    def _on_failure(self, failed: DeploymentFailed) -> None:
        self._failure = {"cause": failed.cause, "remedy": failed.remedy}

    def _on_mistake(self, error: Exception) -> None:
        """Have the start fail on an unexpected error; callers wait for its end."""
        self._log.error("start failed", exc_info=error)
        remedy = "This is a mistake in wakelog; see the logs, or try another version."
        self._on_failure(DeploymentFailed(f"the Supervisor failed: {error!r}", remedy))
        self._ready.set()

    async def _serve_metrics(self) -> None:
        if self._plan.metrics_port:
            try:
                await serve_metrics(self._metrics, self._plan.bind_host, self._plan.metrics_port)
            except PortUnavailable as error:
                # A broker without metrics is better than no broker.
                self._log.error("no metrics", cause=str(error))

    async def wait_ready(self, seconds_max: float) -> dict[str, Any]:
        """Return the state after `seconds_max`, or once all actors run or one has failed.

        {"ready": bool, "progress": str, "failure": {"cause", "remedy"} or None, "notices": [line]}
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._ready.wait()
        notices = [
            f"{one.broker_name or 'name server'}: {line}"
            for one in (*self._name_servers, *self._brokers)
            for line in one.notices
        ]
        return {
            "ready": self._ready.is_set() and self._failure is None,
            "progress": self._progress,
            "failure": self._failure,
            "notices": notices,
        }

    # The watch.

    async def _restart_when_dead(self, process: SupervisedProcess) -> None:
        failures, crashes = News(), Crashes(self._log_directory(process))
        while True:
            await process.wait_death()
            of_actor = {"actor_kind": process.kind, "broker": process.broker_name}
            cause = crashes.cause() if process.is_here else ON_OTHER_NODE
            self._log.warning("actor died", **of_actor, cause=cause)
            process.restart_count += 1
            while True:
                try:
                    await self._start(process)
                    break
                except DeploymentFailed as failed:
                    self._on_failure(failed)
                    if failures.is_news(failed.cause):
                        self._log.error(
                            "cannot start again", cause=failed.cause, remedy=failed.remedy
                        )
                    await asyncio.sleep(RETRY_AFTER_FAILURE_SECONDS)
            self._failure = None
            failures.clear()
            if process.kind == NAME_SERVER:
                # It begins with no route at all.
                calls = [broker.handle.register.remote() for broker in self._brokers]
                await asyncio.gather(*(self._result(one, STATISTICS_SECONDS_MAX) for one in calls))

    async def _kill_when_hung(self, process: SupervisedProcess) -> None:
        while True:
            process_id = await self._result(process.handle.ping.remote(), process.hung_seconds_max)
            if process_id is not None:
                process.on_answer(process_id)
                await asyncio.sleep(PING_SECONDS)
                continue
            doing = process.doing()
            if process.is_hung(doing):
                self._log.error("actor does not answer", actor_kind=process.kind, doing=doing)
                process.kill()
            elif doing is not None:
                self._log.warning("actor is busy", actor_kind=process.kind, doing=doing)
            await asyncio.sleep(RETRY_SECONDS)
            await process.make_again()

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    # The stop.

    async def drain_seconds(self) -> int:
        """Return for how long a stop waits for clients to move."""
        return self._plan.drain_seconds

    async def stop(self) -> bool:
        """Stop everything in order; return whether every store was left as after a normal exit."""
        for task in self._tasks:
            task.cancel()
        if seconds_max := self._plan.drain_seconds:
            drains = [one.handle.drain.remote(seconds_max) for one in self._brokers]
            bound = seconds_max + STATISTICS_SECONDS_MAX
            await asyncio.gather(*(self._result(each, bound) for each in drains))
        await self._metrics.close()
        is_clean = await self._stop_all(self._brokers, BROKER_STOP_SECONDS_MAX)
        await self._stop_all(self._name_servers, NAME_SERVER_STOP_SECONDS_MAX)
        for process in self._processes():
            end_actor(process.handle)
        answers = zip(self._brokers, is_clean, strict=True)
        return all(answer is True for one, answer in answers if one in self._begun)

    async def _stop_all(self, processes: list[SupervisedProcess], seconds_max: float) -> list[Any]:
        """Stop processes at the same time, and return their answers."""
        stops = [one.handle.stop.remote() for one in processes]
        return await asyncio.gather(*(self._result(one, seconds_max) for one in stops))

    # The statistics.

    async def metrics(self) -> dict[str, Any]:
        """Return the statistics, and those by name, which only a scrape has measured."""
        measure = partial(self._ask, method="measure_by_name", seconds_max=SCRAPED_SECONDS_MAX)
        asked = [measure(one, arguments=(self._plan.has_other_names,)) for one in self._brokers]
        found: dict[str, Any]
        found, *measured = await asyncio.gather(self.statistics(SCRAPED_SECONDS_MAX), *asked)
        for broker, pieces in zip(self._brokers, measured, strict=True):
            await asyncio.to_thread(join_pieces, found["brokers"][broker.broker_name], pieces or ())
        return found

    async def health(self) -> dict[str, Any]:
        """Return what works; see `HealthReader`. A broker that hangs holds up no answer."""
        asked = [self._ask(one, "health", SCRAPED_SECONDS_MAX) for one in self._brokers]
        pings = [self._ask(one, "ping", SCRAPED_SECONDS_MAX) for one in self._name_servers]
        answers = await asyncio.gather(*asked, *pings)
        names = [str(one.broker_name) for one in self._brokers]
        name_servers_answer = all(answers[len(names) :])
        said = {name: answer or {} for name, answer in zip(names, answers, strict=False)}
        return await self._health.read(said, name_server_answers=name_servers_answer)

    async def statistics(self, seconds_max: float = STATISTICS_SECONDS_MAX) -> dict[str, Any]:
        """Return the statistics of every actor; {} for one that does not answer in time."""
        processes = self._processes()
        asked = [self._ask(one, "statistics", seconds_max) for one in processes]
        answers = await asyncio.gather(*asked)
        name_server: dict[str, Any] = {}
        brokers: dict[str, dict[str, Any]] = {}
        answered: dict[str, dict[str, int]] = {}
        for process, answer in zip(processes, answers, strict=True):
            by_actor = answered.setdefault(process.broker_name or "", {})
            by_actor[process.service or process.kind] = int(answer is not None)
            answer = answer or {}  # the service of a follower may have nothing to say
            if process.broker_name is None:
                name_server = answer
            elif process.service is None:
                brokers[process.broker_name] = {**answer, "services": {}, "added_services": {}}
            else:
                part = "services" if process.service in SERVICES else "added_services"
                brokers[process.broker_name][part][process.service] = answer
        return {
            "build": build_facts(),
            "brokers": brokers,
            "name_server": name_server,
            "supervisor": {
                "process_id": os.getpid(),
                "references": dict(self._references),
                "failure": self._failure,
                "answered": answered,
                "restart_count": sum(process.restart_count for process in processes),
                "killed_count": sum(process.killed_count for process in processes),
                "process_ids": {
                    f"{process.broker_name or ''}.{process.kind}": process.process_id
                    for process in processes
                },
            },
        }

    def _log_directory(self, process: SupervisedProcess) -> Path:
        """Return where a broker or the name server writes its logs."""
        for broker in self._plan.brokers:
            if broker.name == process.broker_name:
                return Path(broker.log_directory)
        return Path(self._plan.log_directory)

    def _processes(self) -> list[SupervisedProcess]:
        """Return every actor but this one, in the order in which they end."""
        return [*self._brokers, *self._services, *self._name_servers]

    async def _ask(
        self,
        process: SupervisedProcess,
        method: str,
        seconds_max: float,
        arguments: tuple[object, ...] = (),
    ) -> Any:
        """Return the answer of a process; None if there is none in time."""
        self._references["statistics"] += 1
        call = getattr(process.handle, method).remote(*arguments)
        return await self._result(call, seconds_max)

    async def _result(self, reference: Awaitable[Any], seconds_max: float) -> Any:
        """Return a call's result, None if it failed or took too long."""
        try:
            async with asyncio.timeout(seconds_max):
                return await reference
        except Exception as error:
            self._log.warning("call failed", error=repr(error)[:500])
            return None
