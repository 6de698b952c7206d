"""The row ``held``: what held pulls and many queues cost a sender.

Two brokers of one side stand beside each other. One has 2,000 topics of 8 queues, a message in each
queue, and 10,000 pulls that wait for the next message of as many queues. The other is empty. One
client sends one message at a time to a topic of its own, in turns: a block to one broker, a block
to the other. So whatever else the machine does falls on both.
"""

import gc
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from benchmarks.load import TOPIC, Run, create_topic
from benchmarks.paced import OPAQUE_FIRST, Connection, Template, number_of, send_templates
from benchmarks.rows import BODY_BYTES, Row
from benchmarks.sides import Side
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand

TOPICS_COUNT = 2_000
QUEUES_COUNT = 8
PULLS_COUNT = 10_000
CONNECTIONS_COUNT = 100
BLOCK_COUNT = 250
"""Sends to one broker before it is the other's turn."""

WINDOW = 64
HOLD_MS = 600_000
SETTLE_SECONDS = 3.0
ANSWER_SECONDS_MAX = 20.0
DISPATCHED_SECONDS_MAX = 120.0
POLL_SECONDS = 0.1

REFUSALS_MAX = 20
"""Of one request. Brokers refuse what waited for more than 200 ms, or 5 s if it is a pull, as on a
machine that other programs keep busy."""

TOPICS = "topic-%04d"
"""The names of the topics, as a format that Java reads as well."""


def add_topics(
    store: Path, topics_count: int = TOPICS_COUNT, queues_count: int = QUEUES_COUNT
) -> None:
    """Write the topics into a store that no broker has opened yet."""
    names = [topic_name(number) for number in range(topics_count)]
    table = {
        name: {
            "order": False,
            "perm": 6,
            "readQueueNums": queues_count,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": queues_count,
        }
        for name in names
    }
    path = store / "config" / "topics.json"
    path.parent.mkdir(parents=True)
    version = {"counter": 1, "timestamp": int(time.time() * 1000)}
    path.write_text(json.dumps({"dataVersion": version, "topicConfigTable": table}))


def topic_name(number: int) -> str:
    """Return the name of one of the topics."""
    return TOPICS % number


def measure_held(row: Row, side: Side, empty: Side) -> Run:
    """Return the median of sends to both, and the memory of a held pull.

    side: started over ``add_topics``.
    ``errors`` counts pulls that were answered although nothing came for them.
    """
    for broker in (side, empty):
        create_topic(broker, TOPIC)
    with Connection(side.broker) as connection:
        fill(connection)
        await_dispatched(connection)
    time.sleep(SETTLE_SECONDS)
    before_bytes = side.cost().memory_bytes
    with ExitStack() as stack:
        holding = hold(side, stack, pull_requests(), PULLS_COUNT)
        time.sleep(SETTLE_SECONDS)
        held_bytes = (side.cost().memory_bytes - before_bytes) / PULLS_COUNT
        senders = [stack.enter_context(Connection(each.broker)) for each in (side, empty)]
        send_in_turns(senders, row.warmup)
        held_ms, empty_ms = (
            statistics.median(each) for each in send_in_turns(senders, row.messages)
        )
        answered = sum(len(connection.answers(0.0)) for connection in holding)
    return {
        "slower": held_ms / empty_ms,
        "p50_ms": held_ms,
        "empty_p50_ms": empty_ms,
        "held_kib": held_bytes / 1024,
        "messages": row.messages,
        "errors": answered,
        "busy_percent": {},
    }


def send_in_turns(senders: list[Connection], count: int) -> list[list[float]]:
    """Send so many messages on each connection; return the milliseconds that each send took.

    What a busy broker refused is sent again, which is part of its time.
    """
    templates = send_templates(TOPIC, bytes(BODY_BYTES))
    took_ms: list[list[float]] = [[] for _ in senders]
    gc.collect()
    gc.disable()  # a collection in the client is no latency of the broker
    try:
        for first in range(0, count, BLOCK_COUNT):
            for connection, found in zip(senders, took_ms, strict=True):
                for number in range(first, min(count, first + BLOCK_COUNT)):
                    began = time.perf_counter()
                    _send_until_taken(connection, templates[number % len(templates)], number)
                    found.append((time.perf_counter() - began) * 1000)
    finally:
        gc.enable()
    return took_ms


def fill(
    connection: Connection, topics_count: int = TOPICS_COUNT, queues_count: int = QUEUES_COUNT
) -> None:
    """Put a message into each queue. A busy broker gets what it refused once more."""
    waiting = dict(enumerate(_sends(topics_count, queues_count)))
    while waiting:
        numbers = list(islice(waiting, WINDOW))
        for number in numbers:
            connection.send(waiting[number], number)
        count = len(numbers)
        while count:
            answers = _next_answers(connection)
            for answer in answers:
                if answer.code != ResponseCode.SYSTEM_BUSY:
                    del waiting[number_of(answer)]
            count -= len(answers)


def await_dispatched(connection: Connection) -> None:
    """Wait until the last queue shows its message. Raises: RuntimeError if it does not in time."""
    fields = {"topic": topic_name(TOPICS_COUNT - 1), "queueId": str(QUEUES_COUNT - 1)}
    request = Template(RequestCode.GET_MAX_OFFSET, fields)
    end = time.monotonic() + DISPATCHED_SECONDS_MAX
    while time.monotonic() < end:
        connection.send(request, 0)
        [answer] = connection.answers(ANSWER_SECONDS_MAX)
        if answer.ext_fields.get("offset") == "1":
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the queues were not made within {DISPATCHED_SECONDS_MAX:.0f} s")


def _sends(topics_count: int, queues_count: int) -> Iterator[Template]:
    for number in range(topics_count):
        fields = {"a": "held", "b": topic_name(number), "c": "TBW102", "d": str(queues_count)}
        fields |= {"f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
        for queue in range(queues_count):
            yield Template(
                RequestCode.SEND_MESSAGE_V2, fields | {"e": str(queue)}, bytes(BODY_BYTES)
            )


def hold(
    side: Side, stack: ExitStack, pulls: Iterator[Template], pulls_count: int
) -> list[Connection]:
    """Leave so many pulls, evenly over some connections; return these.

    One connection after the other: a busy broker refuses what it gets to only after 5 s.
    """
    connections = []
    connections_count = min(CONNECTIONS_COUNT, pulls_count)
    for _ in range(connections_count):
        connection = stack.enter_context(Connection(side.broker))
        connections.append(connection)
        hold_on(connection, list(islice(pulls, pulls_count // connections_count)))
    return connections


def hold_on(connection: Connection, pulls: list[Template]) -> None:
    """Send pulls, and behind them one that finds a message: then the broker has checked all.

    Raises: RuntimeError if another one is answered, or the broker is busy all the time.
    """
    requests = [*pulls, _pull(topic_name(0), 0, queue_offset=0)]
    last, to_send = len(pulls), set(range(len(requests)))
    for _ in range(REFUSALS_MAX):
        for number in sorted(to_send):
            connection.send(requests[number], number)
        to_send.clear()
        is_checked = False
        while not is_checked:
            for answer in _next_answers(connection):
                number = answer.opaque - OPAQUE_FIRST
                if answer.code == ResponseCode.SYSTEM_BUSY:
                    to_send |= {number, last}
                elif number != last:
                    raise RuntimeError(f"a pull got code {answer.code}: {answer.remark}")
                is_checked |= number == last
        if not to_send:
            return
    raise RuntimeError(f"the broker was busy {REFUSALS_MAX} times")


def pull_requests(
    topics_count: int = TOPICS_COUNT, queues_count: int = QUEUES_COUNT
) -> Iterator[Template]:
    """Yield pulls behind the one message of each queue."""
    for number in range(topics_count):
        for queue in range(queues_count):
            yield _pull(topic_name(number), queue, queue_offset=1)


def _pull(topic: str, queue_id: int, *, queue_offset: int) -> Template:
    fields = {
        "consumerGroup": "held",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(HOLD_MS),
        "subscription": "*",
        "subVersion": "1",
        "expressionType": "TAG",
    }
    return Template(RequestCode.PULL_MESSAGE, fields)


def _send_until_taken(connection: Connection, request: Template, number: int) -> None:
    """Send a message and await its answer; a busy broker gets it again.

    Raises: RuntimeError if it fails, no answer comes, or the broker is busy all the time.
    """
    for _ in range(REFUSALS_MAX):
        connection.send(request, number)
        [answer] = _next_answers(connection)
        if answer.code != ResponseCode.SYSTEM_BUSY:
            number_of(answer)
            return
    raise RuntimeError(f"the broker was busy {REFUSALS_MAX} times: {answer.remark}")


def _next_answers(connection: Connection) -> list[RemotingCommand]:
    answers = connection.answers(ANSWER_SECONDS_MAX)
    if not answers:
        raise RuntimeError(f"no answer within {ANSWER_SECONDS_MAX:.0f} s")
    return answers
