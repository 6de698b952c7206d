"""Spark beside Ray, both ways: in a process of its own, which starts and ends all of it.

Spark hosts the Ray, or the Ray is outside of it; what actors hand over is read there, too. For the
long run: what is handed over each day is in `test_handoff.py`.
"""

import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.compat.processes import TestProcess, free_port, states_of
from tests.compat.provision import JVM_OPTIONS, java_runtime
from tests.documents import ROOT
from tests.spark.conftest import CONFIG
from tests.spark.ray_on_spark import ORDERS

SILENT_SECONDS_MAX = 240.0
"""How long it may say nothing, Spark and Ray included; on a busy machine the whole takes longer."""

POLL_SECONDS = 0.5
RAYS_OWN = [
    Path("/tmp/ray_on_spark_worker_port_allocation.txt"),
    Path("/tmp/ray_on_spark_worker_startup_barrier_lock.lock"),
]


@pytest.fixture
def _rays_own_files() -> Iterator[None]:
    """Remove what Ray keeps for all clusters of the machine, if none was there before."""
    new = [path for path in RAYS_OWN if not path.exists()]
    yield
    for path in new:
        path.unlink(missing_ok=True)


def spark_home(folder: Path) -> Path:
    """Return a Spark whose own workers keep their files in it, and not in the package."""
    folder.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        folder.joinpath(path.name).symlink_to(path)
    return folder


@pytest.mark.spark
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.long
@pytest.mark.usefixtures("_rays_own_files")
@pytest.mark.parametrize("parts", [[], ["outside"]])
def test_spark_reads_a_snapshot_of_actors_and_hosts_a_broker(
    tmp_path: Path, parts: list[str]
) -> None:
    lines = [f"{name} {value}" for name, value in CONFIG.items()]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    environment = {
        **java_runtime().env,
        "JDK_JAVA_OPTIONS": " ".join(JVM_OPTIONS),
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_HOME": str(spark_home(tmp_path / "spark")),
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [
        *(sys.executable, "-m", "tests.spark.ray_on_spark", str(tmp_path)),
        *(str(free_port()), str(free_port(-2, 0, 1)), *parts),
    ]
    log_path = tmp_path / "output"
    with TestProcess(command, env=environment, log_path=log_path, cwd=ROOT) as process:
        code = end_of(process, log_path)
    output = log_path.read_text()
    assert code == 0, output
    for line in (
        *(f"{part}: {ORDERS} {ORDERS}" for part in parts),
        "Spark reads 1000 orders",
        "Ray Data reads 1000 orders",
        "Ray Data wrote 1000 orders",
        "inside: in order",
    ):
        assert line in output, output


def end_of(process: TestProcess, log_path: Path) -> int:
    """Return the exit code of a process that says something from time to time until it ends."""
    said_bytes, said_seconds = -1, 0.0
    while states_of(process.process_id) - {"Z"}:
        if (size_bytes := log_path.stat().st_size) != said_bytes:
            said_bytes, said_seconds = size_bytes, time.monotonic()
        silent_seconds = time.monotonic() - said_seconds
        assert silent_seconds < SILENT_SECONDS_MAX, f"it hangs{process}"
        time.sleep(POLL_SECONDS)
    return process.wait_end(seconds_max=POLL_SECONDS)
