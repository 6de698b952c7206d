"""Spans and metrics of a consumer: of what it fetches, and of the work on messages."""

import asyncio
import gc
import pickle
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from tests.otel.recording import (
    Recording,
    parent_id,
    recorded,
    span_id,
    trace_id,
    unrecorded,
    values,
)
from wakelog.client import ClientError, Consumer, ConsumerMessage, Message, Producer
from wakelog.client.sync import Consumer as BlockingConsumer
from wakelog.client.sync import Producer as BlockingProducer
from wakelog.compiled.library import CHOICE
from wakelog.otel import RocketMQInstrumentor, process
from wakelog.otel.begun import LINKS_MAX
from wakelog.testing import EmbeddedBroker


def run(broker: EmbeddedBroker, topic: str, body: Callable[[Consumer], Awaitable[None]]) -> None:
    """Run with an open consumer of a topic, in a group of the topic's name."""

    async def main() -> None:
        async with Consumer(
            broker.name_server, group=topic, topics=topic, start="first"
        ) as consumer:
            await body(consumer)

    asyncio.run(main())


def send(broker: EmbeddedBroker, topic: str, count: int = 1) -> None:
    with BlockingProducer(broker.name_server) as producer:
        for n in range(count):
            producer.send(topic, f"{n}", tags="t", keys="k", queue=("", 0))


def current() -> trace.Span:
    return trace.get_current_span()


def test_the_work_on_a_message_is_a_child_of_its_send(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    send(broker, "work", 2)
    seen = []

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            with recording.tracers.get_tracer("test").start_as_current_span("inner"):
                pass
            seen.append(message)
            await message.ack()
            assert current() is trace.INVALID_SPAN
            if len(seen) == 2:
                break

    run(broker, "work", body)
    sends, works = recording.spans("send work"), recording.spans("process work")
    assert [parent_id(span) for span in works] == [span_id(span) for span in sends]
    assert [parent_id(x) for x in recording.spans("inner")] == [span_id(span) for span in works]
    assert recording.spans("fetch work") == []
    work = works[0]
    assert work.kind is trace.SpanKind.CONSUMER
    assert [link.context.span_id for link in work.links] == [span_id(sends[0])]
    found = values(work)
    assert f"{found.pop('server.address')}:{found.pop('server.port')}" == broker.address
    assert found == {
        "system": "rocketmq",
        "operation.name": "process",
        "operation.type": "process",
        "destination.name": "work",
        "rocketmq.namespace": "",
        "consumer.group.name": "work",
        "rocketmq.consumption_model": "clustering",
        "message.id": seen[0].message_id,
        "destination.partition.id": str(seen[0].queue_id),
        "rocketmq.message.tag": "t",
        "rocketmq.message.keys": ("k",),
    }
    [consumed] = recording.points("messaging.client.consumed.messages")
    [duration] = recording.points("messaging.process.duration")
    assert (consumed.value, duration.count) == (2, 2)
    assert consumed.attributes["messaging.consumer.group.name"] == "work"


@pytest.mark.parametrize("records", [True, False])
def test_the_work_on_a_message_has_its_baggage(
    broker: EmbeddedBroker, recording: Recording, records: bool
) -> None:
    topic = f"baggage_{records}"
    token = contexts.attach(baggage.set_baggage("user", "7"))
    try:
        send(broker, topic)
    finally:
        contexts.detach(token)

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            assert baggage.get_baggage("user") == "7"
            assert current().is_recording() == records
            await message.ack()
            assert baggage.get_baggage("user") is None
            break

    if not records:
        RocketMQInstrumentor().uninstrument()
        with unrecorded():
            run(broker, topic, body)
        return
    run(broker, topic, body)


def test_tasks_of_the_loop_keep_their_messages_span(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    send(broker, "tasks", 3)
    current_of = {}

    async def body(consumer: Consumer) -> None:
        async def handle(body: bytes) -> None:
            await asyncio.sleep(0.01)
            current_of[body] = current().get_span_context().span_id

        messages, tasks = [], []
        async for message in consumer:
            tasks.append(asyncio.create_task(handle(message.body)))
            messages.append(message)
            if len(messages) == 3:
                break
        await asyncio.gather(*tasks)
        assert recording.spans("process tasks") == []
        await consumer.ack(*messages)

    run(broker, "tasks", body)
    found = [span_id(span) for span in recording.spans("process tasks")]
    assert [current_of[body] for body in (b"0", b"1", b"2")] == found


def test_a_nack_is_an_error_and_the_next_attempt_of_the_same_trace(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    send(broker, "again")

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            if message.reconsume_times:
                await message.ack()
                break
            await message.nack(timedelta(seconds=1))
            broker.advance(2)

    run(broker, "again", body)
    [sent] = recording.spans("send again")
    failed, done = recording.spans("process again")
    assert {trace_id(failed), trace_id(done)} == {trace_id(sent)}
    assert values(failed)["error.type"] == "nack"
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert done.status.is_unset


def test_a_dead_letter_is_an_error(broker: EmbeddedBroker, recording: Recording) -> None:
    send(broker, "dead")

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            await message.reject()
            assert current() is trace.INVALID_SPAN
            break

    run(broker, "dead", body)
    [span] = recording.spans("process dead")
    assert values(span)["error.type"] == "reject"


def test_what_is_left_ends_with_the_consumer(broker: EmbeddedBroker, recording: Recording) -> None:
    send(broker, "left")

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            copy = pickle.loads(pickle.dumps(message))
            assert copy.body == message.body
            break

    run(broker, "left", body)
    gc.collect()
    [span] = recording.spans("process left")
    assert values(span)["error.type"] == "not acknowledged"


def test_a_fetch_has_a_link_to_each_context_once(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    async def body(consumer: Consumer) -> None:
        async with Producer(broker.name_server) as producer:
            await producer.send_many([Message("run", b"x")] * 20)
            await producer.send("run", b"y")
        messages: list[ConsumerMessage] = []
        while len(messages) < 21:
            messages += await consumer.fetch(100, 5.0)
        assert await consumer.fetch(1, 0.0) == []
        with process(*messages) as span:
            assert current() is span
            await consumer.ack(*messages)
        assert current() is trace.INVALID_SPAN

    broker.create_topic("run", queues=1)
    run(broker, "run", body)
    sent = {span_id(x) for x in recording.spans() if "send" in x.name}
    fetched, [work] = recording.spans("fetch run"), recording.spans("process run")
    assert {link.context.span_id for span in fetched for link in span.links} == sent
    assert sum(values(span).get("batch.message_count", 1) for span in fetched) == 21
    assert all(span.kind is trace.SpanKind.CLIENT for span in fetched)
    assert {link.context.span_id for link in work.links} == sent
    assert len(work.links) == 2
    assert (parent_id(work), values(work)["batch.message_count"]) == (None, 21)
    by_name = recording.points("messaging.client.operation.duration")
    [received] = [x for x in by_name if x.attributes["messaging.operation.name"] == "receive"]
    assert received.count == len(fetched)
    assert sum(x.value for x in recording.points("messaging.client.consumed.messages")) == 21


@pytest.mark.skipif(CHOICE.library is None, reason=str(CHOICE))
def test_a_fetch_of_many_decodes_those_alone_that_have_a_link(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    async def body(consumer: Consumer) -> None:
        async with Producer(broker.name_server) as producer:
            await producer.send_many([Message("unread", b"x")] * 200)
        messages = await consumer.fetch(200, 5.0)
        assert len(messages) == 200
        assert [x for x in messages if "record" in vars(x)] == messages[:LINKS_MAX]

    broker.create_topic("unread", queues=1)
    run(broker, "unread", body)
    [fetched] = recording.spans("fetch unread")
    assert values(fetched)["batch.message_count"] == 200


def test_a_block_that_fails_says_why(broker: EmbeddedBroker, recording: Recording) -> None:
    send(broker, "failing")

    async def body(consumer: Consumer) -> None:
        [message] = await consumer.fetch(1, 5.0)
        with pytest.raises(LookupError), process(message):
            raise LookupError("mine")
        with process() as nothing:
            assert not nothing.is_recording()

    run(broker, "failing", body)
    [span] = recording.spans("process failing")
    [sent] = recording.spans("send failing")
    assert (values(span)["error.type"], parent_id(span)) == ("LookupError", span_id(sent))
    assert [event.name for event in span.events] == ["exception"]


def test_a_fetch_that_is_refused_is_an_error(broker: EmbeddedBroker, recording: Recording) -> None:
    async def main() -> None:
        consumer = Consumer(broker.name_server, group="g", topics="work")
        with pytest.raises(ClientError):
            await consumer.fetch()
        await consumer.close()

    asyncio.run(main())
    [span] = recording.spans()
    assert (span.name, values(span)["error.type"]) == ("fetch", "ClientError")


def test_the_blocking_consumer_works_within_the_span_of_its_thread(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    send(broker, "thread", 2)
    with BlockingConsumer(
        broker.name_server, group="thread", topics="thread", start="first"
    ) as consumer:
        for message in consumer:
            with recording.tracers.get_tracer("test").start_as_current_span("inner"):
                pass
            if message.body == b"0":
                message.ack()
            else:
                consumer.ack(message)
            assert current() is trace.INVALID_SPAN
            if message.body == b"1":
                break
    works = recording.spans("process thread")
    assert [parent_id(x) for x in recording.spans("inner")] == [span_id(span) for span in works]
    assert [parent_id(x) for x in works] == [span_id(x) for x in recording.spans("send thread")]


def test_where_nothing_records_the_work_is_within_the_messages_context(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    send(broker, "passing")
    recording.exporter.clear()
    found = []

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            found.append((message.properties["traceparent"], current().get_span_context()))
            await message.ack()
            assert current() is trace.INVALID_SPAN
            break

    RocketMQInstrumentor().uninstrument()
    with unrecorded():
        run(broker, "passing", body)
    [(text, context)] = found
    assert f"{context.trace_id:032x}-{context.span_id:016x}" in text
    assert recording.spans() == []


def test_where_nothing_records_a_message_without_a_context_changes_nothing(
    broker: EmbeddedBroker,
) -> None:
    send(broker, "plain")
    outer = trace.NonRecordingSpan(trace.SpanContext(0xAA, 0xBB, False))

    async def body(consumer: Consumer) -> None:
        with trace.use_span(outer):
            [message] = await consumer.fetch(1, 5.0)
            with process(message):
                assert current() is outer
            consumer.untake([message])
            async for again in consumer:
                assert current() is outer
                await again.ack()
                break

    with unrecorded():
        run(broker, "plain", body)


def test_a_trace_that_is_not_sampled_goes_on_through_the_work(broker: EmbeddedBroker) -> None:
    found = []

    async def body(consumer: Consumer) -> None:
        async for message in consumer:
            found.append((message.properties["traceparent"], current().get_span_context()))
            await message.ack()
            break

    with recorded(ParentBased(ALWAYS_OFF)) as recording:
        send(broker, "unsampled-work")
        run(broker, "unsampled-work", body)
    assert recording.spans() == []
    [(text, context)] = found
    assert text.split("-")[1] == f"{context.trace_id:032x}"
    assert text.split("-")[2] != f"{context.span_id:016x}"
    assert not context.trace_flags & 1 and not context.is_remote


def test_where_nothing_records_the_blocking_consumer_passes_the_context_on(
    broker: EmbeddedBroker,
) -> None:
    with recorded():
        send(broker, "thread-passing", 2)
    seen = []
    with (
        unrecorded(),
        BlockingConsumer(
            broker.name_server, group="passing", topics="thread-passing", start="first"
        ) as consumer,
    ):
        for message in consumer:
            seen.append(message)
            found = current().get_span_context()
            assert (
                f"{found.trace_id:032x}-{found.span_id:016x}" in message.properties["traceparent"]
            )
            if len(seen) == 1:
                message.ack()
            else:
                consumer.ack(message)
            assert current() is trace.INVALID_SPAN
            if len(seen) == 2:
                break
