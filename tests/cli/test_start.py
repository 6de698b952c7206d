"""The options of `wakelog up`."""

from collections.abc import Sequence

import pytest

from tests.cli.fakes import FakeDeployment
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.transport.service_plan import Transport
from wakelog.cli import app
from wakelog.cli.stop_signals import StopSignals


def run(*arguments: str) -> int:
    return app.run(arguments, StopSignals(), lambda plan: FakeDeployment())


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], UpOptions()),
        (["--plain-ray", "--open"], UpOptions(plain_ray=True, open=True)),
        (
            ["--store", "/s", "--namesrv-port", "1", "--broker-port", "2", "--bind", "0.0.0.0"],
            UpOptions(store="/s", name_server_port=1, broker_port=2, bind="0.0.0.0"),
        ),
        (
            ["--advertise", "10.0.0.1", "--brokers", "3", "--config", "broker.conf", "--local"],
            UpOptions(
                advertise="10.0.0.1", broker_count=3, config_path="broker.conf", is_local=True
            ),
        ),
        (
            ["--set", "a=b", "--set", "c=d=e", "--transport", "references", "--metrics-port=0"],
            UpOptions(settings=("a=b", "c=d=e"), transport=Transport.REFERENCES, metrics_port=0),
        ),
        (
            ["--console-port", "0", "--console-account", "a.yml"],
            UpOptions(console_port=0, console_account="a.yml"),
        ),
    ],
)
def test_every_flag_arrives(
    arguments: Sequence[str], options: UpOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def run_up(asked: UpOptions, *rest: object) -> int:
        seen.append(asked)
        return 7

    monkeypatch.setattr("wakelog.cli.up.run_up", run_up)
    assert run("up", *arguments) == 7
    assert seen == [options]
