"""The two sides of a comparison: a broker with its name server, started, measured and stopped.

Both get an emptied store on the same file system, the same segment size, ports of their own and
their defaults otherwise. A side is marked by an environment variable, so that ``cost`` finds every
process it started.
"""

import os
import shutil
import signal
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from benchmarks.cost import MARK, Cost, cost_of
from tests.compat.name_server_probe import answers, knows_broker
from tests.compat.processes import TestProcess, free_port
from tests.compat.provision import java_runtime, rocketmq_classpath

READY_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 90.0

HEAP = ("-Xms2g", "-Xmx2g")
_OPENED = ("sun.nio.ch", "java.nio", "java.util", "java.lang")
_JAVA_MAINS = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
}


class Wakelog:
    """``wakelog up`` as a user runs it."""

    name = "wakelog"

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Return once the broker is in the route."""
        self._mark = _emptied(folder)
        ports = free_port(), free_port(-2, 1)
        self.name_server, self.broker = (f"127.0.0.1:{port}" for port in ports)
        command = [sys.executable, "-m", "wakelog", "up", "--store", str(folder / "store")]
        command += ["--namesrv-port", str(ports[0]), "--broker-port", str(ports[1])]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.configuration: dict[str, object] = {"command": command[1:]}
        environment = dict(os.environ) | {MARK: self._mark}
        self._process = TestProcess(command, env=environment, log_path=folder / "up.out")
        self._process.wait_until(
            lambda: knows_broker(self.name_server, self.broker),
            seconds_max=READY_SECONDS_MAX,
            what="registered",
        )

    def cost(self) -> Cost:
        """Return what every process that ``up`` started used, Ray's daemons included."""
        return cost_of(self._mark, is_broker=b"ray::")

    def stop(self) -> None:
        """Stop in order."""
        self._process.end(signal.SIGTERM, seconds_max=STOP_SECONDS_MAX)


class RocketMQ:
    """The real 4.9.3 name server and broker."""

    name = "rocketmq"

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Return once the broker is in the route."""
        self._mark = _emptied(folder)
        ports = free_port(), free_port(-2, 1)
        self.name_server, self.broker = (f"127.0.0.1:{port}" for port in ports)
        self._processes = [self._start(folder, "namesrv", {"listenPort": str(ports[0])})]
        self._processes[0].wait_until(
            lambda: answers(self.name_server), seconds_max=READY_SECONDS_MAX, what="answering"
        )
        store = folder / "store"
        keys = {
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(ports[1]),
            "namesrvAddr": self.name_server,
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            **settings,
        }
        self.configuration: dict[str, object] = {"jvm": HEAP, "broker.conf": keys}
        self._processes.append(self._start(folder, "broker", keys))
        self._processes[1].wait_until(
            lambda: knows_broker(self.name_server, self.broker),
            seconds_max=READY_SECONDS_MAX,
            what="registered",
        )

    def _start(self, folder: Path, program: str, settings: Mapping[str, str]) -> TestProcess:
        home = folder / "home"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        quiet = "<configuration><root level='ERROR'/></configuration>"
        (home / "conf" / f"logback_{program}.xml").write_text(quiet)
        settings_path = home / "conf" / f"{program}.conf"
        settings_path.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        runtime = java_runtime()
        options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        places = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
        main = [_JAVA_MAINS[program], "-c", str(settings_path)]
        environment = {
            **runtime.env,
            "ROCKETMQ_HOME": str(home),
            "CLASSPATH": rocketmq_classpath(),
            MARK: self._mark,
        }
        heap = HEAP if program == "broker" else ("-Xmx512m",)
        return TestProcess(
            [runtime.java, *options, *heap, *places, *main],
            env=environment,
            log_path=folder / f"{program}.out",
        )

    def cost(self) -> Cost:
        """Return what the two JVMs used."""
        return cost_of(self._mark, is_broker=b"BrokerStartup")

    def stop(self) -> None:
        """Stop in order."""
        for process in reversed(self._processes):
            process.end(signal.SIGTERM, seconds_max=STOP_SECONDS_MAX)


SIDES = (Wakelog, RocketMQ)


def _emptied(folder: Path) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return uuid.uuid4().hex
