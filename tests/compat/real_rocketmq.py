"""A real RocketMQ 4.9.3 name server and broker, as processes over a folder of a test.

Both get a home of their own inside that folder, so that nothing is written to the user's: their
logs, and the files that they keep under `user.home` by default.
"""

import functools
import hashlib
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.compat.frames import RawConnection
from tests.compat.name_server_probe import answers, serves
from tests.compat.processes import TestProcess, free_port
from tests.compat.provision import CACHE, JVM_OPTIONS, java_runtime, rocketmq_classpath, turn
from tests.compat.standby_processes import Standbys

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0

GET_BROKER_CONFIG = 26
PARTING_CONNECTIONS_COUNT = 8
"""To each of a broker's two servers while it stops: a server looks whether it is to end whenever a
connection comes or goes, and otherwise every 3 s. One that goes too early costs time only."""

# 4.9.3 reaches into these packages to unmap files and to pin buffers; Java 17 closes them.
_OPENED = (
    "java.base/sun.nio.ch",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.lang",
)
_OPTIONS = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",  # how it unmaps a file
    *JVM_OPTIONS,
    "-Xms128m",
    "-Xmx512m",
    # No test speaks TLS, and the keys that each start makes for it take longer than the rest.
    "-Dtls.server.mode=disabled",
)
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{path}</file>
    <encoder><pattern>%d %p %logger{{0}} %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


PATIENT = {"waitTimeMillsInSendQueue": "10000"}
"""A disk that is busy with other things holds up a send by more than 200 ms at times; then it would
be refused, which producers do not try again. What overload does has tests of its own."""


@functools.cache
def class_options() -> tuple[str, ...]:
    """Return the options by which a JVM maps RocketMQ's classes, parsed before, into its memory.

    A broker makes that archive at its end, once for a Java and the jars. A JVM that cannot use it
    reads the jars, as ever; so does one whose class path does not begin with theirs.
    """
    java = Path(java_runtime().java).resolve()
    made_of = f"{java} {java.stat().st_mtime_ns} {rocketmq_classpath()}"
    archive = CACHE / "classes" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"
    with turn("classes"):
        if not archive.exists():
            _archive_classes(archive)
    return (f"-XX:SharedArchiveFile={archive}",)


def _archive_classes(archive: Path) -> None:
    archive.parent.mkdir(exist_ok=True)
    unfinished = archive.with_suffix(".new")
    options = (f"-XX:ArchiveClassesAtExit={unfinished}", "-Xlog:disable")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        name_server = RealNameServer(classes=())
        try:
            broker = RealBroker(
                folder / "broker",
                folder / "store",
                name_server=name_server.address,
                classes=options,
            )
            try:
                broker.start()
                broker.stop()
            finally:
                broker.kill()
        finally:
            name_server.kill()
    unfinished.rename(archive)


class RealNameServer:
    """A name server of 4.9.3; its routes live as long as it does."""

    def __init__(
        self, *, classes: Sequence[str] | None = None, is_up: Callable[[str], bool] = answers
    ) -> None:
        """Return once it answers. `classes` are options in place of `class_options`."""
        if classes is None:
            self.address, self._process = _STANDBYS.take()
        else:
            folder = _STANDBYS.make_folder()
            self.address, self._process = _start_name_server(folder, classes)
        self._process.wait_until(
            lambda: is_up(self.address), seconds_max=START_SECONDS_MAX, what="answering"
        )

    def kill(self) -> None:
        """End it; it keeps nothing that an ordered stop would save."""
        _kill(self._process)


class RealBroker:
    """A broker of 4.9.3 over a store; it may be stopped or killed and started again.

    `name_server` is one address, or several with `;` between them. `settings` are keys of
    broker.conf, over the ones here. `classes` are options in place of `class_options`.
    """

    def __init__(
        self,
        folder: Path,
        store: Path,
        *,
        name_server: str,
        settings: Mapping[str, str] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self._folder = folder
        self._classes = classes
        self._name_server = name_server
        port = free_port(-2, 1)  # the broker's other two ports are at these distances
        self.address = f"127.0.0.1:{port}"
        self._second_address = f"127.0.0.1:{port - 2}"
        self.store = store
        self._settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(port),
            "namesrvAddr": name_server,
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            # A segment of 1 GB by default would be allocated, and the next one ahead of it.
            "mappedFileSizeCommitLog": str(64 << 20),
            **PATIENT,
            **(settings or {}),
        }

    def start(self, is_up: Callable[[str, str], bool] = serves) -> None:
        """Start, and return once the broker is in the name server's route and accepts."""
        self._process = self._start()
        self._process.wait_until(
            lambda: all(is_up(x, self.address) for x in self._name_server.split(";")),
            seconds_max=START_SECONDS_MAX,
            what="registered with the name server, and its port open",
        )

    @property
    def process_id(self) -> int:
        """Give the process's id."""
        return self._process.process_id

    def wait_refused(self) -> int:
        """Start where the broker is expected to give up by itself; return its exit code."""
        return self._start().wait_end(seconds_max=START_SECONDS_MAX)

    def _start(self) -> TestProcess:
        command = ("org.apache.rocketmq.broker.BrokerStartup", "-c")
        return _start(self._folder, "broker", command, self._settings, self._classes)

    def stop(self) -> None:
        """Stop in order: the store is left as after a normal exit."""
        with ExitStack() as stack:
            for address in (self.address, self._second_address):
                for _ in range(PARTING_CONNECTIONS_COUNT):
                    connection = stack.enter_context(RawConnection(address))
                    connection.ask(GET_BROKER_CONFIG)
            self._process.end(signal.SIGTERM, seconds_max=STOP_SECONDS_MAX)

    def kill(self) -> None:
        """Kill: the store is left as it is at this moment."""
        _kill(self._process)


def _start_name_server(
    folder: Path, classes: Sequence[str] | None = None
) -> tuple[str, TestProcess]:
    """Return the address and the process of a name server that may not answer yet."""
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "listenPort": address.rpartition(":")[2],
        "kvConfigPath": str(folder / "kvConfig.json"),
    }
    command = ("org.apache.rocketmq.namesrv.NamesrvStartup", "-c")
    return address, _start(folder, "namesrv", command, settings, classes)


def _kill(process: TestProcess) -> None:
    process.end(signal.SIGKILL, seconds_max=STOP_SECONDS_MAX)


def _start(
    folder: Path,
    name: str,
    command: tuple[str, ...],
    settings: Mapping[str, str],
    classes: Sequence[str] | None,
) -> TestProcess:
    """Start one of RocketMQ's programs with a home, a log configuration and a settings file."""
    configuration = folder / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    logback = _LOGBACK.format(path=folder / f"{name}.log")
    (configuration / f"logback_{name}.xml").write_text(logback, encoding="utf-8")
    settings_path = configuration / f"{name}.conf"
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    settings_path.write_text("".join(lines), encoding="utf-8")
    runtime = java_runtime()
    options = (*_OPTIONS, *(class_options() if classes is None else classes))
    places = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}")
    return TestProcess(
        [runtime.java, *options, *places, *command, str(settings_path)],
        env={**runtime.env, "ROCKETMQ_HOME": str(folder), "CLASSPATH": rocketmq_classpath()},
        log_path=folder / f"{name}.out",
    )


_STANDBYS = Standbys(_start_name_server, lambda started: _kill(started[1]))
