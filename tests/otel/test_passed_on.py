"""The context of a message where nothing records."""

import contextvars
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.context import Context

from wakelog.otel import passed_on
from wakelog.otel.passed_on import UnsampledSpan, leave_work_on, pass_on
from wakelog.otel.propagation import context_in, plain_properties


def message_of(trace_id: int, span_id: int) -> Any:
    text = "a\x01b" + plain_properties(trace_id, span_id, 1)
    return SimpleNamespace(record=SimpleNamespace(properties_text=text))


@pytest.fixture(autouse=True)
def context_of_before() -> Any:
    """Give each test its own current context."""
    token = contexts.attach(Context({"mine": 1}))
    yield contexts.get_current()
    contexts.detach(token)


def current_ids() -> tuple[int, int]:
    found = trace.get_current_span().get_span_context()
    return found.trace_id, found.span_id


def test_the_context_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(text: str) -> Context:
        read.append(text)
        return context_in(text)

    monkeypatch.setattr(passed_on, "context_in", noted)
    message = message_of(0xAA, 0xBB)
    pass_on(message, contexts.get_current())
    assert read == []
    assert contexts.get_value("mine") == 1
    assert current_ids() == current_ids() == (0xAA, 0xBB)
    assert len(read) == 1
    assert "0x000000000000000000000000000000aa" in repr(trace.get_current_span())


def test_baggage_is_there_too() -> None:
    message = message_of(0xAA, 0xBB)
    message.record.properties_text += "\x02baggage\x01user=7"
    pass_on(message, contexts.get_current())
    assert (baggage.get_baggage("user"), contexts.get_value("mine")) == ("7", 1)
    assert current_ids() == (0xAA, 0xBB)


def test_it_is_left_for_what_was_before(context_of_before: Context) -> None:
    first, second = message_of(1, 2), message_of(3, 4)
    context = pass_on(first, context_of_before)
    leave_work_on((second,))
    assert current_ids() == (1, 2)
    leave_work_on((second, first))
    assert contexts.get_current() is context_of_before
    context.leave()
    assert contexts.get_current() is context_of_before
    assert context.message is None


def test_a_copy_of_the_context_keeps_its_message() -> None:
    before = contexts.get_current()
    first = pass_on(message_of(1, 2), before)
    of_a_task = contextvars.copy_context()
    first.leave()
    pass_on(message_of(3, 4), before)
    assert of_a_task.run(current_ids) == (1, 2)
    assert current_ids() == (3, 4)


def test_another_context_that_is_current_stays() -> None:
    context = pass_on(message_of(1, 2), contexts.get_current())
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(5, 6, False))):
        context.leave()
        assert current_ids() == (5, 6)


def test_a_span_that_is_not_sampled_is_a_child_of_the_senders() -> None:
    text = "a\x01b" + plain_properties(0xAA, 0xBB, 3)
    span = UnsampledSpan(text, 0xCC)
    found = span.get_span_context()
    assert found == span.get_span_context()
    assert (found.trace_id, found.span_id, found.trace_flags) == (0xAA, 0xCC, 2)
    assert not found.is_remote and not span.is_recording()
