"""What the start job takes from its command line."""

import pytest

from deploy.start import job, main
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.transport.service_plan import Transport
from wakelog.cli.program import MISUSED


def test_options_are_those_of_up() -> None:
    call = job.read(
        [
            *("--store", "/s", "--namesrv-port", "1", "--broker-port", "2", "--bind", "0.0.0.0"),
            *("--advertise", "10.0.0.1", "--brokers", "3", "--config", "broker.conf"),
            *("--set", "a=b", "--set", "c=d", "--transport", "references", "--metrics-port", "0"),
            *("--resource", "disk-a", "--open", "--replicas", "2", "--spread"),
        ]
    )
    assert call is not None
    assert call.first == UpOptions(
        store="/s",
        name_server_port=1,
        broker_port=2,
        bind="0.0.0.0",
        open=True,
        advertise="10.0.0.1",
        broker_count=3,
        replica_count=2,
        config_path="broker.conf",
        settings=("a=b", "c=d"),
        transport=Transport.REFERENCES,
        metrics_port=0,
    )
    assert call.values == {"resource": "disk-a", "spread": True}


def test_options_that_are_not_given_are_left_to_planning() -> None:
    call = job.read(["--store", "/s"])
    assert call == (job, {"resource": None, "spread": False}, UpOptions(store="/s"))


def test_a_store_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    """A job runs in a folder of its own, and no default could be meant."""
    assert main([]) == MISUSED
    assert "--store" in capsys.readouterr().err


def test_its_help_has_the_options_of_up_and_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: deploy/start.py [OPTIONS]\n")
    assert "--namesrv-port" in shown and "--spread" in shown
