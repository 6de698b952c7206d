"""Every service broken in turn: screen, `status`, `doctor`, metrics and exit code name it, and why.

The services are those of the table; what breaks them is a folder, a value, or each call of their
work.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from errno import EACCES
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.actors.bounded import on_loop
from tests.actors.deployments import small_plan, wait_until
from tests.actors.services.fakes import FakeCalls, broker_context
from tests.cli.fakes import FakeScreen
from tests.kinds import some_daily
from wakelog.actors import table_files
from wakelog.actors.broker.service import BrokerService
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.errors import CommandFailed, DeploymentFailed
from wakelog.actors.services import broker_services
from wakelog.actors.services.broker_services import BrokerServices
from wakelog.actors.services.client import ServiceClient
from wakelog.actors.services.reput import ReputClient
from wakelog.actors.services.service import ServiceHost
from wakelog.actors.services.table import SERVICES, load, services_of
from wakelog.broker.trouble import CHECK_DISK, Trouble
from wakelog.cli import up as up_module
from wakelog.cli.cluster.doctor import doctor
from wakelog.cli.cluster.status import status
from wakelog.cli.output import Output
from wakelog.cli.stop_signals import StopSignals
from wakelog.cli.up import Up
from wakelog.client.admin import Admin, open_admin
from wakelog.client.options import ClientOptions
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import StoreFailed
from wakelog.telemetry.collector import SeriesReader
from wakelog.telemetry.metrics import METRICS

NEEDED_BY = {
    "": "",
    "appends": "",
    "transient_pool_in_use": "transientStorePoolEnable=true",
}
"""By `needed_when` of the table, what a broker has to be given so that the service runs."""


def folder(*_: object) -> Any:
    raise StoreFailed("/store/folder", "open", OSError(EACCES, "Permission denied"))


def value(*_: object) -> Any:
    raise ValueError("no such level")


BREAKS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a folder that it may not write": (
        folder,
        "open of /store/folder failed: Permission denied",
        "Look at the disk, and at the permissions of the store.",
    ),
    "a value that it cannot use": (
        value,
        "ValueError: no such level",
        "Please report it with the logs.",
    ),
}


async def lines_of(outputs: AsyncIterator[Output]) -> tuple[list[str], bool]:
    """Return what a command puts out, and whether it ends as failed."""
    lines: list[str] = []
    try:
        async for output in outputs:
            lines += output.lines()
    except CommandFailed:
        return lines, True
    return lines, False


def series(statistics: dict[str, Any]) -> list[dict[str, str]]:
    """Return the labels of the series of troubles."""
    families = SeriesReader(METRICS).read(statistics)
    [(spec, found)] = [one for one in families if one[0].name == "rocketmq_actor_trouble"]
    return [dict(zip(spec.labels, labels, strict=True)) for labels in found]


class Broken:
    """A run of `wakelog up --local`, with what it shows."""

    def __init__(self, store: Path, *settings: str) -> None:
        self.plan = small_plan(store, *settings)
        self.screen = FakeScreen()
        self.deployment = LocalDeployment(self.plan)
        self._signals = StopSignals()

    async def run(self, check: Callable[[Admin], Any]) -> int:
        """Start, check, stop; return the exit code."""
        up = Up(self.plan, self.deployment, self.screen, self._signals, began_seconds=0.0)
        running = asyncio.create_task(up.run())
        async with open_admin(ClientOptions((self.plan.name_server_address,))) as admin:
            try:
                await wait_until(lambda: running.done() or self.says("ready after"), "ready")
                await check(admin)
            finally:
                self._signals._handle(signal.SIGTERM, None)
                code = await running
        return code

    def says(self, text: str) -> bool:
        return any(text in line for line in self.screen.lines)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_services, "ATTACH_SECONDS_MAX", 0.2)
    monkeypatch.setattr(up_module, "FAILURE_SECONDS", 0.01)
    monkeypatch.setattr(FakeScreen, "rates_seconds", 0.05)


CASES = [
    (name, broken)
    for number, name in enumerate(SERVICES)
    for broken in sorted(BREAKS, reverse=number % 2 == 1)
]
"""Every second one is of each service once, and of either break."""


@pytest.mark.parametrize(("name", "broken"), some_daily(2, CASES))
def test_a_service_that_cannot_begin_is_named_everywhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    broken: str,
) -> None:
    breaks, reason, remedy = BREAKS[broken]
    row = SERVICES[name]
    monkeypatch.setattr(load(row.service), "__init__", breaks)
    run = Broken(tmp_path, *filter(None, [NEEDED_BY[row.needed_when]]))
    line = f"{name} does not work: {reason}. {remedy}"

    async def check(admin: Admin) -> None:
        await wait_until(lambda: run.says(line), "the screen names it")
        rows, failed = await lines_of(status(admin))
        assert failed and any(x.endswith(f"{name} does not work: {reason}") for x in rows)
        found, failed = await lines_of(doctor(admin, None, None))
        assert failed
        [problem] = [at for at, text in enumerate(found) if f"{name} does not work" in text]
        assert found[problem].startswith("problem") and found[problem].endswith(reason)
        assert remedy.removesuffix(".") in found[problem + 1]
        labels = {"broker": "broker-a", "actor": name, "reason": reason, "remedy": remedy}
        assert labels in series(await run.deployment.statistics())

    assert asyncio.run(run.run(check)) == 1
    logged = [record for record in caplog.records if "service does not work" in record.getMessage()]
    assert len(logged) == 1


class Refusing:
    """Refuses every call of a service's work until it is mended."""

    def __init__(self) -> None:
        self.is_mended = False
        self._call = ServiceHost.call

    def call(self, service: ServiceHost[Any], epoch: int, method: str, *arguments: Any) -> Any:
        if service.name == "retention" and not self.is_mended:
            raise service._refusal(
                StoreFailed("/store/commitlog", "list", OSError(EACCES, "Permission denied"))
            )
        return self._call(service, epoch, method, *arguments)


def test_a_service_that_is_mended_works_again_and_the_exit_code_is_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Refusing()
    monkeypatch.setattr(ServiceHost, "call", lambda *arguments: refusing.call(*arguments))
    run = Broken(tmp_path)

    async def check(admin: Admin) -> None:
        reason = "list of /store/commitlog failed: Permission denied"
        await wait_until(lambda: run.says(f"retention does not work: {reason}"), "refused")
        refusing.is_mended = True
        await wait_until(lambda: run.says("retention works again"), "mended")
        assert await lines_of(status(admin)) == ((await lines_of(status(admin)))[0], False)

    assert asyncio.run(run.run(check)) == 0


def test_a_table_that_cannot_be_saved_is_named_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers would go on from old places after a kill; nobody asks for their file."""
    save, is_mended = ConfigFiles.save, False
    reason = "save of /store/config/consumerOffset.json failed: Permission denied"

    def refuse(files: ConfigFiles, name: str, text: str) -> None:
        if name == "consumerOffset.json" and not is_mended:
            error = OSError(EACCES, "Permission denied")
            raise StoreFailed("/store/config/consumerOffset.json", "save", error)
        save(files, name, text)

    monkeypatch.setattr(ConfigFiles, "save", refuse)
    monkeypatch.setattr(table_files, "RETRY_SECONDS", 0.05)
    run = Broken(tmp_path, "flushConsumerOffsetInterval=1000")
    line = f"consumerOffset.json does not work: {reason}. {CHECK_DISK}"

    async def check(admin: Admin) -> None:
        nonlocal is_mended
        service = run.deployment.brokers[0].service
        assert isinstance(service, BrokerService)
        service.broker.state.offsets.commit("g", "t", 0, 1)
        await wait_until(lambda: run.says(line), "the screen names it")
        rows, failed = await lines_of(status(admin))
        assert failed and any(x.endswith(line.removesuffix(f". {CHECK_DISK}")) for x in rows)
        assert (await lines_of(doctor(admin, None, None)))[1]
        is_mended = True
        await wait_until(lambda: run.says("consumerOffset.json works again"), "mended")

    assert asyncio.run(run.run(check)) == 0


@on_loop
async def test_a_start_waits_for_a_service_that_lacks_a_plug_in_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker_services, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(broker_services, "REFUSED_SECONDS_MAX", 0.002)
    context = broker_context()
    calls = dict.fromkeys(services_of(context.plan), FakeCalls())
    given: Any = mock.Mock()
    reput = partial(ReputClient, wake_pulls=given, on_dispatched=given, on_arrivals=given)
    makers = {name: ServiceClient for name in calls} | {"reput": reput}
    services = BrokerServices(context, calls, makers)
    client = services.get(ReputClient)
    client._set_missing_parts({"dispatcher mine": "ImportError: no"})
    await services.wait_unless_refused(asyncio.sleep(0.05), ReputClient)
    client.set_trouble("step", Trouble("full"))
    with pytest.raises(DeploymentFailed, match="full"):
        await services.wait_unless_refused(asyncio.sleep(60.0), ReputClient)
