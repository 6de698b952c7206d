"""What a process imports before it does anything: a start, and an idle process's memory, are that.

In a cluster of somebody else's, every actor imports for itself.
"""

import subprocess
import sys
from collections.abc import Iterator

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


def services_by_absent() -> Iterator[tuple[str, set[str]]]:
    """Yield modules that are imported in one process: what none of them brings is the same."""
    for absent in sorted({frozenset(absent) for absent in SERVICES.values()}, key=sorted):
        yield ", ".join(x for x, others in SERVICES.items() if others == absent), set(absent)


MODULES_MAX = {"before Ray": 460, "before the fork": 750, "in a worker": 1_150}
"""Of a start of `wakelog up`: some three in a hundred more than there are."""

_START = """
import os, sys
import wakelog.__main__, wakelog.cli.app
from wakelog.telemetry.lean_import import import_structlog
import_structlog()
import wakelog.cli.up, wakelog.actors.deploy.supervised
print(len(sys.modules))
from wakelog.actors.ray.fast_start import forked_head, worker_template
forked_head.import_for_workers(dict(os.environ))
print(len(sys.modules))
worker_template.import_actors()
print(len(sys.modules))
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_start_of_up_imports_no_more_modules_than_it_did() -> None:
    command = [sys.executable, "-c", _START]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    counts = dict(zip(MODULES_MAX, map(int, found.stdout.split()), strict=True))
    assert {where: count for where, count in counts.items() if count > MODULES_MAX[where]} == {}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("modules", "absent"), [*ABSENT.items(), *services_by_absent()])
def test_modules_come_without_what_they_do_not_need(modules: str, absent: set[str]) -> None:
    program = f"import sys, {modules}; print(*sorted(set(sys.modules) & {absent!r}))"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == []
