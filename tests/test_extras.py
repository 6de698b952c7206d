"""Each extra of the client alone in an environment, with a user's program, which mypy checks."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALL_SECONDS_MAX = 600

PROGRAMS = {
    "otel": """
from opentelemetry import metrics, trace

from wakelog.client import ConsumerMessage
from wakelog.otel import RocketMQInstrumentor, process

instrumentor = RocketMQInstrumentor()
instrumentor.instrument(
    tracer_provider=trace.get_tracer_provider(), meter_provider=metrics.get_meter_provider()
)


def work(*messages: ConsumerMessage) -> None:
    with process(*messages) as span:
        span.set_attribute("count", len(messages))


work()
instrumentor.uninstrument()
""",
    "cloudevents": """
from cloudevents.core.v1.event import CloudEvent

from wakelog.client import Message, ReceivedMessage
from wakelog.cloudevents import from_message, to_binary, to_structured

event = CloudEvent({"type": "paid", "source": "/shop"}, {"number": 4711})
messages: list[Message] = [to_binary(event, "orders", keys="k"), to_structured(event, "orders")]


def read(message: ReceivedMessage) -> str:
    return from_message(message).get_type()
""",
    "arrow": """
from pathlib import Path

from wakelog.client import Consumer
from wakelog.client.sync import Consumer as BlockingConsumer
from wakelog.frames import read_log, scan_log
from wakelog.spark.errors import SourceError


async def count(consumer: Consumer) -> int:
    found = 0
    async for batch in consumer.arrow(max=10_000, wait=0.02, ack=False):
        found += len(batch)
        await consumer.ack_arrow(batch.slice(0, 1))
    table = await consumer.fetch_arrow(10, wait=0.5)
    await consumer.ack_arrow(table)
    return found + len(table)


def names(consumer: BlockingConsumer, store: Path) -> list[str]:
    for batch in consumer.arrow(max=10):
        return [*batch.schema.names]
    with scan_log(store, "orders", columns=["body"]) as batches:
        found = [name for batch in batches for name in batch.schema.names]
    return [*found, *read_log(store, ["orders"], damaged="skip").column_names]


consumer = BlockingConsumer("127.0.0.1:9", group="g", topics="orders")
try:
    read_log(Path("no-store"), "orders")
except SourceError as error:
    print(error)
""",
    "": """
from dataclasses import dataclass

from wakelog.client import (
    Codec, Consumer, JsonCodec, Producer, RetryPolicy, TypedConsumer, TypedProducer
)


@dataclass
class Order:
    number: int


codec: Codec[Order] = JsonCodec(Order)
assert codec.decode(codec.encode(Order(4711))).number == 4711


async def work(producer: Producer, consumer: Consumer) -> int:
    await TypedProducer(producer, codec, "orders").send(Order(1), tags="t")
    orders = TypedConsumer(consumer, codec, bad="skip")
    for message in await orders.fetch(10):
        await message.ack()
        return message.value.number
    await orders.run(handle, RetryPolicy(attempts_max=3))
    return 0


async def handle(order: Order) -> None:
    print(order.number)
""",
}

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long]


@pytest.mark.timeout(INSTALL_SECONDS_MAX)
@pytest.mark.parametrize("extra", PROGRAMS)
def test_an_extra_is_enough_for_a_program_that_is_checked_strictly(
    extra: str, tmp_path: Path
) -> None:
    """The packages come from where pip is configured to look."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    install = [python, "-m", "pip", "install", "--quiet", wanted]
    subprocess.run(install, check=True, timeout=INSTALL_SECONDS_MAX)
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[extra])
    ran = subprocess.run(
        [python, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", ""]
    mypy += ["--cache-dir", str(tmp_path / "cache"), "--python-executable", python]
    checked = subprocess.run(
        [*mypy, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
