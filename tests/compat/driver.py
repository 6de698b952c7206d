"""RocketMQ's own Java client, driven from Python: `driver/Driver.java` reads lines and answers.

Compiled once into the cache, under a name that changes with the sources and the jars.
"""

import base64
import hashlib
import json
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.compat.provision import CACHE, JVM_OPTIONS, java_runtime, rocketmq_classpath
from tests.compat.real_rocketmq import class_options
from tests.compat.standby_processes import Standbys

SOURCES = Path(__file__).resolve().parent / "driver"
ANSWER_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1


class DriverError(Exception):
    """What the client threw: its class, RocketMQ's response code or None, its message."""

    def __init__(self, type_name: str, code: int | None, message: str) -> None:
        super().__init__(f"{type_name} {code}: {message}")
        self.type_name = type_name
        self.code = code
        self.message = message


class Jvm(NamedTuple):
    """A client's process, which may not be up yet, and where it writes what it has to say."""

    process: subprocess.Popen[str]
    log_path: Path


class JavaDriver:
    """One JVM with the client in it; commands run one after the other.

    A client looks every `rebalance_ms` which queues it should have, besides when the broker says
    so, and whether it got their locks. RocketMQ's own 20 s are long for a test that waits for it.
    `header_form` is JSON or ROCKETMQ; `properties` are more of the system's. `driver.routesMs` is
    how often it asks for routes instead of every 30 s, `driver.sendTimeoutMs` how long a send may
    take instead of 10 s. `driver.sendRetries` is how often a failed send is tried again.
    """

    def __init__(
        self,
        name_server: str,
        *,
        rebalance_ms: int = 200,
        header_form: str = "JSON",
        properties: dict[str, str] | None = None,
    ) -> None:
        self._process, self.log_path = _STANDBYS.take()
        properties = {"rocketmq.serialize.type": header_form, **(properties or {})}
        for name in ("waitInterval", "lockInterval"):
            properties[f"rocketmq.client.rebalance.{name}"] = str(rebalance_ms)
        self._write({"nameServer": name_server, "properties": properties})
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __call__(self, do: str, **arguments: Any) -> Any:
        """Run one command of `Driver.java` and return its result.

        Raises:
            DriverError: what the client threw.
        """
        self._write({"do": do, **arguments})
        answer = json.loads(self._answers.get(timeout=ANSWER_SECONDS_MAX) or self._died())
        if "error" in answer:
            error = answer["error"]
            raise DriverError(error["type"], error.get("code"), error["message"] or "")
        return answer["ok"]

    def once_there(self, code: int, do: str, **arguments: Any) -> Any:
        """Run a command that fails with `code` until something in the broker has come about."""
        end = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            try:
                return self(do, **arguments)
            except DriverError as error:
                if error.code != code or time.monotonic() > end:
                    raise
            time.sleep(POLL_SECONDS)

    @property
    def process_id(self) -> int:
        """Give the id of the process, for signals that a test sends."""
        return self._process.pid

    def kill(self) -> None:
        """End the client without a word to anybody."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the clients in order; nothing where that was done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._process.wait()
            self._reader.join()

    def _write(self, said: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._answers.put(line)
        self._answers.put("")

    def _died(self) -> str:
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        raise AssertionError("the driver ended; its last output:\n" + "\n".join(lines[-15:]))


def _start_jvm(folder: Path) -> Jvm:
    runtime = java_runtime()
    log_path = folder / "driver.out"
    places = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}")
    limits = (*JVM_OPTIONS, *class_options(), "-Xmx256m")
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            [runtime.java, *limits, *places, "Driver"],
            env={**runtime.env, "CLASSPATH": f"{rocketmq_classpath()}:{compiled_driver()}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
    return Jvm(process, log_path)


def _end_jvm(jvm: Jvm) -> None:
    with jvm.process:
        jvm.process.kill()


_STANDBYS = Standbys(_start_jvm, _end_jvm)


def wait_until(true: Callable[[], bool], *, what: str) -> None:
    """Poll until `true` holds; a broker does what it was told one way when it gets to it."""
    end = time.monotonic() + ANSWER_SECONDS_MAX
    while not true():
        assert time.monotonic() < end, f"not {what} within {ANSWER_SECONDS_MAX} s"
        time.sleep(POLL_SECONDS)


def message(topic: str, body: bytes = b"body", **fields: Any) -> dict[str, Any]:
    """Describe a message as `Values.java` reads it."""
    return {"topic": topic, "body": base64.b64encode(body).decode(), **fields}


def bodies(messages: list[dict[str, Any]]) -> list[bytes]:
    """Return the bodies of what the driver received."""
    return [base64.b64decode(message["body"]) for message in messages]


def compiled_driver() -> Path:
    """Return the folder of the driver's classes, compiling them the first time."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(rocketmq_classpath().encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = CACHE / "driver" / digest.hexdigest()[:16]
    if not classes.exists():
        classes.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=classes.parent))
        runtime = java_runtime()
        compiler = [runtime.javac, *(f"-J{option}" for option in JVM_OPTIONS)]
        compiler += ["-encoding", "UTF-8", "-Xlint:all,-path,-classfile", "-Werror"]
        compiler += ["-cp", rocketmq_classpath(), "-d", str(folder), *map(str, sources)]
        outcome = subprocess.run(
            compiler, env=runtime.env, capture_output=True, text=True, check=False
        )
        assert outcome.returncode == 0, f"the driver does not compile:\n{outcome.stderr}"
        try:
            folder.rename(classes)
        except OSError:
            shutil.rmtree(folder)  # another session was faster
    return classes
