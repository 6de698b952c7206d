"""Programs for FastStream's Kafka broker that run here with import, names and address changed.

Each is a case of FastStream's Kafka documentation, written anew: the feature is its name. A program
notes in `seen` what its functions got. Only `CHANGES` are made to its text.
"""

import asyncio
import textwrap
from typing import Any

import pytest
from faststream import TestApp

from tests.faststream.waiting import until
from wakelog.testing import EmbeddedBroker

pytestmark = pytest.mark.slow

CHANGES = {
    "from faststream.kafka import": "from wakelog.faststream import",
    "from faststream.kafka.annotations import": "from wakelog.faststream.annotations import",
    "KafkaBroker": "RocketMQBroker",
    "KafkaMessage": "RocketMQMessage",
    "KafkaResponse": "RocketMQResponse",
    "KafkaRouter": "RocketMQRouter",
    "KafkaRoute": "RocketMQRoute",
    "KafkaPublisher": "RocketMQPublisher",
    "KafkaPublishMessage": "RocketMQPublishMessage",
}

HEAD = """
from faststream import AckPolicy, Context, Depends, ExceptionMiddleware, FastStream, Header
from faststream.exceptions import AckMessage, NackMessage
from faststream.kafka import KafkaBroker
from pydantic import BaseModel, Field

seen = []
broker = KafkaBroker("localhost:9092", logger=None)
app = FastStream(broker, logger=None)
"""

EXAMPLES: dict[str, tuple[str, list[Any]]] = {
    "subscriber and publisher decorators with models": (
        """
        class Reading(BaseModel):
            degrees: float = Field(examples=[20.5])

        @broker.subscriber("readings")
        @broker.publisher("alarms")
        async def judge(reading: Reading) -> Reading:
            return Reading(degrees=reading.degrees - 20)

        @broker.subscriber("alarms")
        async def alarm(above: Reading):
            seen.append(above.degrees)

        @app.after_startup
        async def send():
            await broker.publish(Reading(degrees=22.5), "readings")
        """,
        [2.5],
    ),
    "a batch is consumed as a list": (
        """
        @broker.subscriber("clicks", batch=True, max_records=10, batch_timeout_ms=100)
        async def take(clicks: list[int]):
            seen.extend(clicks)

        @app.after_startup
        async def send():
            await broker.publish_batch(1, 2, 3, topic="clicks")
        """,
        [1, 2, 3],
    ),
    "a batch is published by a decorator, with keys of its own": (
        """
        from faststream.kafka import KafkaPublishMessage

        words = broker.publisher("words", batch=True)

        @words
        @broker.subscriber("texts")
        async def split(text: str) -> list[str]:
            return text.split()

        @broker.subscriber("words")
        async def word(word: str):
            seen.append(word)

        @app.after_startup
        async def send():
            await broker.publish("to be", "texts")
            await words.publish(KafkaPublishMessage("or", key=b"k"), "not")
        """,
        ["be", "not", "or", "to"],
    ),
    "messages of a key, with its group from the first message on": (
        """
        @broker.subscriber("steps", group_id="walkers", auto_offset_reset="earliest")
        async def step(number: int):
            seen.append(number)

        @app.after_startup
        async def send():
            for number in range(3):
                await broker.publish(number, "steps", key=b"left foot")
        """,
        [0, 1, 2],
    ),
    "the message and its headers are arguments": (
        """
        from faststream.kafka.annotations import KafkaMessage, Logger

        @broker.subscriber("letters")
        async def read(
            text: str,
            logger: Logger,
            message: KafkaMessage,
            kind: str = Header("kind"),
            correlation_id: str = Context("message.correlation_id"),
        ):
            seen.append([text, kind, correlation_id, message.content_type])

        @app.after_startup
        async def send():
            await broker.publish("hello", "letters", headers={"kind": "a"}, correlation_id="c")
        """,
        [["hello", "a", "c", "text/plain"]],
    ),
    "a function acknowledges by itself, or by an exception": (
        """
        from faststream.kafka.annotations import KafkaMessage

        @broker.subscriber("tasks", group_id="g1", ack_policy=AckPolicy.MANUAL)
        async def by_hand(task: str, message: KafkaMessage):
            await message.ack()
            seen.append(["by hand", task])

        @broker.subscriber("tasks", group_id="g2", ack_policy=AckPolicy.NACK_ON_ERROR)
        async def by_exception(task: str):
            seen.append(["by exception", task])
            raise AckMessage()

        @app.after_startup
        async def send():
            await broker.publish("wash", "tasks")
        """,
        [["by exception", "wash"], ["by hand", "wash"]],
    ),
    "a router with a prefix, and routes without decorators": (
        """
        from faststream.kafka import KafkaPublisher, KafkaRoute, KafkaRouter

        async def double(number: int) -> int:
            return 2 * number

        router = KafkaRouter(
            prefix="math-",
            handlers=(KafkaRoute(double, "in", publishers=(KafkaPublisher("out"),)),),
        )

        @router.subscriber("out")
        async def result(number: int):
            seen.append(number)

        broker.include_router(router)

        @app.after_startup
        async def send():
            await broker.publish(21, "math-in")
        """,
        [42],
    ),
    "a publisher is an object, and a response has headers and key": (
        """
        from faststream.kafka import KafkaResponse

        out = broker.publisher("greeted", headers={"by": "greeter"})

        @broker.subscriber("names")
        async def greet(name: str):
            await out.publish(f"hi {name}", correlation_id="1")
            return KafkaResponse("not published: there is no decorator", key=b"k")

        @broker.subscriber("greeted")
        async def hear(text: str, by: str = Header("by")):
            seen.append([text, by])

        @app.after_startup
        async def send():
            await broker.publish("Ann", "names")
        """,
        [["hi Ann", "greeter"]],
    ),
    "filters choose the function, dependencies and an exception middleware": (
        """
        errors = ExceptionMiddleware()

        @errors.add_handler(ZeroDivisionError)
        def no_division(error):
            seen.append("no division")

        broker.add_middleware(errors)

        async def divisor() -> int:
            return 0

        numbers = broker.subscriber("mixed")

        @numbers(filter=lambda message: message.content_type == "application/json")
        async def number(value: int, by: int = Depends(divisor)):
            return value // by

        @numbers
        async def text(value: str):
            seen.append(value)

        @app.after_startup
        async def send():
            await broker.publish(1, "mixed")
            await broker.publish("one", "mixed")
        """,
        ["no division", "one"],
    ),
    "workers of one subscriber, and a reply to a topic": (
        """
        @broker.subscriber("jobs", max_workers=4)
        async def work(job: int) -> str:
            return f"did {job}"

        @broker.subscriber("done")
        async def done(text: str):
            seen.append(text)

        @app.after_startup
        async def send():
            for job in range(4):
                await broker.publish(job, "jobs", reply_to="done")
        """,
        ["did 0", "did 1", "did 2", "did 3"],
    ),
}


def changed(program: str, address: str) -> str:
    """Return a program for Kafka as one for RocketMQ."""
    text = HEAD + textwrap.dedent(program)
    for kafka, here in CHANGES.items():
        text = text.replace(kafka, here)
    assert "kafka" not in text.lower()
    return text.replace("localhost:9092", address)


@pytest.mark.parametrize(("program", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_runs_with_the_import_changed(
    cluster: EmbeddedBroker, program: str, expected: list[Any]
) -> None:
    names: dict[str, Any] = {}
    exec(changed(program, cluster.name_server), names)

    async def serve() -> None:
        async with TestApp(names["app"]):
            await until(lambda: len(names["seen"]) >= len(expected))

    asyncio.run(serve())
    assert sorted(names["seen"]) == expected


def test_there_are_ten() -> None:
    assert len(EXAMPLES) == 10
