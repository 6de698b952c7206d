"""The example app: its worker and its program, run in its folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.celery.workers import START_SECONDS_MAX
from tests.documents import ROOT
from tests.tasks.brokers import broker
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]


@pytest.mark.process
@pytest.mark.long
def test_the_example_runs(broker: EmbeddedBroker, tmp_path: Path) -> None:
    more = {"NAME_SERVER": broker.name_server, "RESULTS": str(tmp_path), "TMPDIR": str(tmp_path)}
    more |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    folder, environment = ROOT / "examples" / "celery_app", {**os.environ, **more}
    words = ["-m", "celery", "-A", "tasks", "worker", "--concurrency=2", "--without-mingle"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        ended = subprocess.run(
            [sys.executable, "send.py"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=START_SECONDS_MAX,
            check=False,
        )
    finally:
        worker.terminate()
        worker.wait(START_SECONDS_MAX)
    assert ended.stdout == "three: 360\nlater: 160\nbill: 5.20 EUR\n", ended.stderr
