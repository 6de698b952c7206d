"""Fixtures of this folder: a Spark session, clusters, compiled code over small buffers."""

from collections.abc import Iterator

import pytest

from tests.compat.clusters import Cluster, local_cluster, real_cluster
from tests.compat.provision import JVM_OPTIONS, java_runtime
from wakelog.spark.records.column_walk import RecordWalk
from wakelog.spark.session import open_session

STOP_SECONDS_MAX = 30

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    # Plans of a few rows are not worth being made again, or compiled.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}
# Spark's classes are its release's: to verify them takes a quarter of the time to the first rows.
UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Yield the session; its Java ends with it."""
    folder = str(tmp_path_factory.mktemp("spark"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in java_runtime().env.items():
            patch.setenv(name, value)
        patch.setenv("JDK_JAVA_OPTIONS", " ".join((*JVM_OPTIONS, *UNVERIFIED)))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = open_session(
            "local[2]",
            {**CONFIG, "spark.local.dir": folder, "spark.sql.warehouse.dir": folder},
        )
        context = type(session.sparkContext)
        gateway = context._gateway
        assert gateway is not None
        yield session
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # its Java waits for that
        gateway.proc.wait(timeout=STOP_SECONDS_MAX)
        context._gateway = context._jvm = None


@pytest.fixture(scope="package")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a running cluster of wakelog, for tests with topics of their own."""
    with local_cluster(tmp_path_factory.mktemp("local")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a running cluster of the real brokers, for tests with topics of their own."""
    with real_cluster(tmp_path_factory.mktemp("real")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def walk() -> RecordWalk:
    """Return compiled columns over a small buffer, so that records are cut by its end."""
    return RecordWalk(buffer_bytes=1 << 12, records_max=16)
