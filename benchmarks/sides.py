"""The two sides of a comparison: a broker with its name server, started, measured and stopped.

Both get a store of their own on the same file system, the same segment size, ports of their own and
their defaults otherwise. A side is marked by an environment variable, so that ``cost`` finds every
process it started.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.cost import MARK, SLAVE_MARK, Cost, cost_of, processes_of
from tests.compat.name_server_probe import answers, serves
from tests.compat.processes import TestProcess, free_port
from tests.compat.provision import java_runtime, rocketmq_classpath

OWN_NAME = "wakelog"
READY_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 90.0

HEAP = ("-Xms2g", "-Xmx2g")
# 4.9.3 reaches into these to unmap files and to pin buffers; Java 17 closes them.
_OPENED = ("sun.nio.ch", "java.nio", "java.util", "java.lang")
_EXPORTED = ("jdk.internal.ref",)
_JAVA_MAINS = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
}
STORE_LOG_NAME = "store.log"
SLAVE_HOME = "slave-home"
SLAVE_STORE = "slave-store"
# Errors, and what the store says of its start, which is where a rebuild's beginning is read.
_LOGBACK = """<configuration>
  <appender name="store" class="ch.qos.logback.core.FileAppender">
    <file>{path}</file>
    <encoder><pattern>%d{{yyyy-MM-dd'T'HH:mm:ss.SSS,UTC}}Z %m%n</pattern></encoder>
  </appender>
  <logger name="RocketmqStore" level="INFO"><appender-ref ref="store"/></logger>
  <root level="ERROR"/>
</configuration>
"""

Prepare = Callable[[Path], None]
"""Puts something into an empty store before the broker starts over it."""


def leave_empty(_store: Path) -> None:
    """Start over an empty store."""


class Side:
    """What both have; ``began_seconds`` is of ``time.time``, at the start of the first process."""

    name: str
    broker_word: str
    """What the command line of a broker's process has, a name server's and a daemon's not."""
    leaves_more: bool
    """Whether a killed process would leave others behind; 4.9.3's stop takes 10 s for nothing."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], prepare: Prepare = leave_empty
    ) -> None:
        """Return once the broker is in the route and accepts."""
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.store = folder / "store"
        self.store.mkdir(parents=True)
        prepare(self.store)
        self._mark = uuid.uuid4().hex
        self.settings = settings
        ports = free_port(), free_port(-2, 1)
        self.name_server, self.broker = (f"127.0.0.1:{port}" for port in ports)
        self._ports = ports
        self.configuration: dict[str, object] = {}
        self._processes: list[TestProcess] = []
        self.start_again()

    def start_again(self) -> None:
        """Start over the store as it is, and return once the broker is in the route and accepts."""
        self.began_seconds = time.time()
        try:
            self._start(*self._ports, self.settings)
            self._processes[-1].wait_until(
                lambda: serves(self.name_server, self.broker),
                seconds_max=READY_SECONDS_MAX,
                what="registered",
            )
        except BaseException:
            self.stop()
            raise
        self.ready_seconds = time.time() - self.began_seconds

    def kill(self) -> None:
        """End every process by SIGKILL, those too that were started by others here."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
        while self._processes:
            self._processes.pop().wait_end(seconds_max=STOP_SECONDS_MAX)

    def _start(self, name_server_port: int, broker_port: int, settings: Mapping[str, str]) -> None:
        raise NotImplementedError

    def _spawn(self, command: list[str], environment: Mapping[str, str], log_name: str) -> None:
        marked = {**environment, MARK: self._mark}
        log_path = self.folder / log_name
        # Not in a checkout: Python would import that one's modules, whatever is installed.
        process = TestProcess(command, env=marked, log_path=log_path, cwd=self.folder)
        self._processes.append(process)

    def add_slave(self) -> str:
        """Start a slave of the broker, over an empty store beside the other; return its address."""
        settings = {
            **self.settings,
            "brokerRole": "SLAVE",
            "brokerId": "1",
            "namesrvAddr": self.name_server,
        }
        port = free_port(-2, 1)
        self._start_slave(self.folder / SLAVE_STORE, port, settings)
        self.configuration["slave"] = settings
        return f"127.0.0.1:{port}"

    def _start_slave(self, store: Path, port: int, settings: Mapping[str, str]) -> None:
        raise NotImplementedError

    def lead_from_slave(self) -> None:
        """Kill master and slave, and start over the slave's store as master."""
        self.kill()
        self.store = self.folder / SLAVE_STORE
        self.start_again()

    def cost(self) -> Cost:
        """Return what every process used that was started here, Ray's daemons included."""
        return cost_of(self._mark, is_broker=self.broker_word)

    def slave_cost(self) -> Cost:
        """Return what the processes of the slave used, which ``cost`` counts, too."""
        return cost_of(self._mark, is_broker=self.broker_word, variable=SLAVE_MARK)

    def processes(self) -> list[Path]:
        """Return the /proc folders of every process that was started here."""
        return processes_of(self._mark)

    def stop(self, *, in_order: bool = False) -> None:
        """End every process; ``in_order`` if the store is still needed. May be done twice."""
        while self._processes:
            by = signal.SIGTERM if in_order or self.leaves_more else signal.SIGKILL
            self._processes.pop().end(by, seconds_max=STOP_SECONDS_MAX)


class Wakelog(Side):
    """``wakelog up`` as a user runs it."""

    name = OWN_NAME
    broker_word = "ray::"
    leaves_more = True
    python = sys.executable
    options: tuple[str, ...] = ()
    without_console: tuple[str, ...] = ("--console-port", "0")

    def _start(self, name_server_port: int, broker_port: int, settings: Mapping[str, str]) -> None:
        command = ["-m", "wakelog", "up", "--store", str(self.store)]
        command += ["--namesrv-port", str(name_server_port), "--broker-port", str(broker_port)]
        command += [*self.without_console, *self.options]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.configuration = {"command": ["python", *command], "settings": dict(settings)}
        self._spawn([self.python, *command], os.environ, "up.out")

    def _start_slave(self, store: Path, port: int, settings: Mapping[str, str]) -> None:
        command = [self.python, "-m", "wakelog", "up", "--store", str(store)]
        command += ["--namesrv-port", "0", "--broker-port", str(port), *self.options]
        command += [*self.without_console, "--metrics-port", "0"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self._spawn(command, {**os.environ, SLAVE_MARK: self._mark}, "slave.out")


class LocalWakelog(Wakelog):
    """``wakelog up --local``: one process for everything, without Ray."""

    name = "wakelog-local"
    broker_word = "wakelog up"
    options = ("--local",)


class RocketMQ(Side):
    """The real 4.9.3 name server and broker."""

    name = "rocketmq"
    broker_word = "BrokerStartup"
    leaves_more = False

    def _start(self, name_server_port: int, broker_port: int, settings: Mapping[str, str]) -> None:
        self._run("namesrv", {"listenPort": str(name_server_port)})
        self._processes[0].wait_until(
            lambda: answers(self.name_server), seconds_max=READY_SECONDS_MAX, what="answering"
        )
        keys = {
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(broker_port),
            "namesrvAddr": self.name_server,
            **_store_keys(self.store),
            **settings,
        }
        self.configuration = {"jvm": HEAP, "broker.conf": keys}
        self._run("broker", keys)

    def _start_slave(self, store: Path, port: int, settings: Mapping[str, str]) -> None:
        keys = {
            "brokerName": "broker-a",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(port),
            **_store_keys(store),
            **settings,
        }
        self._run("broker", keys, SLAVE_HOME)

    def _run(self, program: str, settings: Mapping[str, str], folder: str = "home") -> None:
        home = self.folder / folder
        (home / "conf").mkdir(parents=True, exist_ok=True)
        logback = _LOGBACK.format(
            path=(home if folder == SLAVE_HOME else self.folder) / STORE_LOG_NAME
        )
        (home / "conf" / f"logback_{program}.xml").write_text(logback)
        settings_path = home / "conf" / f"{program}.conf"
        settings_path.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        runtime = java_runtime()
        options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        options += [f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in _EXPORTED]
        places = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}"]
        main = [_JAVA_MAINS[program], "-c", str(settings_path)]
        marks = {SLAVE_MARK: self._mark} if folder == SLAVE_HOME else {}
        heap = HEAP if program == "broker" else ("-Xmx512m",)
        environment = {
            **runtime.env,
            **marks,
            "ROCKETMQ_HOME": str(home),
            "CLASSPATH": rocketmq_classpath(),
        }
        command = [runtime.java, *options, *heap, *places, *main]
        self._spawn(command, environment, f"{home.name}-{program}.out")


def _store_keys(store: Path) -> dict[str, str]:
    return {"storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog")}


class OtherCheckout(Wakelog):
    """``wakelog up`` of another checkout, such as the commit before."""

    name = "other"


def other_side(checkout: Path | None) -> type[Side]:
    """Return what wakelog is compared with: a checkout with an environment, else RocketMQ.

    Raises: ValueError if that environment's wakelog is not the checkout's.
    """
    if checkout is None:
        return RocketMQ
    if not (checkout / "wakelog" / "console").exists():
        OtherCheckout.without_console = ()  # its `up` has no such option
    OtherCheckout.python = str(checkout.absolute() / ".venv" / "bin" / "python")
    ask = [OtherCheckout.python, "-c", "import wakelog; print(wakelog.__file__)"]
    found = subprocess.run(ask, cwd="/", capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_relative_to(checkout.resolve()):
        raise ValueError(f"{OtherCheckout.python} imports {found}: run ./dev check in {checkout}")
    return OtherCheckout
