"""Where a message of an exchange goes, and which queues it is for."""

import pytest

from wakelog.celery.payload import PUT_IN, Payload
from wakelog.celery.routes import Binding, Target, is_for, target_of

DIRECT = Binding("tasks", "direct", "paint", "painters")
ALL = Binding("news", "fanout", "", "readers")
SOME = Binding("events", "topic", "task.#", "watchers")
REPLIES = Binding("tasks", "direct", "paint", "tmp-1")


@pytest.mark.parametrize(
    ("pattern", "key", "is_matched"),
    [
        ("task.#", "task", True),
        ("task.#", "task.done.late", True),
        ("task.#", "tasks.done", False),
        ("task.*", "task.done", True),
        ("task.*", "task.done.late", False),
        ("task.*", "task", False),
        ("#", "", True),
        ("#", "any.thing", True),
        ("*.done", "task.done", True),
        ("a.b", "a.b", True),
        ("a.b", "aXb", False),
        ("#.end", "a.b.end", True),
        ("#.end", "end", True),
    ],
)
def test_a_topic_exchange_counts_words(pattern: str, key: str, is_matched: bool) -> None:
    assert Binding("e", "topic", pattern, "q").matches(key) is is_matched


@pytest.mark.parametrize(
    ("bindings", "exchange", "key", "temporary", "target"),
    [
        ([DIRECT], "tasks", "paint", (), Target(("painters",), False)),
        ([DIRECT], "tasks", "sand", (), Target((), True)),
        ([DIRECT], "other", "paint", (), Target((), True)),
        ([], "tasks", "paint", (), Target((), True)),
        ([ALL], "news", "", (), Target((), True)),
        ([REPLIES], "tasks", "paint", ("tmp-1",), Target((), True)),
        ([DIRECT, REPLIES], "tasks", "paint", ("tmp-1",), Target(("painters",), True)),
        ([SOME, SOME], "events", "task.done", (), Target(("watchers",), False)),
    ],
)
def test_what_no_known_queue_takes_goes_to_the_exchange(
    bindings: list[Binding], exchange: str, key: str, temporary: tuple[str, ...], target: Target
) -> None:
    assert target_of(bindings, exchange, key, temporary) == target


def payload(key: str, *put_in: str) -> Payload:
    return {"properties": {"delivery_info": {"routing_key": key}}, PUT_IN: list(put_in)}


@pytest.mark.parametrize(
    ("queue", "exchange", "message", "is_mine"),
    [
        ("painters", "tasks", payload("paint"), True),
        ("painters", "tasks", payload("sand"), False),
        ("painters", "tasks", payload("paint", "painters"), False),
        ("painters", "tasks", payload("paint", "tmp-1"), True),
        ("readers", "news", payload("any"), True),
        ("tmp-2", "", payload("tmp-2"), True),
        ("tmp-2", "", payload("tmp-3"), False),
    ],
)
def test_a_queue_takes_what_it_is_bound_to_once(
    queue: str, exchange: str, message: Payload, is_mine: bool
) -> None:
    assert is_for(queue, [DIRECT, ALL, SOME], exchange, message) is is_mine
