"""What the start job takes from its command line."""

import pytest

from deploy.start import read_options
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.transport.service_plan import Transport


def test_options_are_those_of_up() -> None:
    options, resource, is_spread = read_options(
        [
            *("--store", "/s", "--namesrv-port", "1", "--broker-port", "2", "--bind", "0.0.0.0"),
            *("--advertise", "10.0.0.1", "--brokers", "3", "--config", "broker.conf"),
            *("--set", "a=b", "--set", "c=d", "--transport", "references", "--metrics-port", "0"),
            *("--resource", "disk-a", "--open", "--replicas", "2", "--spread"),
        ]
    )
    assert options == UpOptions(
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
    assert resource == "disk-a" and is_spread


def test_options_that_are_not_given_are_left_to_planning() -> None:
    assert read_options(["--store", "/s"]) == (UpOptions(store="/s"), None, False)


def test_a_store_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    """A job runs in a folder of its own, and no default could be meant."""
    with pytest.raises(SystemExit):
        read_options([])
    assert "--store" in capsys.readouterr().err
