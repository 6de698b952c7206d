"""Spans and metrics of a producer, and the context that its messages have."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import Span, SpanProcessor
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from tests.otel.recording import (
    Recording,
    parent_id,
    recorded,
    span_id,
    trace_id,
    unrecorded,
    values,
)
from wakelog.client import (
    Consumer,
    InvalidArgument,
    Message,
    NotAcknowledged,
    Producer,
    TransactionState,
)
from wakelog.client.sync import Producer as BlockingProducer
from wakelog.testing import EmbeddedBroker


def run(broker: EmbeddedBroker, body: Callable[[Producer], Awaitable[None]]) -> None:
    """Run with an open producer."""

    async def main() -> None:
        async with Producer(broker.name_server, group="g", retries_max=0) as producer:
            await body(producer)

    asyncio.run(main())


def contexts_in(broker: EmbeddedBroker, topic: str, count: int = 1) -> list[str | None]:
    messages = broker.wait_for_messages(topic, count=count)
    return [message.properties.get("traceparent") for message in messages]


def test_a_send_has_a_span_of_the_callers_trace(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    tracer = recording.tracers.get_tracer("test")

    async def body(producer: Producer) -> None:
        with tracer.start_as_current_span("caller"):
            await producer.send("one", b"four", tags="paid", keys=["1", "2"])

    run(broker, body)
    span, caller = recording.spans()
    assert (span.name, span.kind, parent_id(span)) == (
        "send one",
        trace.SpanKind.PRODUCER,
        span_id(caller),
    )
    found = values(span)
    [message] = broker.wait_for_messages("one")
    assert found.pop("message.id") == message.message_id
    assert found.pop("destination.partition.id") == str(message.queue_id)
    assert f"{found.pop('server.address')}:{found.pop('server.port')}" == broker.address
    assert found == {
        "system": "rocketmq",
        "operation.name": "send",
        "operation.type": "send",
        "destination.name": "one",
        "rocketmq.namespace": "",
        "message.body.size": 4,
        "rocketmq.message.tag": "paid",
        "rocketmq.message.keys": ("1", "2"),
        "rocketmq.message.type": "normal",
    }
    begin = f"00-{trace_id(span):032x}-{span_id(span):016x}-"
    assert message.properties["traceparent"].startswith(begin)


def test_sends_at_the_same_time_have_a_span_and_a_context_each(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    async def body(producer: Producer) -> None:
        await asyncio.gather(*(producer.send("many", f"{n}") for n in range(40)))

    run(broker, body)
    assert len({trace_id(span) for span in recording.spans("send many")}) == 40
    assert len(set(contexts_in(broker, "many", 40))) == 40
    [sent] = recording.points("messaging.client.sent.messages")
    [duration] = recording.points("messaging.client.operation.duration")
    assert sent.value == 40
    assert 0 < duration.count < 40  # a request carries several
    assert sent.attributes["server.address"] == "127.0.0.1"
    assert sent.attributes["messaging.destination.name"] == "many"


def test_a_list_has_one_span_that_all_its_messages_know(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    async def body(producer: Producer) -> None:
        await producer.send_many(Message("list", f"{n}") for n in range(50))
        await producer.send_many([Message("list", b"x"), Message("other", b"y")])

    run(broker, body)
    several, of_both = recording.spans()
    assert (several.name, values(several)["batch.message_count"]) == ("send_many list", 50)
    assert (of_both.name, "destination.name" in values(of_both)) == ("send_many", False)
    found = contexts_in(broker, "list", 51)
    assert len(found) == 51
    assert {str(x).split("-")[2] for x in found} == {
        f"{span_id(several):016x}",
        f"{span_id(of_both):016x}",
    }


def test_a_span_says_the_kind_of_its_message(broker: EmbeddedBroker, recording: Recording) -> None:
    async def body(producer: Producer) -> None:
        await producer.send("kinds", b"x", sharding_key="s")
        await producer.send("kinds", b"x", delay_level=2)
        await producer.send("kinds", b"x", delay=timedelta(seconds=1))
        await producer.send_oneway(Message("kinds", b"x"))
        async with producer.transaction("kinds", b"x") as transaction:
            transaction.state = TransactionState.ROLLBACK

    run(broker, body)
    found = [values(span)["rocketmq.message.type"] for span in recording.spans()]
    assert found == ["fifo", "delay", "delay", "normal", "transaction"]
    assert values(recording.spans()[0])["rocketmq.message.group"] == "s"
    assert values(recording.spans()[1])["rocketmq.message.delay_time_level"] == 2


def test_the_block_of_a_transaction_is_not_within_its_span(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    seen = []

    async def body(producer: Producer) -> None:
        async with producer.transaction("paid", b"x"):
            seen.append(trace.get_current_span())
        with pytest.raises(LookupError, match="mine"):
            async with producer.transaction("paid", b"y"):
                raise LookupError("mine")

    run(broker, body)
    assert seen == [trace.INVALID_SPAN]
    first, second = recording.spans("transaction paid")
    [committed] = contexts_in(broker, "paid")
    assert committed is not None and f"{span_id(first):016x}" in committed
    assert second.status.is_unset  # the half message was sent


def test_a_request_ends_with_a_link_to_its_reply(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    broker.create_topic("prices")

    async def answer() -> None:
        async with Consumer(
            broker.name_server, group="pricers", topics="prices", start="first"
        ) as consumer:
            async for message in consumer:
                await consumer.reply(message, b"3")
                await message.ack()
                return

    async def body(producer: Producer) -> None:
        answering = asyncio.create_task(answer())
        reply = await producer.request("prices", b"?", timeout=timedelta(seconds=20))
        assert reply.body == b"3"
        await answering

    run(broker, body)
    [request], [reply] = recording.spans("request prices"), recording.spans("reply prices")
    [process] = recording.spans("process prices")
    assert len({trace_id(span) for span in (request, reply, process)}) == 1
    assert parent_id(process) == span_id(request)
    assert parent_id(reply) == span_id(process)
    [link] = request.links
    assert link.context.span_id == span_id(reply)


def test_a_send_that_fails_says_why(broker: EmbeddedBroker, recording: Recording) -> None:
    async def body(producer: Producer) -> None:
        await producer.send("refused", b"x")
        with broker.full_disk(), pytest.raises(NotAcknowledged):
            await producer.send("refused", b"x")
        with pytest.raises(InvalidArgument):
            await producer.send("refused", b"")
        with pytest.raises(InvalidArgument):
            await producer.send(7, b"x")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            await producer.send_many(7)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            await producer.send_oneway(7)  # type: ignore[arg-type]

    run(broker, body)
    _, full, *bad = recording.spans()
    assert values(full)["error.type"] == "14"
    assert full.status.status_code is trace.StatusCode.ERROR
    assert "disk is full" in (full.status.description or "")
    assert [values(span)["error.type"] for span in bad] == ["InvalidArgument"] * 4
    failed = [x for x in recording.points("messaging.client.sent.messages") if x.value == 1]
    assert {x.attributes.get("error.type") for x in failed} == {None, "14"}


def test_the_blocking_producer_sends_within_the_span_of_its_thread(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    tracer = recording.tracers.get_tracer("test")
    with BlockingProducer(broker.name_server) as producer:
        with tracer.start_as_current_span("caller"):
            producer.send("blocking", b"x")
        with producer.transaction("blocking", b"x"):
            assert trace.get_current_span() is trace.INVALID_SPAN
    send, caller, _ = recording.spans()
    assert (send.name, parent_id(send)) == ("send blocking", span_id(caller))


def test_nothing_is_recorded_where_that_is_suppressed(
    broker: EmbeddedBroker, recording: Recording
) -> None:
    async def body(producer: Producer) -> None:
        token = context.attach(context.set_value("suppress_instrumentation", True))
        await producer.send("quiet", b"x")
        await producer.send_many([Message("quiet", b"x")])
        context.detach(token)

    run(broker, body)
    assert recording.spans() == []
    assert recording.points("messaging.client.sent.messages") == []


REMOTE = SpanContext(0xAA, 0xBB, True, TraceFlags(1))
PARENT = "00-000000000000000000000000000000aa-00000000000000bb-01"


def test_where_nothing_records_a_context_is_passed_on(broker: EmbeddedBroker) -> None:
    async def body(producer: Producer) -> None:
        await producer.send("passed", b"without")
        context.attach(trace.set_span_in_context(NonRecordingSpan(REMOTE)))
        await producer.send("passed", b"x")
        await producer.send_many([Message("passed", b"x")])
        await producer.send_oneway(Message("passed", b"x"))
        async with producer.transaction("passed", b"x"):
            assert trace.get_current_span().get_span_context() == REMOTE

    with unrecorded():
        run(broker, body)
    assert Counter(contexts_in(broker, "passed", 5)) == {None: 1, PARENT: 4}


def test_where_nothing_records_the_call_is_the_clients_own() -> None:
    producer = Producer("127.0.0.1:9")
    with unrecorded():
        running: Any = producer.send("T", b"x")
    assert running.__qualname__ == "Producer.send"
    running.close()


def test_a_trace_that_is_not_sampled_costs_no_attributes_and_is_passed_on(
    broker: EmbeddedBroker,
) -> None:
    asked: list[dict[str, Any]] = []

    class Noting(Sampler):
        def should_sample(self, *given: Any, **named: Any) -> SamplingResult:
            asked.append(dict(given[4] if len(given) > 4 else named["attributes"]))
            return SamplingResult(Decision.DROP)

        def get_description(self) -> str:
            return "noting"

    async def body(producer: Producer) -> None:
        await producer.send("unsampled", b"x", tags="t")
        await producer.send_many([Message("unsampled", b"x")])

    with recorded(Noting()) as recording:
        run(broker, body)
    assert recording.spans() == []
    assert [str(x)[-3:] for x in contexts_in(broker, "unsampled", 2)] in (["-02"] * 2, ["-00"] * 2)
    assert asked == [
        {
            "messaging.system": "rocketmq",
            "messaging.operation.name": name,
            "messaging.operation.type": "send",
            "messaging.rocketmq.namespace": "",
            "messaging.destination.name": "unsampled",
        }
        for name in ("send", "send_many")
    ]


def test_a_processor_that_sees_spans_begin_sees_those_of_sends(broker: EmbeddedBroker) -> None:
    seen = []

    class Noting(SpanProcessor):
        def on_start(self, span: Span, parent_context: context.Context | None = None) -> None:
            seen.append(span.name)
            span.set_attribute("own", 1)

    async def body(producer: Producer) -> None:
        await producer.send("begun", b"x")

    with recorded() as recording:
        recording.tracers.add_span_processor(Noting())
        run(broker, body)
    [span] = recording.spans("send begun")
    assert (seen, values(span)["own"]) == (["send begun"], 1)
    [message] = broker.wait_for_messages("begun")
    assert values(span)["message.id"] == message.message_id
    assert f"{span_id(span):016x}" in message.properties["traceparent"]


@pytest.mark.parametrize(("ratio", "flags"), [(0.0, {0, 2}), (1.0, {1, 3})])
def test_a_ratio_decides_with_the_id_that_is_passed_on(
    broker: EmbeddedBroker, ratio: float, flags: set[int]
) -> None:
    topic = f"ratio-{ratio}".replace(".", "-")

    async def body(producer: Producer) -> None:
        for _ in range(3):
            await producer.send(topic, b"x")

    with recorded(ParentBased(TraceIdRatioBased(ratio))) as recording:
        run(broker, body)
    parts = [str(text).split("-") for text in contexts_in(broker, topic, 3)]
    assert len({trace for _, trace, _, _ in parts}) == 3
    assert {int(part[3], 16) for part in parts} <= flags
    wanted = {part[1] for part in parts} if ratio else set()
    assert {f"{trace_id(span):032x}" for span in recording.spans()} == wanted


def test_half_of_the_traces_are_half(broker: EmbeddedBroker) -> None:
    async def body(producer: Producer) -> None:
        await asyncio.gather(*(producer.send("halves", b"x") for _ in range(200)))

    with recorded(TraceIdRatioBased(0.5)) as recording:
        run(broker, body)
    sampled = {
        str(text).split("-")[1]
        for text in contexts_in(broker, "halves", 200)
        if int(str(text)[-2:], 16) & 1
    }
    assert {f"{trace_id(span):032x}" for span in recording.spans()} == sampled
    assert 40 < len(sampled) < 160


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_what_another_tool_put_in_the_place_of_send_is_called(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, ratio: float
) -> None:
    topic, plain, called = f"wrapped-{ratio:.0f}", Producer.send, []

    async def send(self: Producer, topic: str, body: bytes, *, tags: str = "") -> Any:
        called.append(tags)
        return await plain(self, topic, body, tags=tags)

    async def body(producer: Producer) -> None:
        for tags in ("a", "b"):
            await producer.send(topic, b"x", tags=tags)

    monkeypatch.setattr(Producer, "send", send)
    with recorded(TraceIdRatioBased(ratio)):
        run(broker, body)
    assert called == ["a", "b"]
    assert len({str(text) for text in contexts_in(broker, topic, 2)} - {"None"}) == 2


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_each_way_to_encode_a_message_has_the_context(broker: EmbeddedBroker, ratio: float) -> None:
    topic = f"ways-{ratio:.0f}"

    async def main() -> None:
        async with Producer(broker.name_server, group="g", trace=True, retries_max=0) as producer:
            await producer.send(topic, b"a topic that is new")
            await producer.send(topic, b"one that is known")
            await producer.send(topic, b"with more", properties={"a": "1"})
            await producer.send(topic, b"late", delay=timedelta(milliseconds=1))

    with recorded(TraceIdRatioBased(ratio)):
        asyncio.run(main())
    texts = contexts_in(broker, topic, 4)
    assert len({str(text)[:35] for text in texts} - {"None"}) == 4
    assert {int(str(text)[-1]) & 1 for text in texts} == {int(ratio)}
