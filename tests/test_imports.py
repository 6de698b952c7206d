"""What a process imports before it does anything: a start, and an idle process's memory, are that.

In a cluster of somebody else's, every actor imports for itself.
"""

import subprocess
import sys

import pytest

from wakelog.actors.ray.options import TARGETS

ARRAYS = {"numpy"}
COMMANDS = {"wakelog.cli.app", "wakelog.cli.command"}
OTHERS = {"pydantic", "pandas", "pyarrow", "scipy"}

# What is not imported with a module, nor by anything that it imports.
ABSENT = {
    "wakelog.__main__": ARRAYS | COMMANDS | OTHERS | {"ray", "rich", "structlog", "asyncio"},
    # The modules with commands: they are imported for any command, and for the help.
    "wakelog.cli.app, wakelog.cli.cluster.commands, wakelog.cli.log, wakelog.cli.spark": (
        ARRAYS | OTHERS | {"ray", "structlog", "asyncio", "wakelog.client"}
    ),
    "wakelog.actors.deploy.supervised": ARRAYS | COMMANDS | OTHERS | {"ray", "prometheus_client"},
    "wakelog.actors.deploy.local": COMMANDS | OTHERS | {"ray"},
    "wakelog.actors.deploy.supervisor": ARRAYS | COMMANDS | OTHERS,
    # Spark imports it in three processes of the driver for each query.
    "pyspark_rocketmq": COMMANDS | OTHERS | {"ray", "prometheus_client"},
}

# Their queues are arrays.
WITH_ARRAYS = {"Broker", "Reput", "PullHold"}
SERVICES = {
    target.partition(":")[0]: (set() if kind in WITH_ARRAYS else ARRAYS)
    | COMMANDS
    | OTHERS
    | {"ray", "prometheus_client"}
    for kind, target in TARGETS.items()
    if kind != "Supervisor"
}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("module", "absent"), [*ABSENT.items(), *SERVICES.items()])
def test_a_module_comes_without_what_it_does_not_need(module: str, absent: set[str]) -> None:
    program = f"import sys, {module}; print(*sorted(set(sys.modules) & {absent!r}))"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == []
