"""Attacks by many requests of one kind, which one connection sends before it reads an answer.

Each request is one that a client may make; what they cost together is what the others wait for.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.attack_scenes import (
    Scene,
    Target,
    connect,
    frame,
    read_answer,
    send_all,
    side_by_side,
)
from tests.broker.harness import pull_fields, send_fields
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.codes import RequestCode as Code

TOPIC = "flooded"
FILLED_MESSAGES = 4_096
"""As many entries as QUERY_CONSUME_QUEUE shows."""

COUNT_MAX = (1 << 31) - 1
SHOWN_COUNT = 200
SEARCHES_COUNT = 5_000
SENT_BACK_COUNT = 5_000
HALVES_COUNT = 10_000
LIGHT_MESSAGES = 200
LIGHT_QUEUES = 500
HELD_COUNT = 200
HELD_CONNECTIONS = 10
HELD_BYTES = 1 << 20
DELETED_TOPICS = 1_000
COMMITS_COUNT = 20_000
COMMITS_SECONDS = 6.0
"""A save of the offsets comes every 5 s."""

SIDES_COUNT = 4
LARGE_CLIENTS = 8
LARGE_EACH = 8
LARGE_BYTES = 4_000_000
"""Nearly the 4 MiB that a message may have."""


def flood(target: Target, frames: Sequence[bytes]) -> None:
    """Send all frames over one connection, and read the answers meanwhile."""
    with connect(target.broker) as connection:
        sending = threading.Thread(target=connection.sendall, args=(b"".join(frames),))
        sending.start()
        for _ in frames:
            if not read_answer(connection):
                break
        sending.join()


def fill(target: Target) -> None:
    """Have messages in queue 0 of the topic."""
    batch = encode_batch_body([(0, b"b", b"")] * (FILLED_MESSAGES // 16))
    fields = send_fields(TOPIC, m="true", i="")
    send_all(target.broker, [frame(Code.SEND_BATCH_MESSAGE, fields, batch)] * 16)


def send_back(target: Target) -> None:
    """Send one message back again and again."""
    with connect(target.broker) as connection:
        connection.sendall(frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC), b"b"))
        answer = connection.recv(4_096)
    message_id = answer.partition(b'"msgId":"')[2][:32]
    fields = {"offset": str(int(message_id[16:], 16)), "group": "flooding", "delayLevel": "1"}
    flood(target, [frame(Code.CONSUMER_SEND_MSG_BACK, fields)] * SENT_BACK_COUNT)


def hold_bodies(target: Target) -> None:
    """Have pulls held that bring a body for which they have no use."""
    send_all(target.broker, [frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC), b"b")])
    beyond = pull_fields(topic=TOPIC, queueId=1, sysFlag=6, suspendTimeoutMillis=60_000)
    pull = frame(Code.PULL_MESSAGE, beyond, bytes(HELD_BYTES))
    connections = [connect(target.broker) for _ in range(HELD_CONNECTIONS)]
    for _ in range(HELD_COUNT):
        for connection in connections:
            connection.sendall(pull)
    for connection in connections:
        connection.close()


def delete_topics(target: Target) -> None:
    """Make topics, each with a message, and delete them all at once."""
    names = [f"{TOPIC}-{number}" for number in range(DELETED_TOPICS)]
    sends = [frame(Code.SEND_MESSAGE_V2, send_fields(name), b"b") for name in names]
    deletions = [frame(Code.DELETE_TOPIC_IN_BROKER, {"topic": name}) for name in names]
    for frames in (sends, deletions):
        some = [frames[first::SIDES_COUNT] for first in range(SIDES_COUNT)]
        side_by_side([partial(flood, target, one) for one in some])


def commit_long_names(target: Target) -> None:
    """Commit offsets of topics and groups that are not there, of the longest names."""
    frames = [
        frame(
            Code.UPDATE_CONSUMER_OFFSET,
            {
                "consumerGroup": f"g{number}".ljust(255, "x"),
                "topic": f"t{number}".ljust(127, "x"),
                "queueId": "0",
                "commitOffset": "1",
            },
        )
        for number in range(COMMITS_COUNT)
    ]
    flood(target, frames)
    time.sleep(COMMITS_SECONDS)


def large_message_clients() -> Scene:
    """Return clients that each send one message of 4 MB after the other."""

    def prepare() -> Callable[[Target], None]:
        large = frame(Code.SEND_MESSAGE_V2, send_fields(TOPIC), bytes(LARGE_BYTES))

        def play(target: Target) -> None:
            attacker = partial(send_all, target.broker, [large] * LARGE_EACH)
            side_by_side([attacker] * LARGE_CLIENTS)

        return play

    return Scene(f"{LARGE_CLIENTS} clients send 4 MB messages", prepare)


def floods() -> Iterator[Scene]:
    """Yield the scenes."""

    def after_filling(name: str, code: Code, fields: dict[str, str], count: int) -> Scene:
        frames = [frame(code, {"topic": TOPIC, "queueId": "0"} | fields)] * count

        def play(target: Target) -> None:
            fill(target)
            flood(target, frames)

        return Scene(name, lambda: play)

    yield after_filling(
        f"{SHOWN_COUNT} QUERY_CONSUME_QUEUE of 2^31 entries",
        Code.QUERY_CONSUME_QUEUE,
        {"index": "0", "count": str(COUNT_MAX)},
        SHOWN_COUNT,
    )
    yield after_filling(
        f"{SEARCHES_COUNT:,} SEARCH_OFFSET_BY_TIMESTAMP",
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
        {"timestamp": "1"},
        SEARCHES_COUNT,
    )
    yield Scene(f"{SENT_BACK_COUNT:,} CONSUMER_SEND_MSG_BACK", lambda: send_back)
    half = frame(
        Code.SEND_MESSAGE_V2, send_fields(TOPIC, i="TRAN_MSG\x01true\x02PGROUP\x01p"), b"b"
    )
    yield Scene(
        f"{HALVES_COUNT:,} half messages", lambda: partial(flood, frames=[half] * HALVES_COUNT)
    )
    held_count = HELD_COUNT * HELD_CONNECTIONS
    yield Scene(f"{held_count:,} held pulls with a body of 1 MiB", lambda: hold_bodies)
    yield Scene(f"{DELETED_TOPICS:,} topics are deleted at once", lambda: delete_topics)
    yield Scene(f"{COMMITS_COUNT:,} offsets of long names", lambda: commit_long_names)
    queues = ",".join(f"%LMQ%flooded{number}" for number in range(LIGHT_QUEUES))
    light = frame(
        Code.SEND_MESSAGE_V2, send_fields(TOPIC, i=f"INNER_MULTI_DISPATCH\x01{queues}"), b"b"
    )
    yield Scene(
        f"{LIGHT_MESSAGES} messages to {LIGHT_QUEUES} light queues each",
        lambda: partial(flood, frames=[light] * LIGHT_MESSAGES),
    )
