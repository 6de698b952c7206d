"""`wakelog spark` without Spark: mistakes before a session starts.

What the commands do is tested with the jobs, in a session that those tests share.
"""

from pathlib import Path

import pytest

from tests.cli.fakes import FakeDeployment
from wakelog.cli import app
from wakelog.cli.spark import SETTINGS
from wakelog.cli.stop_signals import StopSignals


def run(*arguments: str) -> int:
    return app.run(["spark", *arguments], StopSignals(), lambda plan: FakeDeployment())


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["rebuild", "--store", "/nowhere", "--into", "/x"], "/nowhere holds no commitlog"),
        (["rebuild", "--store", "/nowhere"], "missing option '--into'"),
        (
            ["rebuild", "--stor", "/nowhere", "--into", "/x"],
            "there is no option --stor. Did you mean --store?",
        ),
        (["deadletters", "--store", "/x", "--to", "retry"], "--to and --name-server are of "),
        (["rebuilt"], "there is no command rebuilt"),
    ],
)
def test_a_mistake(words: list[str], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert cause in capsys.readouterr().err


def test_spark_finds_its_log_settings() -> None:
    option = SETTINGS["spark.driver.extraJavaOptions"]
    assert Path(option.strip('"').partition("=")[2]).is_file()


def test_the_program_for_spark_submit_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("script") == 0
    assert Path(capsys.readouterr().out.strip()).is_file()


@pytest.mark.parametrize("name", ["lag", "latency", "hotkeys", "deadletters"])
def test_a_store_that_is_not_there_is_refused_before_a_session(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("wakelog.spark.session.job_session", lambda *_: pytest.fail("a session"))
    assert run(name, "--store", "/nowhere") == 1
    assert "/nowhere is no directory on this machine" in capsys.readouterr().err
