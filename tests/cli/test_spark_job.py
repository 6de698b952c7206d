"""The program that spark-submit starts: the same commands, with the master that it was given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.provision import JVM_OPTIONS, java_runtime
from tests.documents import ROOT
from tests.fakes.records import LogBytes
from tests.spark.logs import write_segments
from wakelog.cli import spark_job

SECONDS_MAX = 100


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_job_is_submitted(tmp_path: Path) -> None:
    log = LogBytes(4096)
    for i in range(40):
        log.add(queue_offset=i)
    folder = write_segments(tmp_path / "copied", log)
    environment = {**os.environ, **java_runtime().env, "PYTHONPATH": str(ROOT)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"JDK_JAVA_OPTIONS": " ".join(JVM_OPTIONS)}
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", "local[1]", "--conf", f"spark.local.dir={tmp_path}"),
            *("--conf", "spark.ui.enabled=false", "--driver-memory", "512m", spark_job.__file__),
            *("rebuild", "--store", str(folder), "--into", str(tmp_path / "new")),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rebuilt: 40 records from 0 to " in done.stdout
    assert (tmp_path / "new" / "consumequeue" / "T" / "0").is_dir()
