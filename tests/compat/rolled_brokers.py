"""Brokers of a cluster that are stopped and started one by one, each a process of some version.

Two names, `broker-a` and `broker-b`: producers have where to go while one of them is away. With
`replicas` each name has so many brokers, and a register says which one leads.
"""

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.compat.name_server_probe import answers, serves
from tests.compat.processes import TestProcess, free_port
from tests.compat.real_rocketmq import PATIENT
from tests.compat.versions import Version
from wakelog.actors.registers.register import GroupRegister, group_key, open_register
from wakelog.broker.replication.group_state import GroupState
from wakelog.telemetry.exposition import READY_PATH

NAMES: Final = ("broker-a", "broker-b")
DRAIN_SECONDS: Final = 60
STOP_SECONDS_MAX: Final = DRAIN_SECONDS + 90.0
READY_SECONDS_MAX: Final = 120.0
ASK_SECONDS_MAX: Final = 5.0
SEGMENT_BYTES: Final = 1 << 22


class RolledBroker:
    """One broker: its place is the same whatever version runs there.

    number: among the replicas of its name, from 1 up; 0 without a register.
    """

    def __init__(self, folder: Path, name: str, number: int, name_server: str) -> None:
        self.folder, self.name, self.number = folder, name, number
        self._name_server = name_server
        self._port, self._metrics_port = free_port(-2, 1), free_port()
        self._process: TestProcess | None = None
        self.version: Version | None = None

    @property
    def address(self) -> str:
        """Where it answers clients."""
        return f"127.0.0.1:{self._port}"

    def start(self, version: Version) -> None:
        """Start its process; it need not serve yet."""
        self.version = version
        own = f"{self.name}-{self.number}"
        settings = {
            "brokerName": self.name,
            "namesrvAddr": self._name_server,
            "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
            **PATIENT,
        }
        if self.number:
            settings |= {
                "wakelog.register": register_of(self.folder),
                "brokerId": str(self.number),
                "minInSyncReplicas": "1",
            }
        words = [
            *("up", "--local", "--store", str(self.folder / own), "--namesrv-port", "0"),
            *("--broker-port", str(self._port), "--metrics-port", str(self._metrics_port)),
            *("--console-port", "0"),
        ]
        if version.drains:
            words += ["--drain-seconds", str(DRAIN_SECONDS)]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        self._process = TestProcess(
            [sys.executable, "-m", "wakelog", *words],
            env={**version.env, "TMPDIR": str(self.folder)},
            log_path=self.folder / f"{own}.out",
            cwd=self.folder,
        )

    def wait_ready(self) -> None:
        """Return once clients can use it, and it is in sync with its master."""
        assert self._process is not None
        self._process.wait_until(self._is_ready, seconds_max=READY_SECONDS_MAX, what="ready")

    def _is_ready(self) -> bool:
        if self.number:
            state = group_state(self.folder, self.name)
            if state is None or not state.master or self.number not in state.in_sync:
                return False
        assert self.version is not None
        if not self.version.drains:  # it has no probes either
            return serves(self._name_server, self.address)
        try:
            url = f"http://127.0.0.1:{self._metrics_port}{READY_PATH}"
            with urllib.request.urlopen(url, timeout=ASK_SECONDS_MAX):
                return True
        except OSError:  # also an answer 503
            return False

    def leads(self) -> bool:
        """Return whether producers send to it."""
        state = group_state(self.folder, self.name) if self.number else None
        return state is None or state.master == self.number

    def stop(self) -> float:
        """Stop it in order, by what systemd sends; return the seconds that it took."""
        assert self._process is not None
        began = time.monotonic()
        code = self._process.end(signal.SIGTERM, seconds_max=STOP_SECONDS_MAX)
        assert code == 0, f"{self.name} ended with {code}{self._process}"
        return time.monotonic() - began

    def end(self) -> None:
        """End it for certain."""
        if self._process is not None:
            self._process.__exit__()


def register_of(folder: Path) -> str:
    """Return the address of the register that all groups share."""
    return f"file://{folder}/register"


def group_state(folder: Path, name: str) -> GroupState | None:
    """Return what the register has of the replicas of a name."""
    group = GroupRegister(open_register(register_of(folder)), group_key("DefaultCluster", name))
    try:
        return group.read().state
    finally:
        group.close()


class RolledCluster:
    """A name server and the brokers."""

    def __init__(self, folder: Path, replicas: int) -> None:
        """Start nothing. replicas: of each name; 0 for brokers without a register."""
        self._folder = folder
        self._port = free_port()
        self.name_server = f"127.0.0.1:{self._port}"
        numbers = range(1, replicas + 1) if replicas else (0,)
        self.brokers = [
            RolledBroker(folder, name, number, self.name_server)
            for name in NAMES
            for number in numbers
        ]

    @contextmanager
    def running(self, version: Version) -> Iterator[None]:
        """Run all of it, the brokers of a version; end it for certain."""
        words = ["nameserver", "--store", str(self._folder / "names"), "--metrics-port", "0"]
        process = TestProcess(
            [sys.executable, "-m", "wakelog", *words, "--port", str(self._port)],
            env={**version.env, "TMPDIR": str(self._folder)},
            log_path=self._folder / "names.out",
            cwd=self._folder,
        )
        with ExitStack() as undo:
            undo.enter_context(process)
            process.wait_until(
                lambda: answers(self.name_server), seconds_max=READY_SECONDS_MAX, what="answering"
            )
            for broker in self.brokers:
                undo.callback(broker.end)
                broker.start(version)
            for broker in self.brokers:
                broker.wait_ready()
            yield

    def in_turn(self) -> Iterator[RolledBroker]:
        """Yield each broker once: of each name the followers first, then the one that leads."""
        for name in NAMES:
            own = [broker for broker in self.brokers if broker.name == name]
            followers = [broker for broker in own if not broker.leads()]
            yield from followers
            yield from (broker for broker in own if broker not in followers)

    def restart(
        self, broker: RolledBroker, version: Version, wait_unused: Callable[[str], None]
    ) -> float:
        """Stop a broker and start it with a version; return the seconds that the stop took.

        One without a drain loses its write permission first, as the runbook says. wait_unused:
        returns once no producer sends to the brokers of a name.
        """
        assert broker.version is not None
        is_wiped = broker.leads() and not broker.version.drains
        if is_wiped:
            self._administer("wipeWritePerm", broker.name)
            wait_unused(broker.name)
        seconds = broker.stop()
        broker.start(version)
        broker.wait_ready()
        if is_wiped:
            self._administer("addWritePerm", broker.name)
        return seconds

    def _administer(self, command: str, name: str) -> None:
        words = ["admin", command, "-b", name, "-n", self.name_server]
        subprocess.run([sys.executable, "-m", "wakelog", *words], check=True, capture_output=True)
