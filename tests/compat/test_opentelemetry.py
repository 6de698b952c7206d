"""One trace through a Python producer, a Java program under OpenTelemetry's agent, and Python."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from opentelemetry import trace

from tests.compat.driver import wait_until
from tests.compat.provision import (
    JVM_OPTIONS,
    java_runtime,
    opentelemetry_agent,
    rocketmq_classpath,
)
from tests.otel.recording import Recording, parent_id, recorded, span_id, trace_id
from wakelog.client import Consumer, Message, Producer
from wakelog.testing import EmbeddedBroker

FETCH_SECONDS_MAX: Final = 600
"""For Maven, which brings the agent the first time."""

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(FETCH_SECONDS_MAX),
]

SOURCE: Final = Path(__file__).resolve().parent / "agent" / "PassOn.java"
AGENT_OPTIONS: Final = (
    "-Dotel.traces.exporter=logging",
    "-Dotel.metrics.exporter=none",
    "-Dotel.logs.exporter=none",
    "-Dotel.service.name=pass-on",
)
STOP_SECONDS_MAX: Final = 30.0
SPAN: Final = re.compile(r"'(.+)' : ([0-9a-f]{32}) ([0-9a-f]{16}) (\w+) ")
"""One line of the agent's exporter: name, trace, span, kind."""


@contextmanager
def passing_on(name_server: str, begin: str, end: str, folder: Path) -> Iterator[Path]:
    """Run the Java program under the agent; give the file of what it says."""
    runtime, log_path = java_runtime(), folder / "pass_on.out"
    compiler = [runtime.javac, "-Xlint:all,-path,-classfile", "-Werror"]
    compiler += ["-cp", rocketmq_classpath(), "-d", str(folder), str(SOURCE)]
    subprocess.run(compiler, env=runtime.env, check=True)
    places = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}")
    command = [runtime.java, *JVM_OPTIONS, *places, f"-javaagent:{opentelemetry_agent()}"]
    command += [*AGENT_OPTIONS, "PassOn", name_server, begin, end]
    environment = {**runtime.env, "CLASSPATH": f"{rocketmq_classpath()}:{folder}"}
    with (
        open(log_path, "wb") as log,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder
        ) as process,
    ):
        try:
            wait_until(lambda: "\nready" in f"\n{log_path.read_text()}", what="ready")
            yield log_path
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(STOP_SECONDS_MAX) == 0
        finally:
            process.kill()


async def send_and_receive(name_server: str, recording: Recording) -> None:
    """Send to Java by each way, and work on all that comes back from there."""
    tracer = recording.tracers.get_tracer("test")
    async with Producer(name_server, group="begin") as producer:
        with tracer.start_as_current_span("one"):
            await producer.send("begin", b"one")
        with tracer.start_as_current_span("several"):
            await producer.send_many([Message("begin", b"several")] * 2)
        with tracer.start_as_current_span("transaction"):
            async with producer.transaction("begin", b"transaction"):
                pass
    async with Consumer(name_server, group="end", topics="end", start="first") as consumer:
        left = 4
        async for message in consumer:
            with tracer.start_as_current_span(f"got {message.body.decode()}"):
                await message.ack()
            left -= 1
            if not left:
                return


def test_one_trace_goes_through_python_java_and_python(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, recorded() as recording:
        broker.create_topic("begin")
        broker.create_topic("end")
        with passing_on(broker.name_server, "begin", "end", tmp_path) as log_path:
            asyncio.run(send_and_receive(broker.name_server, recording))
        said = log_path.read_text()
    java = {(name, kind, trace): span for name, trace, span, kind in SPAN.findall(said)}
    for name, count in (("one", 1), ("several", 2), ("transaction", 1)):
        [begin] = recording.spans(name)
        got = recording.spans(f"got {name}")
        assert [trace_id(span) for span in got] == [trace_id(begin)] * count
        hexadecimal = f"{trace_id(begin):032x}"
        assert ("begin process", "CONSUMER", hexadecimal) in java, said
        assert ("end publish", "PRODUCER", hexadecimal) in java, said
    works = {span_id(span): span for span in recording.spans("process end")}
    sent_by_java = {span for _, _, span, kind in SPAN.findall(said) if kind == "PRODUCER"}
    assert {f"{parent_id(span):016x}" for span in works.values()} == sent_by_java
    assert all(span.kind is trace.SpanKind.CONSUMER for span in works.values())
