"""Real members of an etcd cluster, started over empty folders and killed at will."""

import json
import os
import signal
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.compat.processes import TestProcess, free_port
from tests.compat.provision import etcd_program

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0


class EtcdMembers:
    """For a `with` block. client_ports: one a member, in order."""

    def __init__(self, folder: Path, count: int) -> None:
        self.client_ports = [free_port() for _ in range(count)]
        self._peer_ports = [free_port() for _ in range(count)]
        self._folder = folder
        self._running: dict[int, TestProcess] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._end_all)
            for index in range(len(self.client_ports)):
                self.start(index)
            for index in range(len(self.client_ports)):
                self.wait_healthy(index)
            stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_all()

    def start(self, index: int) -> None:
        """Start a member over what its folder has."""
        peers = [f"m{n}=http://127.0.0.1:{port}" for n, port in enumerate(self._peer_ports)]
        client, peer = self.client_ports[index], self._peer_ports[index]
        options = {
            "name": f"m{index}",
            "data-dir": str(self._folder / f"m{index}"),
            "listen-client-urls": f"http://127.0.0.1:{client}",
            "advertise-client-urls": f"http://127.0.0.1:{client}",
            "listen-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-cluster": ",".join(peers),
            "initial-cluster-state": "new",
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self._running[index] = TestProcess(
            [etcd_program(), *words],
            env=dict(os.environ),
            log_path=self._folder / f"m{index}.log",
            cwd=self._folder,
        )

    def wait_healthy(self, index: int) -> None:
        """Wait until a member says that the cluster has a leader."""
        url = f"http://127.0.0.1:{self.client_ports[index]}/health"

        def is_healthy() -> bool:
            try:
                with urllib.request.urlopen(url, timeout=2) as answer:
                    return bool(json.load(answer)["health"] == "true")
            except (OSError, ValueError, urllib.error.URLError):
                return False

        self._running[index].wait_until(
            is_healthy, seconds_max=READY_SECONDS_MAX, what=f"member {index} of etcd healthy"
        )

    def kill(self, index: int) -> None:
        """End a member as a crash does."""
        self._running.pop(index).end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)

    def signal(self, index: int, number: signal.Signals) -> None:
        """Stop or continue a member."""
        os.kill(self._running[index].process_id, number)

    def _end_all(self) -> None:
        for process in self._running.values():
            process.end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)
        self._running.clear()
