"""Cost: the processes of a side are found by their mark, with CPU, memory and shared files."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from benchmarks.cost import MARK, SHARED_MEMORY, cost_of, role_of

MIB = 1 << 20
# Uses some CPU, holds 8 MiB of its own, and 4 MiB in shared memory that no name leads to any more.
PROGRAM = """
import os, sys, time
held = bytearray(os.urandom(1 << 20) * 8)
path = sys.argv[1]
shared = os.open(path, os.O_RDWR | os.O_CREAT)
os.write(shared, bytes(4 << 20))
os.unlink(path)
while time.process_time() < 0.2: pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("ray::ReputService", "ReputService"),
        ("ray::broker-a:BrokerActor.__init__", "BrokerActor"),
        ("ray::IDLE", "IDLE"),
        ("/x/raylet/raylet --raylet_socket_name=x", "raylet"),
        ("java -cp x org.apache.rocketmq.broker.BrokerStartup -c y", "JVM broker"),
        ("python -m wakelog up --store x", "wakelog up"),
        ("something else", "something else"),
    ],
)
def test_a_process_is_called_by_its_role(command: str, role: str) -> None:
    assert role_of(command) == role


@pytest.mark.process
@pytest.mark.slow
def test_a_marked_process_is_counted_and_no_other(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    path = SHARED_MEMORY / f"wakelog-test-{mark}"
    command = [sys.executable, "-c", PROGRAM, str(path)]
    with subprocess.Popen(
        command,
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        cost = cost_of(mark, is_broker="time.process_time")
        other = cost_of(mark, is_broker="no such word")
        assert process.stdin is not None
        process.stdin.close()
    assert 0.1 < cost.cpu_seconds < 20
    assert cost.broker_cpu_seconds == cost.cpu_seconds
    assert other.broker_cpu_seconds == 0
    assert cost.shared_memory_bytes == 4 * MIB
    assert cost.memory_bytes > 12 * MIB
    assert cost.pss_bytes > 8 * MIB
    assert cost_of(uuid.uuid4().hex, is_broker="x").cpu_by_role == {}
