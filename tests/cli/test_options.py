"""Options of KEY=VALUE, as a command takes them."""

import pytest

from tests.cli.fakes import FakeDeployment
from wakelog.cli import app
from wakelog.cli.stop_signals import StopSignals


@pytest.mark.parametrize("pair", ["fast", "=fast"])
@pytest.mark.parametrize("option", ["--conf", "--option"])
def test_a_pair_has_a_key_and_a_value(
    option: str, pair: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["spark", "hotkeys", "--store", "/s", option, "a=b=c", option, pair]
    assert app.run(words, StopSignals(), lambda plan: FakeDeployment()) == 2
    assert f"{option} {pair!r} is no KEY=VALUE" in capsys.readouterr().err
