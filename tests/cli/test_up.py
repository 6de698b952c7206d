"""One run from start to stop, with a fake deployment and a fake screen."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.fakes import FakeDeployment, FakeScreen, broker_values, forever, plan_in
from tests.network.test_tls import SERVER, SERVER_KEY
from wakelog.actors.deploy.plan import Plan
from wakelog.actors.errors import DeploymentFailed
from wakelog.cli import up as module
from wakelog.cli.console_beside import ConsoleBeside, ConsoleState
from wakelog.cli.stop_signals import StopSignals
from wakelog.cli.up import Up, led_here, ready_lines

READY = "ready after"


class Run:
    """An `Up`, the parts it has, and a way to ask it to stop."""

    def __init__(self, plan: Plan, **behaviour: Any) -> None:
        self.deployment = FakeDeployment(**behaviour)
        self.screen = FakeScreen()
        self.signals = StopSignals()
        self.up = Up(plan, self.deployment, self.screen, self.signals, time.monotonic())

    def ask_to_stop(self) -> None:
        self.signals._handle(signal.SIGTERM, None)

    def run(self, meanwhile: Coroutine[Any, Any, None] | None = None) -> int:
        """Run to the end, something else beside it."""

        async def both() -> int:
            beside = None if meanwhile is None else asyncio.create_task(meanwhile)
            code = await self.up.run()
            if beside is not None:
                await beside
            return code

        return asyncio.run(both())

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not true():
                await asyncio.sleep(0.001)

    async def stop_when_ready(self) -> None:
        await self.until(lambda: self.is_ready)
        self.ask_to_stop()

    @property
    def is_ready(self) -> bool:
        return any(READY in line for line in self.screen.lines)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path, metrics_port=0)


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILURE_SECONDS", 0.001)
    monkeypatch.setattr(FakeScreen, "rates_seconds", 0.0)


def test_a_run_that_is_asked_to_stop_starts_watches_and_stops(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(plan)
    run.deployment.values = {"brokers": {"broker-a": broker_values(5)}}

    async def wait_two_rates() -> None:
        await run.until(lambda: len(run.screen.rates) >= 2)
        run.ask_to_stop()

    assert run.run(wait_two_rates()) == 0
    calls = [call for call in run.deployment.calls if call != "statistics"]
    assert calls == ["start", "started", "stop", "stopped"]
    assert run.screen.steps == [
        "starting broker-a: opening the store",
        "stopping broker-a: closing the store",
    ]
    assert run.screen.lines[-1] == "wakelog: stopped"
    assert run.screen.closed_count == 1
    (first, changed), (_, changed_again) = run.screen.rates[:2]
    assert [row.name for row in first] == ["broker-a"]
    assert (changed, changed_again) == (True, False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_local", [True, False])
def test_a_process_with_clients_collects_all_objects_by_time(plan: Plan, is_local: bool) -> None:
    before, seen = gc.get_threshold(), []
    run = Run(msgspec.structs.replace(plan, is_local=is_local))

    async def check() -> None:
        await run.until(lambda: run.screen.rates)
        seen.append(gc.get_threshold())
        run.ask_to_stop()

    assert run.run(check()) == 0
    assert (seen != [before]) == is_local
    assert gc.get_threshold() == before


def test_an_actor_that_died_and_runs_again_is_reported_once(plan: Plan) -> None:
    run = Run(plan)

    def show(**process_ids: int) -> None:
        found = {f"broker-a.{name}": number for name, number in process_ids.items()}
        run.deployment.values = {"supervisor": {"process_ids": {**found, ".NameServer": 9}}}

    async def die_and_return() -> None:
        for ids in ({"Reput": 7, "Index": 8}, {"Reput": 0, "Index": 8}, {"Reput": 11, "Index": 8}):
            show(**ids)
            run.screen.rates.clear()
            await run.until(lambda: len(run.screen.rates) >= 2)
        run.ask_to_stop()

    assert run.run(die_and_return()) == 0
    restarts = [line for line in run.screen.lines if "runs again" in line]
    assert restarts == ["wakelog: broker-a.Reput ended and runs again, as process 11"]


def test_a_stop_requested_before_the_start_still_stops(plan: Plan) -> None:
    run = Run(plan, on_start=forever)
    run.ask_to_stop()
    assert run.run() == 0
    assert not run.is_ready


def test_a_stop_requested_during_the_start_cancels_it_first(plan: Plan) -> None:
    run = Run(plan, on_start=forever)

    async def stop_while_starting() -> None:
        await run.until(lambda: run.deployment.calls)
        run.ask_to_stop()

    assert run.run(stop_while_starting()) == 0
    assert run.deployment.calls == ["start", "start cancelled", "stop", "stopped"]
    assert not run.is_ready


def test_a_second_signal_is_answered_with_the_step_under_way(plan: Plan) -> None:
    go_on = asyncio.Event()
    run = Run(plan, on_stop=go_on.wait)

    async def ask_twice() -> None:
        await run.stop_when_ready()
        await run.until(lambda: "stop" in run.deployment.calls)
        run.ask_to_stop()
        await run.until(lambda: run.screen.lines[-1].startswith("wakelog: stopping already"))
        go_on.set()

    assert run.run(ask_twice()) == 0
    assert (
        "wakelog: stopping already, the step under way is: stopping broker-a: closing the store"
        in run.screen.lines
    )


def test_a_deployment_that_cannot_go_on_is_stopped_and_reported(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(plan)

    async def fail_when_ready() -> None:
        await run.until(lambda: run.is_ready)
        run.deployment.reason = "Ray has ended"

    assert run.run(fail_when_ready()) == 1
    assert run.deployment.calls[-1] == "stopped"
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"wakelog: Ray has ended. The logs in {plan.log_directory} say more."


async def refuse() -> None:
    raise DeploymentFailed("broker-a did not start", "Look at its log.")


async def stumble() -> None:
    raise ZeroDivisionError("of ours")


@pytest.mark.parametrize(
    ("behaviour", "lines"),
    [
        ({"on_start": refuse}, ["wakelog: broker-a did not start. Look at its log."]),
        ({"on_start": stumble}, ["wakelog: an error of wakelog's own, ZeroDivisionError: of ours"]),
        ({"on_start": refuse, "on_stop": refuse}, ["wakelog: broker-a did not start."] * 2),
        ({"on_start": refuse, "in_order": False}, ["wakelog: broker-a did not start."]),
    ],
)
def test_a_failed_start_is_stopped_and_reported(
    plan: Plan, behaviour: Any, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(plan, **behaviour)
    assert run.run() == 1
    assert "stop" in run.deployment.calls
    assert run.screen.closed_count == 1
    lines_of_errors = capsys.readouterr().err.splitlines()
    assert len(lines_of_errors) == len(lines)
    assert all(line.startswith(begin) for line, begin in zip(lines_of_errors, lines, strict=True))


def test_a_store_not_left_in_order_is_reported_and_counts_as_failed(plan: Plan) -> None:
    run = Run(plan, in_order=False)
    assert run.run(run.stop_when_ready()) == 1
    assert run.screen.lines[-1] == f"wakelog: {module.NOT_IN_ORDER}"


def test_a_stop_that_does_not_end_ends_the_process(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ended(BaseException):
        pass

    def end(code: int) -> None:
        assert code == 1
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(module, "stop_seconds_max", lambda in_turn_count: 0.01)
    run = Run(plan, on_stop=forever)
    with pytest.raises(Ended):
        run.run(run.stop_when_ready())
    assert run.screen.closed_count == 1
    assert "the last step was: stopping broker-a: closing" in capsys.readouterr().err


def test_statistics_that_fail_or_hang_are_shown_as_silence(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STATISTICS_SECONDS_MAX", 0.001)
    run = Run(plan)

    async def hang(self: FakeDeployment) -> dict[str, Any]:
        await forever()
        return {}

    monkeypatch.setattr(FakeDeployment, "statistics", hang)

    async def stop_after_the_first_rates() -> None:
        await run.until(lambda: run.screen.rates)
        run.ask_to_stop()

    assert run.run(stop_after_the_first_rates()) == 0
    assert not run.screen.rates[0][0][0].answers


def test_warnings_of_the_plan_come_first(tmp_path: Path) -> None:
    run = Run(plan_in(tmp_path, "brokerNmae=x", metrics_port=0))
    run.run(run.stop_when_ready())
    assert run.screen.lines[0].endswith("did you mean brokerName?")


def test_notices_of_the_start_come_before_the_ready_line(tmp_path: Path) -> None:
    run = Run(plan_in(tmp_path, metrics_port=0))
    run.deployment.found = ["broker-a: 13 bytes were cut"]
    run.run(run.stop_when_ready())
    assert run.screen.lines[0] == "wakelog: broker-a: 13 bytes were cut"


def test_the_ready_lines_name_everything(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, broker_count=2, bind="0.0.0.0", open=True, advertise="127.0.0.1")
    lines = ready_lines(plan, 1.26, {"broker-a": 4711})
    root = tmp_path / "store"
    assert lines[1:6] == [
        "name server  127.0.0.1:9876",
        f"broker-a     127.0.0.1:10911  store {root}/broker-a  process 4711",
        f"broker-b     127.0.0.1:10931  store {root}/broker-b",
        f"logs         {root}/wakelog.logs",
        "metrics      http://127.0.0.1:5557/metrics",
    ]
    assert lines[6].startswith("try          ") and lines[6].endswith(" hello 127.0.0.1:9876")
    assert lines[7] == "ready after 1.3 s; Ctrl-C stops in order"


def test_the_ready_lines_say_where_the_console_is_or_why_not(tmp_path: Path) -> None:
    lines = ready_lines(plan_in(tmp_path, console_port=8090), 1.0, {})
    assert "console      http://127.0.0.1:8090" in lines
    home = f"rocketmqHome={tmp_path}"
    lines = ready_lines(plan_in(tmp_path, "aclEnable=true", home, console_port=8090), 1.0, {})
    assert any(x.startswith("console      off: aclEnable=true; give") for x in lines)
    assert not any("console" in x for x in ready_lines(plan_in(tmp_path), 1.0, {}))


class FakeConsole:
    """A process of a console that does what it is told, and keeps the calls."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.now = ConsoleState(7)

    async def start(self) -> None:
        self.calls.append("console start")

    async def state(self) -> ConsoleState:
        return self.now

    async def end(self) -> None:
        self.calls.append("console end")


def test_the_console_starts_after_the_brokers_and_ends_before_them(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(plan)
    console = FakeConsole(run.deployment.calls)
    monkeypatch.setattr(module, "make_console_beside", lambda *_: ConsoleBeside(console))

    async def stop_when_it_runs() -> None:
        await run.until(lambda: "console start" in run.deployment.calls)
        assert run.is_ready
        run.ask_to_stop()

    assert run.run(stop_when_it_runs()) == 0
    calls = [call for call in run.deployment.calls if call != "statistics"]
    assert calls == ["start", "started", "console start", "console end", "stop", "stopped"]


@pytest.mark.parametrize("is_local", [True, False])
def test_a_start_says_the_process_of_each_broker(tmp_path: Path, is_local: bool) -> None:
    run = Run(plan_in(tmp_path, broker_count=2, is_local=is_local, metrics_port=0))
    process_ids = {"broker-a.Broker": 4711, "broker-a.Reput": 4712, "broker-b.Broker": 0}
    run.deployment.values = {"supervisor": {"process_ids": process_ids}}
    run.run(run.stop_when_ready())
    ends = [line.split("  ")[-1] for line in run.screen.lines if line.startswith("broker-")]
    own = f"process {os.getpid()}"
    not_known = f"store {tmp_path}/store/broker-b"
    assert ends == ([own, own] if is_local else ["process 4711", not_known])


def test_the_ready_lines_say_that_tls_is_on(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, "tls.server.mode=enforcing", metrics_port=0)
    lines = ready_lines(plan, 1.0, {})
    assert "tls          enforcing, a self-signed certificate" in lines
    assert lines[-2].endswith("hello 127.0.0.1:9876 --tls-insecure")
    files = [f"tls.server.certPath={SERVER}", f"tls.server.keyPath={SERVER_KEY}"]
    own = ("tls.server.mode=enforcing", "tls.test.mode.enable=false", *files)
    plan = plan_in(tmp_path, *own, metrics_port=0)
    assert ready_lines(plan, 1.0, {})[-2].endswith("hello 127.0.0.1:9876 --tls")


def test_replicas_that_elect_name_their_register_and_are_waited_for(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, replica_count=2, metrics_port=0)
    assert f"register     file://{tmp_path}/store/wakelog.register" in ready_lines(plan, 1.0, {})
    assert led_here(plan) == {"broker-a"}
    assert not led_here(plan_in(tmp_path, "brokerRole=SYNC_MASTER", replica_count=2))
    one_of_a_group = plan_in(tmp_path, "wakelog.register=etcd://e:1", "brokerId=2")
    assert not led_here(one_of_a_group)


def test_the_start_of_a_group_ends_once_it_has_a_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def statistics(self: FakeDeployment) -> dict[str, Any]:
        asked.append(len(asked))
        leads = {"election": {"leads": len(asked) > 2}}
        return {"brokers": {"broker-a-1": {}, "broker-a-2": {**broker_values(), **leads}}}

    monkeypatch.setattr(FakeDeployment, "statistics", statistics)
    run = Run(plan_in(tmp_path, replica_count=2, metrics_port=0))
    run.run(run.stop_when_ready())
    assert len(asked) > 2


def test_the_ready_lines_mark_a_foreign_name_server(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, "namesrvAddr=203.0.113.1:9876;203.0.113.2:9876", metrics_port=0)
    lines = ready_lines(plan, 1.0, {})
    assert lines[1] == "name server  203.0.113.1:9876 (not ours)"
    assert not any(line.startswith("metrics") for line in lines)
