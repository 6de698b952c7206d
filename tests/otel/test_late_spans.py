"""Late spans beside those of the SDK."""

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from tests.otel.forking import DONE, forked_while_held
from tests.otel.test_quick_spans import CONTEXTS, ELSEWHERE, Noting, provider, quick, shown
from wakelog.otel import late_spans
from wakelog.otel.late_spans import LateSpan

CONTEXT = CONTEXTS["sampled"]


def failed(span: Any) -> None:
    with pytest.raises(LookupError), trace.use_span(span):
        raise LookupError("mine")


TOUCHES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda span: None,
    "its context": lambda span: (span.get_span_context(), span.is_recording(), span.context),
    "an attribute": lambda span: span.set_attribute("n", 2),
    "attributes": lambda span: span.set_attributes({"n": [1, 2], "bad": {1: 2}}),
    "an event": lambda span: span.add_event("event", {"a": 1}, 7),
    "a link": lambda span: span.add_link(ELSEWHERE, {"a": 1}),
    "a name": lambda span: span.update_name("other"),
    "a status": lambda span: span.set_status(Status(StatusCode.ERROR, "why")),
    "a look": lambda span: (span.name, span.kind, dict(span.attributes), span.links, span.parent),
    "text": lambda span: span.to_json(),
    "a block": failed,
}


def pair() -> tuple[Any, Any, Any, Any]:
    """Return a late span, one of the SDK, and what each is exported to."""
    (own, seen), (other, wanted) = provider(Noting()), provider(Noting())
    links = [Link(ELSEWHERE, {})]
    spans = quick(own)
    begun = spans.begin(CONTEXT, "name", SpanKind.CONSUMER, {"a": "b"}, links=links)
    late = spans.late(begun, {**begun.attributes, "m": 1}, links)
    tracer = other.get_tracer("scope", "1")
    span = tracer.start_span("name", CONTEXT, SpanKind.CONSUMER, {"a": "b"}, links)
    span.set_attribute("m", 1)
    return late, span, seen, wanted


def same(own: ReadableSpan, other: ReadableSpan) -> bool:
    found, wanted = shown(own), shown(other)
    for each in (found, wanted):
        for event in each["events"]:
            if "exception.stacktrace" in event["attributes"]:
                del event["timestamp"], event["attributes"]["exception.stacktrace"]
    assert found == wanted
    return True


@pytest.mark.parametrize("name", TOUCHES)
def test_a_late_span_is_what_the_sdk_makes(name: str) -> None:
    late, span, seen, wanted = pair()
    assert isinstance(late, Span) and late.get_span_context() == span.get_span_context()
    for each in (late, span):
        TOUCHES[name](each)
        assert each.is_recording()
        each.end()
        assert not each.is_recording()
    [own], [other] = seen.get_finished_spans(), wanted.get_finished_spans()
    assert same(own, other)
    assert same(late, span)
    assert late.start_time == own.start_time and late.end_time == own.end_time


def test_one_that_is_not_touched_is_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    late, _, seen, _ = pair()
    monkeypatch.setattr(late_spans, "_whole", None)
    inside = trace.set_span_in_context(late)
    assert trace.get_current_span(inside).get_span_context().span_id == 0x77
    late.end(1 << 62)
    [own] = seen.get_finished_spans()
    assert own.end_time == 1 << 62


@pytest.mark.parametrize("name", ["nothing", "an attribute"])
def test_an_end_is_the_only_one(name: str, caplog: pytest.LogCaptureFixture) -> None:
    late, _, seen, _ = pair()
    TOUCHES[name](late)
    late.end()
    late.end()
    late.set_attribute("n", 3)
    [own] = seen.get_finished_spans()
    assert late.attributes.get("n") == own.attributes.get("n") != 3
    assert "ended span" in caplog.text


def test_what_no_span_has_is_no_attribute() -> None:
    late, _, _, _ = pair()
    assert not hasattr(late, "another")
    with pytest.raises(AttributeError, match="'LateSpan' object has no attribute 'another'"):
        _ = late.another


def test_threads_build_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    late, _, _, _ = pair()
    whole = late_spans._whole
    others: list[threading.Thread] = []

    def beside_another_touch(*given: Any) -> Span:
        if not others:
            others.append(threading.Thread(target=late.set_attribute, args=("other", 1)))
            others[0].start()
            others[0].join(0.05)  # it waits
        return whole(*given)

    monkeypatch.setattr(late_spans, "_whole", beside_another_touch)
    late.set_attribute("own", 1)
    others[0].join(5.0)
    assert late.attributes.items() >= {"own": 1, "other": 1, "m": 1}.items()
    assert type(late) is LateSpan


def test_a_copy_of_a_late_span_is_a_span() -> None:
    late, _, _, _ = pair()
    twin = copy.copy(late)
    assert twin.get_span_context() == late.get_span_context()
    assert (twin.name, twin.attributes) == (late.name, late.attributes)


class Left:
    """What is garbage by itself, since it has itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("same_one", [False, True])
def test_garbage_that_ends_a_span_meanwhile_is_not_waited_for(
    same_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, _, seen, _ = pair()
    other, _, others, _ = pair()
    ended, left, whole = late if same_one else other, Left(), late_spans._whole

    def end(_: object) -> None:
        ended.set_attribute("left", True)
        ended.end()

    def beside_garbage(*given: Any) -> Span:
        gc.collect()
        return whole(*given)

    kept = weakref.ref(left, end)
    monkeypatch.setattr(late_spans, "_whole", beside_garbage)
    del left
    late.set_attribute("own", 1)
    late.end()
    assert kept() is None
    assert ended.attributes["left"]
    assert [len(each.get_finished_spans()) for each in (seen, others)] == [1, not same_one]


def test_a_fork_does_not_wait_for_a_thread_that_builds() -> None:
    late, _, _, _ = pair()
    building = late_spans._building.lock
    assert forked_while_held(building, lambda: late.set_attribute("own", 1)) == DONE
