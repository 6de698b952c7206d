"""`wakelog up` as a program of its own, on ports that are free, with a Ray of its own or none.

What the program says of itself is read where everybody reads it: from /metrics.
"""

import os
import re
import signal
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cli.commands import Command, running
from tests.compat.processes import free_port
from tests.leftovers import heirs, open_paths
from wakelog.actors.deploy.planning import PORTS_BETWEEN_BROKERS

PROGRAM = ("-m", "wakelog")
READY = "ready after"
READY_SECONDS_MAX = 90.0
"""On a quiet machine it takes 5 s with Ray; tests share theirs."""

STOP_SECONDS_MAX = 60.0
SMALL_FILES = (
    "mappedFileSizeCommitLog=1048576",
    "mappedFileSizeConsumeQueue=6000",
    "maxHashSlotNum=1000",
    "maxIndexNum=4000",
)

WORD_VARIABLE = "WAKELOG_TEST_UP"
"""By which the processes of one program are told from all others."""

_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)", re.ASCII)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Up:
    """A running `wakelog up` and where it listens."""

    def __init__(
        self,
        command: Command,
        word: str,
        name_server_port: int,
        broker_port: int,
        brokers_count: int,
    ) -> None:
        self.command = command
        self.word = word
        self.name_server_port = name_server_port
        self.broker_ports = [broker_port + PORTS_BETWEEN_BROKERS * i for i in range(brokers_count)]
        self.metrics_port = broker_port + 2

    @property
    def name_server_address(self) -> str:
        return f"127.0.0.1:{self.name_server_port}"

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.broker_ports]

    @property
    def ports(self) -> list[int]:
        """Every port that is free once the program has ended."""
        brokers = [port + above for port in self.broker_ports for above in (-2, 0, 1)]
        return [self.name_server_port, *brokers, self.metrics_port]

    def wait_ready(self) -> None:
        self.command.wait_line(READY, READY_SECONDS_MAX)

    def samples(self) -> Samples:
        """Scrape the metrics."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        found: Samples = {}
        for line in text.splitlines():
            match = _SAMPLE.fullmatch(line)
            if match is not None:
                labels = frozenset(_LABEL.findall(match[2] or ""))
                found[match[1], labels] = float(match[3])
        return found

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels, 0 if there is none."""
        wanted = set(labels.items())
        return sum(
            value
            for (sample, present), value in self.samples().items()
            if sample == name and wanted <= present
        )

    def processes(self) -> dict[int, str]:
        """Return every process that came of it and lives, by id."""
        return heirs(WORD_VARIABLE, self.word)

    def shared_paths(self) -> set[str]:
        """Return what its processes use of the memory that all processes share."""
        paths = open_paths(self.processes())
        # Ray's object store is a file that was removed when it was opened.
        return {path for path in paths if path.startswith("/dev/shm/") and os.path.exists(path)}

    def stop(self, number: signal.Signals = signal.SIGTERM, *, group: bool = False) -> None:
        """Stop in order and assert that it was."""
        self.command.signal(number, group=group)
        end = self.command.wait_end(STOP_SECONDS_MAX)
        assert end == (0, ""), f"code {end[0]}, {self.command.lines[-3:]}: {end[1]}"
        assert self.command.lines[-1] == "wakelog: stopped"


@contextmanager
def running_up(
    store: Path,
    *arguments: str,
    program: Sequence[str] = PROGRAM,
    brokers_count: int = 1,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    ignores_interrupt: bool = False,
) -> Iterator[Up]:
    """Run `up` over a store with small files; it may not be ready yet."""
    firsts = range(0, brokers_count * PORTS_BETWEEN_BROKERS, PORTS_BETWEEN_BROKERS)
    broker_port = free_port(2, *(first + above for first in firsts for above in (-2, 0, 1)))
    name_server_port = free_port()
    words = ["--store", str(store), "--namesrv-port", str(name_server_port)]
    words += ["--broker-port", str(broker_port), "--metrics-port", str(broker_port + 2)]
    words += ["--console-port", "0"]
    words += ["--brokers", str(brokers_count)]
    for setting in (*SMALL_FILES, *settings):
        words += ["--set", setting]
    word = uuid.uuid4().hex
    with running(
        program,
        "up",
        *words,
        *arguments,
        environment={WORD_VARIABLE: word, **(environment or {})},
        ignores_interrupt=ignores_interrupt,
    ) as command:
        yield Up(command, word, name_server_port, broker_port, brokers_count)
