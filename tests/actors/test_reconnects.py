"""5,000 consumers of one group that reconnect at once, as after a restart, with sends going on."""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.actors.bounded import run
from tests.actors.notified_broker import NotifiedBroker, notified_broker
from wakelog.protocol.bodies import (
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    decode_body,
    encode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import make_request
from wakelog.protocol.frame import encode_frame
from wakelog.protocol.subscription import build_subscription

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(120)]

CLIENTS_COUNT = 5_000
CONNECTING_COUNT = 50
READY_SECONDS_MAX = 10.0
"""Of CPU: this one process is the broker, its services and all clients."""

NOTICE_BYTES = 200
DESCRIPTORS_COUNT = 2 * CLIENTS_COUNT + 1_000


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Let the process have a socket for each end of each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(DESCRIPTORS_COUNT, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Consumer(asyncio.Protocol):
    """A connection that sends a heartbeat and counts what it gets."""

    received_bytes = 0

    def __init__(self, number: int) -> None:
        consumer = ConsumerData("g", subscription_data_set=[build_subscription("T", "*")])
        body = encode_body(HeartbeatData(f"client-{number}", [], [consumer]))
        self._beat = encode_frame(make_request(RequestCode.HEART_BEAT, {}, body, opaque=number))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._beat)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)


def _itself(consumer: Consumer) -> Consumer:
    return consumer


async def members_count(running: NotifiedBroker) -> int:
    fields = {"consumerGroup": "g"}
    answer = await running.client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
    if answer.code != ResponseCode.SUCCESS:
        return 0
    return len(decode_body(GetConsumerListByGroupResponseBody, answer.body).consumer_id_list)


async def connect_all(running: NotifiedBroker, consumers: list[Consumer]) -> None:
    host, _, port = running.client.address.rpartition(":")
    loop = asyncio.get_running_loop()
    for begin in range(0, CLIENTS_COUNT, CONNECTING_COUNT):
        some = consumers[begin : begin + CONNECTING_COUNT]
        making = (loop.create_connection(partial(_itself, one), host, int(port)) for one in some)
        await asyncio.gather(*making)
    while await members_count(running) < CLIENTS_COUNT:
        await asyncio.sleep(0.05)


async def send_until(running: NotifiedBroker, over: asyncio.Event) -> Counter[int]:
    codes: Counter[int] = Counter()
    while not over.is_set():
        codes[(await running.client.send("T", b"body")).code] += 1
        await asyncio.sleep(0.01)
    return codes


def test_a_group_of_thousands_that_reconnects_is_taken_in_while_others_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    async def main() -> None:
        async with notified_broker(tmp_path, monkeypatch) as running:
            consumers = [Consumer(number) for number in range(CLIENTS_COUNT)]
            over = asyncio.Event()
            sending = asyncio.create_task(send_until(running, over))
            began, cpu_began = time.monotonic(), time.process_time()
            await connect_all(running, consumers)
            took_seconds = time.monotonic() - began
            cpu_seconds = time.process_time() - cpu_began
            while running.broker.broker.state.notices.next_ms() is not None:
                await asyncio.sleep(0.05)
            noticed_seconds = time.monotonic() - began
            over.set()
            codes = await sending
            received_bytes = sum(consumer.received_bytes for consumer in consumers)
            for consumer in consumers:
                consumer.transport.abort()
            said = (
                f"5,000 consumers reconnected within {took_seconds:.1f} s, {cpu_seconds:.1f} s of"
                f" CPU; {received_bytes / 1e6:.1f} MB to them; sends by code {dict(codes)}"
            )
            record_property("said", said)

            assert cpu_seconds < READY_SECONDS_MAX, said
            assert codes[ResponseCode.SUCCESS] > 20, said
            # The clients' own work delays the one loop beyond what a send may wait.
            assert codes[ResponseCode.SUCCESS] > 0.9 * codes.total(), said
            notices_count = CLIENTS_COUNT * (noticed_seconds + 2)
            assert received_bytes < (CLIENTS_COUNT + notices_count) * NOTICE_BYTES, said

    run(main)
