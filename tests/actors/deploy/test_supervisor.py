"""The Supervisor's order, and what it does when an actor dies, hangs, or does not start."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ray.exceptions import RayActorError

from tests.actors.bounded import run
from tests.actors.deployments import small_plan
from tests.actors.handles import FakeHandle
from wakelog.actors.deploy import supervised_process
from wakelog.actors.deploy import supervisor as module
from wakelog.actors.deploy.supervisor import SupervisorActor
from wakelog.actors.services.table import needed_services
from wakelog.actors.transport.stop_limits import (
    BROKER_STOP_SECONDS_MAX,
    NAME_SERVER_STOP_SECONDS_MAX,
)
from wakelog.storage.config import StoreConfig
from wakelog.telemetry.crash_traces import CRASH_FILE
from wakelog.telemetry.pieces import encode_pieces

HERE = {"process_id": os.getpid(), "node_id": ""}

NEEDED = needed_services(StoreConfig(store_path_root="/store"))


class FakeActor:
    """Any actor: writes down what is asked of it."""

    def __init__(self, kind: str, log: list[str]) -> None:
        self.kind = kind
        self.log = log
        self.outcome: dict[str, Any] = {**HERE, "store_id": "s", "notices": []}
        self.store_ids: list[str | None] = []
        self.is_clean = True
        self.hangs = False
        self.is_busy = self.is_ended = self.is_idle = False
        self.pinged_count = 0

    async def start(self, store_id: str | None = None) -> dict[str, Any]:
        self._check_ended()
        self.log.append(f"start {self.kind}")
        self.store_ids.append(store_id)
        return self.outcome

    async def register(self) -> None:
        self.log.append(f"register {self.kind}")

    async def drain(self, seconds_max: float) -> None:
        self.log.append(f"drain {self.kind} {seconds_max}")
        if self.hangs:
            await asyncio.Event().wait()

    async def stop(self) -> bool:
        self.log.append(f"stop {self.kind}")
        return self.is_clean

    def _check_ended(self) -> None:
        if self.is_ended:
            raise RayActorError

    async def ping(self) -> int:
        self._check_ended()
        self.pinged_count += 1
        if self.hangs:
            await asyncio.Event().wait()
        return os.getpid()

    async def statistics(self) -> dict[str, Any]:
        if self.is_busy:
            await asyncio.Event().wait()
        return {} if self.is_idle else {"kind": self.kind}

    async def health(self) -> dict[str, Any]:
        if self.is_busy:
            await asyncio.Event().wait()
        return {"name": "a", "broker_id": 0, "address": "h:1", "values": {}}

    async def measure_by_name(self, has_other_names: bool = False) -> list[bytes]:
        return encode_pieces([{"queues": {"max_offset": {}}}])


class Harness:
    """A Supervisor over fake actors."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        kinds = ["NameServer", "Broker", *(row.actor_name for row in NEEDED.values())]
        self.actors = {kind: FakeActor(kind, self.log) for kind in kinds}
        self.handles = {kind: FakeHandle(actor) for kind, actor in self.actors.items()}
        self.ended: list[str] = []
        self.deaths: dict[int, asyncio.Event] = {}
        makers = {kind: partial(self.handles.get, kind) for kind in kinds if kind != "NameServer"}
        monkeypatch.setattr(module, "make_name_server", lambda _: self.handles["NameServer"])
        monkeypatch.setattr(module, "broker_makers", lambda *_: makers)
        monkeypatch.setattr(module, "end_actor", lambda one: self.ended.append(one.target.kind))
        monkeypatch.setattr(module, "open_logs", lambda *_: None)
        monkeypatch.setattr(supervised_process, "wait_death", self.wait_death)
        # Other tests of this process may have joined a Ray, where this node has a name.
        monkeypatch.setattr(supervised_process, "own_node_id", lambda: HERE["node_id"])
        self.plan = msgspec.to_builtins(small_plan(directory, is_local=False))

    async def wait_death(self, process_id: int, _died: asyncio.Future[None]) -> None:
        await self.deaths.setdefault(process_id, asyncio.Event()).wait()
        del self.deaths[process_id]

    async def started(self) -> SupervisorActor:
        supervisor = SupervisorActor(self.plan)
        state = await supervisor.wait_ready(10)
        assert state["ready"] and state["failure"] is None
        return supervisor


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(tmp_path, monkeypatch)


def test_the_name_server_comes_first_and_goes_last(harness: Harness) -> None:
    async def main() -> None:
        supervisor = await harness.started()
        assert harness.log == ["start NameServer", "start Broker"]
        assert await supervisor.stop()
        assert harness.log[2:] == ["stop Broker", "stop NameServer"]
        assert set(harness.ended) == set(harness.actors)

    run(main)


def test_a_store_that_was_not_left_in_order_is_reported(harness: Harness) -> None:
    async def main() -> None:
        supervisor = await harness.started()
        harness.actors["Broker"].is_clean = False
        assert not await supervisor.stop()

    run(main)


def test_brokers_that_were_made_and_not_started_left_their_stores_in_order(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_store_id: str | None = None) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nothing sets it")

    async def main() -> None:
        monkeypatch.setattr(harness.actors["NameServer"], "start", start)
        harness.actors["Broker"].is_clean = False  # as one that does not run
        supervisor = SupervisorActor(harness.plan)
        assert not (await supervisor.wait_ready(0.01))["ready"]
        assert await supervisor.stop()
        assert harness.log == ["stop Broker", "stop NameServer"]
        assert set(harness.ended) == set(harness.actors)

    run(main)


def test_a_broker_that_does_not_start_is_a_failure_with_its_reason(harness: Harness) -> None:
    failure = {"cause": "port 10911 is taken", "remedy": "Give another port."}
    harness.actors["Broker"].outcome = {"failure": failure}

    async def main() -> None:
        supervisor = SupervisorActor(harness.plan)
        state = await supervisor.wait_ready(10)
        assert (state["ready"], state["progress"]) == (False, "broker-a")
        assert state["failure"] == failure
        await supervisor.stop()

    run(main)


def test_while_it_starts_it_reports_what_it_waits_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def start(_store_id: str | None = None) -> dict[str, Any]:
        await gate.wait()
        return {**HERE, "store_id": "s", "notices": []}

    async def main() -> None:
        monkeypatch.setattr(harness.actors["Broker"], "start", start)
        supervisor = SupervisorActor(harness.plan)
        state = await supervisor.wait_ready(0.01)
        assert (state["ready"], state["progress"]) == (False, "broker-a")
        assert state["failure"] is None
        gate.set()
        assert (await supervisor.wait_ready(10))["ready"]
        await supervisor.stop()

    run(main)


def test_a_broker_that_died_is_started_again_on_its_own_store(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    crash_file = Path(harness.plan["log_directory"]) / CRASH_FILE
    crash_file.parent.mkdir()
    crash_file.write_text("of an earlier crash\n")

    async def main() -> None:
        supervisor = await harness.started()
        broker = harness.actors["Broker"]
        while os.getpid() not in harness.deaths:
            await asyncio.sleep(0)
        with crash_file.open("a") as file:
            file.write("Fatal Python error: Bus error\n\nThread 0x1\n")
        harness.deaths[os.getpid()].set()
        while len(broker.store_ids) < 2:
            await asyncio.sleep(0)
        assert broker.store_ids == [None, "s"]
        [died] = [x.msg for x in caplog.records if "actor died" in str(x.msg)]
        assert "'cause': 'Fatal Python error: Bus error'" in str(died)
        assert (await supervisor.statistics())["supervisor"]["restart_count"] >= 1
        await supervisor.stop()

    run(main)


@pytest.mark.parametrize("kind", ["Broker", "NameServer", "Flush"])
def test_an_actor_that_ray_has_no_more_is_made_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(module, "PING_SECONDS", 0.0)
    harness.actors[kind].outcome = {**HERE, "process_id": 1, "store_id": "s", "notices": []}

    async def main() -> None:
        supervisor = await harness.started()
        harness.actors[kind].is_ended = True
        another = FakeActor(kind, harness.log)
        harness.handles[kind] = FakeHandle(another)
        is_service = kind == "Flush"  # its Broker attaches it
        while not (is_service or 1 in harness.deaths):
            await asyncio.sleep(0)
        if not is_service:
            harness.deaths[1].set()
        while not (another.pinged_count and (is_service or another.store_ids)):
            await asyncio.sleep(0)
        await supervisor.stop()

    run(main)


def test_a_name_server_that_was_started_again_gets_the_brokers_registered(harness: Harness) -> None:
    harness.actors["NameServer"].outcome = {**HERE, "process_id": 1}

    async def main() -> None:
        supervisor = await harness.started()
        while 1 not in harness.deaths:
            await asyncio.sleep(0)
        assert "register Broker" not in harness.log
        harness.deaths[1].set()
        while "register Broker" not in harness.log:
            await asyncio.sleep(0)
        assert harness.log[-2:] == ["start NameServer", "register Broker"]
        await supervisor.stop()

    run(main)


def test_an_actor_that_does_not_answer_is_killed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_process, "HUNG_SECONDS_MAX", 0.01)
    monkeypatch.setattr(supervised_process, "BUSY_SECONDS_MAX", 0.01)  # this process is busy
    monkeypatch.setattr(module, "PING_SECONDS", 0.0)
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda process_id, _: killed.append(process_id))

    async def main() -> None:
        supervisor = await harness.started()
        for _ in range(50):
            await asyncio.sleep(0)
        harness.actors["Reput"].hangs = True
        while not killed:
            await asyncio.sleep(0.001)
        harness.actors["Reput"].hangs = False
        assert set(killed) == {os.getpid()}
        assert (await supervisor.statistics())["supervisor"]["killed_count"] >= 1
        await supervisor.stop()

    run(main)


def test_the_statistics_of_all_actors_are_combined(harness: Harness) -> None:
    async def main() -> None:
        supervisor = await harness.started()
        statistics = await supervisor.statistics()
        broker = statistics["brokers"]["broker-a"]
        assert broker["kind"] == "Broker" and set(broker["services"]) == set(NEEDED)
        assert broker["services"]["reput"] == {"kind": "Reput"}
        assert statistics["name_server"] == {"kind": "NameServer"}
        assert statistics["supervisor"]["references"]["statistics"] == 2 + len(NEEDED)
        await supervisor.stop()

    run(main)


def test_a_scrape_leaves_out_a_busy_actor_and_waits_for_no_longer_than_it_may(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCRAPED_SECONDS_MAX", 0.2)
    monkeypatch.setattr(module, "STATISTICS_SECONDS_MAX", 3_600.0)

    async def main() -> None:
        supervisor = await harness.started()
        harness.actors["Reput"].is_busy = harness.actors["Flush"].is_idle = True
        found = await supervisor.metrics()
        broker, answered = found["brokers"]["broker-a"], found["supervisor"]["answered"]
        assert broker["services"]["reput"] == {}
        assert (answered["broker-a"]["reput"], answered["broker-a"]["flush"]) == (0, 1)
        assert answered[""] == {"NameServer": 1}
        await supervisor.stop()

    run(main)


@pytest.mark.parametrize("hangs", [False, True])
def test_brokers_are_drained_before_they_stop_and_not_for_longer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(module, "STATISTICS_SECONDS_MAX", 0.1 - 1)
    harness.plan["drain_seconds"] = 1

    async def main() -> None:
        supervisor = await harness.started()
        harness.actors["Broker"].hangs = hangs
        assert await supervisor.drain_seconds() == 1
        assert await supervisor.stop()
        assert harness.log[2:] == ["drain Broker 1", "stop Broker", "stop NameServer"]

    run(main)


def test_name_servers_that_hang_are_waited_for_at_the_same_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    hanging: list[int] = []  # at the moment
    seen: list[int] = []

    async def main() -> None:
        supervisor = await harness.started()
        supervisor._name_servers *= 3
        answered = supervisor._result

        async def hear(reference: Any, seconds_max: float) -> Any:
            limits.append(seconds_max)
            return await answered(reference, 0.2)

        async def hang() -> bool:
            seen.append(len(hanging))
            hanging.append(1)
            try:
                await asyncio.Event().wait()
            finally:
                hanging.clear()
            return True

        monkeypatch.setattr(supervisor, "_result", hear)
        monkeypatch.setattr(harness.actors["NameServer"], "stop", hang)
        assert await supervisor.stop()  # no store is theirs
        assert seen == [0, 1, 2]
        assert limits == [BROKER_STOP_SECONDS_MAX] + [NAME_SERVER_STOP_SECONDS_MAX] * 3

    run(main)


def test_a_broker_that_hangs_holds_up_no_probe_and_is_named(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCRAPED_SECONDS_MAX", 0.2)

    async def main() -> None:
        supervisor = await harness.started()
        assert (await supervisor.health())["ready"]
        harness.actors["Broker"].is_busy = harness.actors["NameServer"].hangs = True
        found = await supervisor.health()
        assert found["reasons"] == [
            "broker-a: broker-a does not answer within 0.2 s",
            "name server: does not answer within 0.2 s",
        ]
        harness.actors["Broker"].is_busy = harness.actors["NameServer"].hangs = False
        await supervisor.stop()

    run(main)


def test_a_mistake_in_the_start_is_a_failure_of_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("/logs/supervisor.log")

    monkeypatch.setattr(module, "open_logs", refuse)

    async def main() -> None:
        supervisor = SupervisorActor(harness.plan)
        state = await supervisor.wait_ready(10)
        assert not state["ready"] and "/logs/supervisor.log" in state["failure"]["cause"]
        await supervisor.stop()

    run(main)
