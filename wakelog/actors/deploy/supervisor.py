"""The Supervisor actor: makes the others, starts them in order, watches them, stops them in order.

    start   the name server, then every broker; a broker attaches its services by itself
    watch   a broker or a name server whose process died is started again once Ray has its actor
            back; one that does not answer is killed, and then the same. A new name server knows
            nobody, so the brokers are asked to register with it
    stop    every broker, in order; then the name server; then all actors end

A service of a broker that died needs nobody: Ray starts it again and the Broker attaches it.

It keeps nothing that it cannot ask again, so it may itself die at any moment: the next one finds
the actors by name, and starting what is started changes nothing.

Source: org.apache.rocketmq.broker.BrokerController.start, shutdown (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from ray.exceptions import RayActorError

from wakelog.actors.deploy.group import (
    BROKER,
    NAME_SERVER,
    GroupPlan,
    make_group,
    make_name_server,
    read_deployment_plan,
    service_kinds,
)
from wakelog.actors.deploy.metrics_end import serve_metrics
from wakelog.actors.deploy.supervised_process import Charge
from wakelog.actors.ray.options import end_actor
from wakelog.actors.services.table import SERVICES
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.build import build_facts
from wakelog.telemetry.exposition import MetricsServer
from wakelog.telemetry.logs import Log, configure_logs, logger

RETRY_SECONDS = 0.1
"""Between two tries to start what died; the call itself waits for Ray to have it back."""

PING_SECONDS = 5.0
"""Ten actors answer within some milliseconds in all."""

STATISTICS_SECONDS_MAX = 2.0
STOP_SECONDS_MAX = 60.0
"""How long one broker may take to stop: Reput has 30 s to reach the end, neighbours 10 s each."""


class SupervisorActor:
    """Works from its construction on; see the module."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Begin to start what the plan names."""
        self._plan = read_deployment_plan(plan)
        self._name_server: Charge | None = None
        self._brokers: dict[str, Charge] = {}
        self._services: list[Charge] = []
        self._service_names: dict[str, str] = {}
        self._store_ids: dict[str, str] = {}
        self._notices: dict[str, list[str]] = {}
        self._failure: dict[str, str] | None = None
        self._progress = "starting"
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._telling: set[asyncio.Task[Any]] = set()
        self._metrics: MetricsServer | None = None
        self._references: Counter[str] = Counter()
        self._log = logger(Log.BROKER)
        self._main = asyncio.get_running_loop().create_task(self._run())

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    async def wait_ready(self, seconds_max: float) -> dict[str, Any]:
        """Return what is being done, after `seconds_max` or once all runs or something failed.

        {"ready": bool, "progress": str, "failure": {"cause", "remedy"} or None, "notices": [line]}
        """
        try:
            async with asyncio.timeout(seconds_max):
                await self._ready.wait()
        except TimeoutError:
            pass
        is_ready = self._ready.is_set() and self._failure is None
        notices = [f"{name}: {line}" for name in self._notices for line in self._notices[name]]
        return {
            "ready": is_ready,
            "progress": self._progress,
            "failure": self._failure,
            "notices": notices,
        }

    async def metrics(self) -> dict[str, Any]:
        """Return the statistics, and what is measured for a scrape only."""
        charges = list(self._brokers.values())
        found, *measured = await asyncio.gather(
            self.statistics(), *(self._ask(charge, "queues") for charge in charges)
        )
        for charge, queues in zip(charges, measured, strict=True):
            found["brokers"][charge.broker_name]["queues"] = queues
        return found

    async def statistics(self) -> dict[str, Any]:
        """Return what every actor says of itself."""
        charges = [*self._brokers.values(), *self._services]
        asked = [self._ask(charge) for charge in charges]
        name_server = {} if self._name_server is None else await self._ask(self._name_server)
        answers = await asyncio.gather(*asked)
        brokers: dict[str, dict[str, Any]] = {}
        for charge, answer in zip(charges, answers, strict=True):
            assert charge.broker_name is not None
            if charge.kind == BROKER:
                brokers[charge.broker_name] = {**answer, "services": {}, "added_services": {}}
            else:
                name = self._service_names[charge.kind]
                part = "services" if name in SERVICES else "added_services"
                brokers[charge.broker_name][part][name] = answer
        return {
            "build": build_facts(),
            "brokers": brokers,
            "name_server": name_server,
            "supervisor": self._own(),
        }

    async def stop(self) -> bool:
        """Stop everything in order; return whether every store was left as after a normal exit."""
        for task in [self._main, *self._tasks]:
            task.cancel()
        if self._metrics is not None:
            await self._metrics.close()
        clean = await asyncio.gather(*(self._stop_broker(one) for one in self._brokers.values()))
        if self._name_server is not None:
            await self._wait(self._name_server.handle.stop.remote(), STOP_SECONDS_MAX)
        charges = [*self._services, *self._brokers.values()]
        for charge in charges if self._name_server is None else [*charges, self._name_server]:
            end_actor(charge.handle)
        return all(answer is True for answer in clean)

    async def _run(self) -> None:
        epoch = time.time_ns() // 1_000_000
        try:
            if self._plan.name_server is not None:
                self._name_server = Charge(NAME_SERVER, make_name_server(self._plan))
                self._progress = "the name server"
                await self._start(self._name_server)
            for group in self._plan.groups:
                self._take_on(group)
            self._progress = ", ".join(self._brokers)
            await asyncio.gather(*(self._start(broker) for broker in self._brokers.values()))
        except StartFailed as failed:
            self._failure = failed.failure
            self._ready.set()
            return
        configure_logs(Path(self._plan.log_directory), actor="supervisor", epoch=epoch)
        await self._serve_metrics()
        self._progress = "running"
        self._ready.set()
        watched = list(self._brokers.values())
        if self._name_server is not None:
            watched.append(self._name_server)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._watch(charge)) for charge in watched]
        self._tasks += [loop.create_task(self._ping(one)) for one in [*watched, *self._services]]

    async def _serve_metrics(self) -> None:
        if self._plan.metrics_port:
            try:
                self._metrics = await serve_metrics(
                    self.metrics, self._plan.bind_host, self._plan.metrics_port
                )
            except PortUnavailable as error:
                # A broker that runs is worth more than what is said of it.
                self._log.error("no metrics", cause=str(error))

    def _take_on(self, group: GroupPlan) -> None:
        name = group.service.name
        self._service_names = {kind: one for one, kind in service_kinds(group.service).items()}
        for kind, handle in make_group(group).items():
            charge = Charge(kind, handle, name)
            if kind == BROKER:
                self._brokers[name] = charge
            else:
                self._services.append(charge)

    async def _start(self, charge: Charge) -> None:
        """Start a broker or the name server. Raises: StartFailed."""
        name = charge.broker_name
        while True:
            arguments = () if name is None else (self._store_ids.get(name),)
            try:
                outcome = await charge.handle.start.remote(*arguments)
                break
            except RayActorError as error:
                self._log.warning("cannot start", actor_kind=charge.kind, error=repr(error)[:500])
                await asyncio.sleep(RETRY_SECONDS)
            except Exception as error:
                remedy = "This is a mistake in wakelog; see the logs, or try another version."
                cause = f"{charge.kind} cannot be started: {str(error)[-500:]}"
                raise StartFailed({"cause": cause, "remedy": remedy}) from error
        if "failure" in outcome:
            raise StartFailed(outcome["failure"])
        charge.answered(outcome["process_id"])
        charge.node_id = outcome["node_id"]
        if name is not None:
            self._store_ids[name] = outcome["store_id"]
            self._notices[name] = outcome["notices"]
            for service in self._services:
                if service.broker_name == name:
                    service.node_id = charge.node_id

    async def _watch(self, charge: Charge) -> None:
        """Start a charge again whenever its process has died."""
        while True:
            await charge.wait_death()
            self._log.warning("actor died", actor_kind=charge.kind, broker=charge.broker_name)
            charge.restart_count += 1
            while True:
                try:
                    await self._start(charge)
                    break
                except StartFailed as failed:
                    # A port or a disk: it may be free again, and nobody else starts this broker.
                    self._failure = failed.failure
                    self._log.error("cannot start again", **failed.failure)
                    await asyncio.sleep(1)
            self._failure = None
            if charge.kind == NAME_SERVER:
                self._tell_brokers()

    def _tell_brokers(self) -> None:
        """Have every broker register: a name server begins with no route at all."""
        for broker in self._brokers.values():
            registering = self._wait(broker.handle.register.remote(), STATISTICS_SECONDS_MAX)
            self._telling.add(task := asyncio.get_running_loop().create_task(registering))
            task.add_done_callback(self._telling.discard)

    async def _ping(self, charge: Charge) -> None:
        """Kill a charge that lives and does not answer."""
        while True:
            process_id = await self._wait(charge.handle.ping.remote(), charge.hung_seconds_max)
            if process_id is not None:
                charge.answered(process_id)
                await asyncio.sleep(PING_SECONDS)
            elif time.monotonic() >= charge.answered_at + charge.hung_seconds_max:
                self._log.error("actor does not answer", actor_kind=charge.kind)
                charge.kill()
            else:
                await asyncio.sleep(RETRY_SECONDS)

    async def _ask(self, charge: Charge, method: str = "statistics") -> dict[str, Any]:
        self._references["statistics"] += 1
        asked = getattr(charge.handle, method).remote()
        answer = await self._wait(asked, STATISTICS_SECONDS_MAX)
        return {} if answer is None else answer

    async def _stop_broker(self, charge: Charge) -> bool:
        return await self._wait(charge.handle.stop.remote(), STOP_SECONDS_MAX) is True

    async def _wait(self, reference: Awaitable[Any], seconds_max: float) -> Any:
        """Return a call's result, None if it failed or took too long."""
        try:
            async with asyncio.timeout(seconds_max):
                return await reference
        except Exception as error:
            self._log.warning("call failed", error=repr(error)[:500])
            return None

    def _own(self) -> dict[str, Any]:
        charges = [*self._brokers.values(), *self._services]
        if self._name_server is not None:
            charges.append(self._name_server)
        return {
            "process_id": os.getpid(),
            "references": dict(self._references),
            "failure": self._failure,
            "restart_count": sum(charge.restart_count for charge in charges),
            "killed_count": sum(charge.killed_count for charge in charges),
            "process_ids": {
                f"{charge.broker_name or ''}.{charge.kind}": charge.process_id for charge in charges
            },
        }


class StartFailed(Exception):
    """A broker or the name server said why it does not start."""

    def __init__(self, failure: dict[str, str]) -> None:
        super().__init__(failure)
        self.failure = failure
