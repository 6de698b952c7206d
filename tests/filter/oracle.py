"""RocketMQ's own filter module: `tests/compat/driver/FilterOracle.java` in one JVM."""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from tests.compat.driver import compiled_driver
from tests.compat.provision import JVM_OPTIONS, java_runtime, rocketmq_classpath

SECONDS_MAX = 100


def ask(questions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return its answer to each question."""
    runtime = java_runtime()
    outcome = subprocess.run(
        [runtime.java, *JVM_OPTIONS, "-Xmx256m", "FilterOracle"],
        env={**runtime.env, "CLASSPATH": f"{compiled_driver()}:{rocketmq_classpath()}"},
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS_MAX,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-2_000:]
    return [json.loads(line) for line in outcome.stdout.splitlines()]
