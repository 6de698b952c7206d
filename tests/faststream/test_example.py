"""The example, in memory and beside a broker; and from outside, in an environment of its own."""

import asyncio
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from examples import faststream_orders as example
from wakelog.faststream import TestRocketMQBroker
from wakelog.testing import EmbeddedBroker

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL_SECONDS_MAX = 600
EXTRA_BRINGS = {"faststream", "fast-depends", "pydantic", "anyio"}
OTHER_EXTRAS = {"ray", "pyspark", "pyarrow", "pandas", "starlette", "celery", "pytest"}


def test_the_example_runs_in_memory() -> None:
    example.totals.clear()

    async def body() -> None:
        async with TestRocketMQBroker(example.broker) as broker:
            assert await example.order_and_ask("Ann") == 1
            example.add.mock.assert_called_once_with([{"order": 4711, "text": "Ann pays 19.50"}])
            document = example.app.schema.to_specification().to_jsonable()
            assert "x-rocketmq" in str(document["channels"]["shop-orders:Bill"])
            assert broker is example.broker

    asyncio.run(body())


@pytest.mark.process
@pytest.mark.slow
def test_the_example_runs_beside_a_broker(cluster: EmbeddedBroker) -> None:
    command = [sys.executable, "-m", "examples.faststream_orders"]
    environment = {**os.environ, "NAME_SERVER": cluster.name_server}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "Ann has 1 bill" in ended.stdout
    assert "stored at broker-a" in ended.stdout


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(INSTALL_SECONDS_MAX)
def test_the_extra_alone_runs_it_and_is_typed_strictly(
    cluster: EmbeddedBroker, tmp_path: Path
) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"

    def run(*words: str) -> str:
        environment = {"PATH": os.environ["PATH"], "NAME_SERVER": cluster.name_server}
        environment |= {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
        command, folder = [str(python), *words], tmp_path / "program"
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "program").mkdir()
    shutil.copy(example.__file__, tmp_path / "program" / "orders.py")
    run("-m", "pip", "install", "--quiet", f"{wheel}[faststream]")
    installed = {line.partition("==")[0].lower() for line in run("-m", "pip", "freeze").split()}
    assert installed >= EXTRA_BRINGS and not installed & OTHER_EXTRAS, installed
    assert "Ann has 1 bill" in run("orders.py")
    run("-m", "pip", "install", "--quiet", "mypy")
    assert "Success: no issues found in 1 source file" in run("-m", "mypy", "--strict", "orders.py")
