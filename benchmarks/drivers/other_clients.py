"""The Python clients of others under the loads of `./dev bench client`: one row, one line of JSON.

    python other_clients.py SYSTEM ROW PORT TOPIC COUNT

It runs in an environment of its own, which has redis, nats-py and confluent-kafka and no wakelog.
Each client is used as its own documents show. What has to be there first (streams, consumers, a
backlog, connections) is made before the time begins.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

BODY = os.urandom(512).hex().encode()
BATCH_COUNT = 1_000
IN_FLIGHT = 256
FETCH_SECONDS = 10.0
WARM_UP_COUNT = 1_000


class Watch:
    """The time and this process's CPU from now on."""

    def __init__(self) -> None:
        """Begin."""
        self.seconds, self.cpu_seconds = time.perf_counter(), time.process_time()

    def report(self) -> None:
        """Print both."""
        seconds = time.perf_counter() - self.seconds
        cpu_seconds = time.process_time() - self.cpu_seconds
        print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}))


def redis_row(row: str, port: int, topic: str, count: int) -> None:
    """Send to a stream of Redis one by one or by pipelines, or read it."""
    import redis  # type: ignore[import-not-found]

    with redis.Redis(port=port) as client:

        def send_by_pipelines(count: int) -> None:
            for begin in range(0, count, BATCH_COUNT):
                with client.pipeline(transaction=False) as pipeline:
                    for _ in range(min(BATCH_COUNT, count - begin)):
                        pipeline.xadd(topic, {"body": BODY})
                    pipeline.execute()

        send_by_pipelines(count if row == "consumed" else WARM_UP_COUNT)
        watch = Watch()
        if row == "one by one":
            for _ in range(count):
                client.xadd(topic, {"body": BODY})
        elif row == "batches of 1,000":
            send_by_pipelines(count)
        else:
            place, left_count = b"0", count
            while left_count > 0:
                [(_, found)] = client.xread({topic: place}, BATCH_COUNT)
                left_count -= len(found)
                place = found[-1][0]
        watch.report()


def nats_row(row: str, port: int, topic: str, count: int) -> None:
    """Publish to a stream of JetStream one by one or with many in flight, or pull it."""
    import nats  # type: ignore[import-not-found]
    from nats.js.api import AckPolicy, ConsumerConfig  # type: ignore[import-not-found]

    async def main() -> None:
        connection = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = connection.jetstream(timeout=30)
        await stream.add_stream(name=topic, subjects=[topic])

        async def publish(count: int) -> None:
            for _ in range(count):
                await stream.publish(topic, BODY)

        async def publish_in_flight(count: int) -> None:
            await asyncio.gather(*(publish(count // IN_FLIGHT) for _ in range(IN_FLIGHT)))

        sent_count = count // IN_FLIGHT * IN_FLIGHT
        await publish_in_flight(count if row == "consumed" else WARM_UP_COUNT)
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        reader = await stream.pull_subscribe(topic, "readers", config=config)
        watch = Watch()
        if row == "one by one":
            await publish(count)
        elif row == "256 in flight":
            await publish_in_flight(count)
        else:
            while sent_count > 0:
                sent_count -= len(await reader.fetch(BATCH_COUNT, FETCH_SECONDS))
        watch.report()
        await connection.close()

    asyncio.run(main())


def _check(error: object, message: object) -> None:
    if error is not None:
        raise SystemExit(f"Kafka refused a message: {error}")


def _produce(producer: Any, topic: str, count: int) -> None:
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, BODY, on_delivery=_check)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def kafka_row(row: str, port: int, topic: str, count: int) -> None:
    """Produce to Kafka one by one or in its own batches, or consume."""
    from confluent_kafka import Consumer, Producer  # type: ignore[import-not-found]

    servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
    producer = Producer(servers | ({"linger.ms": 0} if row == "one by one" else {}))

    _produce(producer, topic, count if row == "consumed" else WARM_UP_COUNT)
    consumer = Consumer(servers | {"group.id": topic, "auto.offset.reset": "earliest"})
    if row == "consumed":
        consumer.subscribe([topic])
    watch = Watch()
    if row == "one by one":
        for _ in range(count):
            producer.produce(topic, BODY, on_delivery=_check)
            producer.flush()
    elif row == "batches of 1,000":
        _produce(producer, topic, count)
    else:
        left_count = count
        while left_count > 0:
            left_count -= len(consumer.consume(min(BATCH_COUNT, left_count), FETCH_SECONDS))
    watch.report()
    consumer.close()


ROWS: dict[str, Callable[[str, int, str, int], None]] = {
    "redis": redis_row,
    "nats": nats_row,
    "kafka": kafka_row,
}

if __name__ == "__main__":
    system, row, port, topic, count = sys.argv[1:]
    ROWS[system](row, int(port), topic, int(count))
