"""What the programs of 4.9.3 are started with."""

import subprocess

import pytest

from tests.compat.driver import compiled_driver
from tests.compat.provision import java_runtime, rocketmq_classpath
from tests.compat.real_rocketmq import class_options

PROGRAM = "org.apache.rocketmq.broker.BrokerStartup"


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("is_driver", [False, True])
def test_classes_of_the_jars_come_from_the_archive(is_driver: bool) -> None:
    runtime = java_runtime()
    path = f"{rocketmq_classpath()}:{compiled_driver()}" if is_driver else rocketmq_classpath()
    outcome = subprocess.run(
        [runtime.java, "-XX:+UseSerialGC", *class_options(), "-Xlog:class+load", PROGRAM, "-h"],
        env={**runtime.env, "CLASSPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{PROGRAM} source: shared objects file (top)" in outcome.stdout, outcome.stderr
