"""A sender that keeps its pace, a filler and a consumer that drains: light clients, one a process.

    python -m benchmarks.paced send ADDRESS TOPIC PER_SECOND SECONDS
    python -m benchmarks.paced route NAME_SERVER TOPIC PER_SECOND SECONDS
    python -m benchmarks.paced fill ADDRESS TOPIC BODY_BYTES MESSAGES [PER_SECOND]
    python -m benchmarks.paced drain ADDRESS TOPIC

Each prints one line of JSON. ``send`` sends when it is time, however many answers are outstanding,
so that a stall is in the latency of every message that fell into it. ``route`` asks a name server
in the same way. SIGTERM ends both early, once what was sent is answered. Frames are built once and
only their opaque is patched: what is measured is the broker.
"""

import argparse
import gc
import json
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from benchmarks.rows import BODY_BYTES
from wakelog.protocol.batch import encode_batch_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request
from wakelog.protocol.frame import FrameDecoder, encode_frame

QUEUES_COUNT = 4
BATCH_MESSAGES = 32
PULL_MESSAGES = 32
WINDOW = 16
"""Frames that the filler keeps in flight."""

OPAQUE_FIRST = 1_000_000_000
"""Opaques have ten digits from here on, so that patching one moves nothing."""

DRAINED_SECONDS_MAX = 10.0
PRIORITY = -10
"""The sender's, where the system allows it: a client that waits for a core measures itself."""


class Sample(NamedTuple):
    """One send: when it left by the monotonic clock, when it was answered, where it was put.

    physical_offset: -1 if the broker refused the message.
    """

    sent_seconds: float
    latency_ms: float
    physical_offset: int


class Connection:
    """A blocking socket, a decoder, and templates whose opaque is patched."""

    def __init__(self, address: str) -> None:
        """Connect."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder()
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def __enter__(self) -> Self:
        """Be closed at the end of a block."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.socket.close()

    def send(self, request: "Template", number: int) -> None:
        """Send one frame whose opaque is `number`."""
        self.socket.sendall(request.frame(number))

    def answers(self, wait_seconds: float) -> list[RemotingCommand]:
        """Return what came within a time, at once if something is there."""
        if not self._poll.poll(max(0.0, wait_seconds * 1000)):
            return []
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the broker closed the connection")
        return self._decoder.feed(data)


class Template:
    """An encoded request; `frame` gives it with another opaque."""

    def __init__(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Encode once."""
        encoded = encode_frame(make_request(code, fields, body, opaque=OPAQUE_FIRST))
        before, mark, after = encoded.partition(str(OPAQUE_FIRST).encode())
        assert mark and str(OPAQUE_FIRST).encode() not in after[:200]
        self._before, self._after = before, after

    def frame(self, number: int) -> bytes:
        """Return the frame with the opaque of `number`."""
        return b"%b%d%b" % (self._before, OPAQUE_FIRST + number, self._after)


def number_of(answer: RemotingCommand) -> int:
    """Return the number of the request that is answered. Raises: RuntimeError if it failed."""
    if answer.code != 0:
        raise RuntimeError(f"code {answer.code}: {answer.remark}")
    return answer.opaque - OPAQUE_FIRST


def send_templates(topic: str, body: bytes, *, batch: bool = False) -> list[Template]:
    """Return a send to each queue."""
    code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
    fields = {"a": "paced", "b": topic, "c": "TBW102", "d": str(QUEUES_COUNT), "f": "0", "g": "1"}
    fields |= {"h": "0", "i": "", "j": "0", "k": "false", "m": str(batch).lower()}
    return [Template(code, fields | {"e": str(queue)}, body) for queue in range(QUEUES_COUNT)]


def send(connection: Connection, topic: str, per_second: float, seconds: float) -> dict[str, Any]:
    """Send at a steady pace and return every sample, in the order of the answers."""
    return pace(connection, send_templates(topic, bytes(BODY_BYTES)), per_second, seconds)


def route(connection: Connection, topic: str, per_second: float, seconds: float) -> dict[str, Any]:
    """Ask for a topic's route at a steady pace and return every sample."""
    template = Template(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return pace(connection, [template], per_second, seconds)


def pace(
    connection: Connection, templates: Sequence[Template], per_second: float, seconds: float
) -> dict[str, Any]:
    """Send one template after the other at a steady pace, until the time ends or SIGTERM comes."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    count = int(per_second * seconds)
    sent_at = [0.0] * count
    samples: list[Sample] = []
    sent, began = 0, time.monotonic()

    def end_early(*_: object) -> None:
        nonlocal count
        count = sent

    before = signal.signal(signal.SIGTERM, end_early)
    while len(samples) < count:
        now = time.monotonic()
        due = began + sent / per_second
        if sent < count and now >= due:
            sent_at[sent] = time.monotonic()
            connection.send(templates[sent % len(templates)], sent)
            sent += 1
            continue
        for answer in connection.answers(due - now if sent < count else 1.0):
            left_seconds = sent_at[answer.opaque - OPAQUE_FIRST]
            latency_ms = (time.monotonic() - left_seconds) * 1000
            samples.append(Sample(left_seconds, latency_ms, _place_of(answer)))
    signal.signal(signal.SIGTERM, before)
    return {"samples": samples}


def _place_of(answer: RemotingCommand) -> int:
    if answer.code != 0:
        return -1
    return int(answer.ext_fields.get("msgId", "0")[-16:], 16)


def fill(
    connection: Connection, topic: str, body_bytes: int, messages: int, per_second: float = 0.0
) -> dict[str, Any]:
    """Send messages, small ones in batches; as fast as they are taken, or at a pace.

    What a busy broker refuses is sent again, and counted.
    """
    body, per_frame = bytes(body_bytes), 1
    if body_bytes <= BODY_BYTES:
        per_frame = BATCH_MESSAGES
        body = encode_batch_body([(0, body, b"")] * per_frame)
    templates = send_templates(topic, body, batch=per_frame > 1)
    frames = messages // per_frame
    sent = answered = refused = 0
    began = time.monotonic()
    while answered - refused < frames:
        while sent < frames + refused and sent - answered < WINDOW:
            if per_second:
                time.sleep(max(0.0, began + sent * per_frame / per_second - time.monotonic()))
            connection.send(templates[sent % QUEUES_COUNT], sent)
            sent += 1
            if per_second:
                break
        wait_seconds = 0.0 if per_second and sent < frames + refused else 1.0
        for answer in connection.answers(wait_seconds):
            answered += 1
            if answer.code == ResponseCode.SYSTEM_BUSY:
                refused += 1
            else:
                number_of(answer)
    seconds = time.monotonic() - began
    return {"messages": frames * per_frame, "refused": refused, "seconds": seconds}


def drain(
    connection: Connection,
    topic: str,
    messages_max: float = math.inf,
) -> dict[str, Any]:
    """Pull every queue from its beginning, side by side, until each has no more.

    messages_max: asks for no more once so many have come.
    """
    received_bytes = 0
    began = last = time.monotonic()
    open_queues = set(range(QUEUES_COUNT))
    offsets = [0] * QUEUES_COUNT
    for queue in range(QUEUES_COUNT):
        connection.send(_pull_template(topic, queue, 0), queue)
    while open_queues:
        if time.monotonic() - last > DRAINED_SECONDS_MAX:
            raise RuntimeError(f"no answer for {DRAINED_SECONDS_MAX} s")
        for answer in connection.answers(1.0):
            last = time.monotonic()
            queue = answer.opaque - OPAQUE_FIRST
            if answer.code != 0 or offsets[queue] >= int(answer.ext_fields["maxOffset"]):
                open_queues.discard(queue)
                continue
            received_bytes += len(answer.body)
            offsets[queue] = int(answer.ext_fields["nextBeginOffset"])
            if sum(offsets) >= messages_max:
                open_queues.discard(queue)
                continue
            connection.send(_pull_template(topic, queue, offsets[queue]), queue)
    return {"bytes": received_bytes, "messages": sum(offsets), "seconds": last - began}


def _pull_template(topic: str, queue: int, queue_offset: int) -> Template:
    fields = {
        "consumerGroup": "drain",
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(queue_offset),
        "maxMsgNums": str(PULL_MESSAGES),
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "1",
        "expressionType": "TAG",
    }
    return Template(RequestCode.PULL_MESSAGE, fields)


def main(arguments: Sequence[str]) -> int:
    """Run one client."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paced")
    parser.add_argument("mode", choices=("send", "route", "fill", "drain"))
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("numbers", type=float, nargs="*")
    given = parser.parse_args(arguments)
    mode, topic = given.mode, given.topic
    gc.disable()  # a collection in the client is no latency of the broker
    rest: Iterator[float] = iter(given.numbers)
    with Connection(given.address) as connection:
        if mode == "send":
            result = send(connection, topic, *rest)
        elif mode == "route":
            result = route(connection, topic, *rest)
        elif mode == "fill":
            body_bytes, messages, *pace = rest
            result = fill(connection, topic, int(body_bytes), int(messages), *pace)
        else:
            result = drain(connection, topic)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
