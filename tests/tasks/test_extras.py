"""Each extra of a framework for tasks alone: its page runs from outside, and is typed.

The wheel and the extra are installed into an environment of their own, without the others.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.documents import ROOT, blocks_of
from tests.tasks.brokers import broker
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]

INSTALL_SECONDS_MAX = 600
OTHER_EXTRAS = {"ray", "pyspark", "pyarrow", "pandas", "starlette", "faststream", "pytest"}
FRAMEWORKS = {"celery", "taskiq", "dramatiq"}


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(INSTALL_SECONDS_MAX)
@pytest.mark.parametrize(
    ("extra", "page", "said"),
    [
        ("celery", "celery.md", "360\n160\n"),
        ("taskiq", "taskiq_and_dramatiq.md", "360\n160\n"),
        ("dramatiq", "taskiq_and_dramatiq.md", "Hello Ada\n"),
    ],
)
def test_the_extra_alone_runs_its_page_and_is_typed_strictly(
    broker: EmbeddedBroker, tmp_path: Path, extra: str, page: str, said: str
) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)

    def run(*words: str) -> str:
        environment = {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        environment["PATH"] = os.environ["PATH"]
        command = [str(tmp_path / "env" / "bin" / "python"), *words]
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    run("-m", "pip", "install", "--quiet", f"{wheel}[{extra}]")
    installed = {line.partition("==")[0].lower() for line in run("-m", "pip", "freeze").split()}
    assert installed & (OTHER_EXTRAS | FRAMEWORKS) == {extra}
    [program] = [
        block.text
        for block in blocks_of(ROOT / "docs" / page)
        if (block.language == "python" and f"import wakelog.{extra}" in block.text)
        or f"from wakelog.{extra} import" in block.text
    ]
    (tmp_path / "program.py").write_text(program.replace("127.0.0.1:9876", broker.name_server))
    assert said in run("program.py")
    run("-m", "pip", "install", "--quiet", "mypy")
    assert "Success: no issues found" in run("-m", "mypy", "--strict", "program.py")
