"""Redis Streams, NATS JetStream and Kafka, with which `./dev bench client` compares.

Redis and NATS are Debian's (`apt-get install redis-server nats-server`). Kafka's jars are fetched
by Maven and checked against `kafka.lock`. The Python clients are in an environment of their own in
`.cache/`, made when it is first needed from `drivers/other_clients.txt`. Each server writes to its
log before it answers. None waits for a sync, as the broker here does not by default.
"""

import base64
import json
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.compat import maven
from tests.compat.processes import TestProcess, free_port
from tests.compat.provision import CACHE, ProvisionFailed, java_runtime, maven_command, turn

READY_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
ROW_SECONDS_MAX: Final = 120.0

DRIVER: Final = Path(__file__).parent / "drivers" / "other_clients.py"
REQUIREMENTS: Final = DRIVER.with_suffix(".txt")
KAFKA_LOCK: Final = Path(__file__).parent / "kafka.lock"
CLIENTS_FOLDER: Final = CACHE / "other-clients"

NAMES: Final = {"redis": "Redis Streams", "nats": "NATS JetStream", "kafka": "Kafka"}
_KAFKA_HEAP: Final = ("-Xms1g", "-Xmx1g")  # of kafka-server-start.sh


class Ran(NamedTuple):
    """What a row took: the time, and the client process's CPU time."""

    seconds: float
    cpu_seconds: float


class OtherServer:
    """One server over an empty folder, for a `with` block."""

    def __init__(self, system: str, folder: Path) -> None:
        """Start it, and return once its port accepts. Raises: ProvisionFailed."""
        self.system = system
        self.port = free_port()
        folder.mkdir(parents=True)
        command, environment = _COMMANDS[system](folder, self.port)
        log_path = folder / "server.out"
        self._process = TestProcess(command, env=environment, log_path=log_path, cwd=folder)
        try:
            self._process.wait_until(
                self._accepts, seconds_max=READY_SECONDS_MAX, what=f"{system} accepting"
            )
        except BaseException:
            self.stop()
            raise

    def _accepts(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False

    def run(self, row: str, topic: str, count: int) -> Ran:
        """Run a row by its client, in a process of its own."""
        words = [self.system, row, str(self.port), topic, str(count)]
        outcome = subprocess.run(
            [str(client_python()), str(DRIVER), *words],
            stdout=subprocess.PIPE,
            text=True,
            timeout=ROW_SECONDS_MAX,
            check=True,
        )
        return Ran(**json.loads(outcome.stdout))

    def stop(self) -> None:
        """End it."""
        self._process.end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()


def client_python() -> Path:
    """Return the Python that has the clients, made the first time. Raises: ProvisionFailed."""
    python = CLIENTS_FOLDER / "bin" / "python"
    wanted, stamp = REQUIREMENTS.read_text(), CLIENTS_FOLDER / REQUIREMENTS.name
    with turn("other-clients"):
        if stamp.exists() and stamp.read_text() == wanted:
            return python
        shutil.rmtree(CLIENTS_FOLDER, ignore_errors=True)
        install = [str(python), "-m", "pip", "install", "-q", "-r", str(REQUIREMENTS)]
        for command in ([sys.executable, "-m", "venv", str(CLIENTS_FOLDER)], install):
            if subprocess.run(command, check=False).returncode:
                what = "the clients of the others could not be installed (see above)"
                raise ProvisionFailed(f"{what}: go on with --without redis,nats,kafka")
        stamp.write_text(wanted)
    return python


def _program(name: str, system: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        remedy = f"apt-get install {name}, or leave it out with --without {system}"
        raise ProvisionFailed(f"{name} is not on PATH: {remedy}")
    return found


Command = tuple[Sequence[str], dict[str, str]]


def _redis(folder: Path, port: int) -> Command:
    log = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
    place = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder))
    return (_program("redis-server", "redis"), *place, *log), {}


def _nats(folder: Path, port: int) -> Command:
    place = ("-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder))
    return (_program("nats-server", "nats"), *place), {}


def _kafka(folder: Path, port: int) -> Command:
    """Kafka as broker and controller in one (KRaft), with its defaults otherwise."""
    control_port = free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{control_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "logs"),
        "num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    path = folder / "server.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    (folder / "log4j.properties").write_text("log4j.rootLogger=OFF\n")
    runtime = java_runtime()
    environment = {**runtime.env, "CLASSPATH": _kafka_classpath()}
    java = [runtime.java, *_KAFKA_HEAP, f"-Dlog4j.configuration=file:{folder}/log4j.properties"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    make = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(path)]
    silent = subprocess.DEVNULL
    subprocess.run(make, env=environment, stdout=silent, stderr=silent, check=True)
    return (*java, "kafka.Kafka", str(path)), environment


def _kafka_classpath() -> str:
    artifacts = maven.read_artifacts(KAFKA_LOCK)
    repository = CACHE / "kafka"
    repository.mkdir(parents=True, exist_ok=True)
    with turn("kafka"):
        try:
            if not maven.verify(artifacts, repository):
                print("fetching the jars of Kafka with Maven", flush=True)
                command, environment = maven_command()
                maven.fetch(command, environment, artifacts, repository)
        except maven.MavenFailed as failure:
            remedy = "leave it out with --without kafka"
            raise ProvisionFailed(f"{failure}: {remedy}") from failure
    return ":".join(str(one.path_in(repository)) for one in artifacts)


_COMMANDS: Final[dict[str, Callable[[Path, int], Command]]] = {
    "redis": _redis,
    "nats": _nats,
    "kafka": _kafka,
}
assert _COMMANDS.keys() == NAMES.keys()
