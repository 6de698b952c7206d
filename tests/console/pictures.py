"""`./dev pictures`: the pictures of the console in docs/pictures.

They show a cluster that is made for them. An hour passes on it within a minute, since the broker's
clock is moved. Then its clients run for a minute: one group falls behind, one gives up
messages, and one has no client.
"""

import asyncio
import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Final, NamedTuple
from unittest.mock import patch

from playwright.sync_api import Browser as Chromium

from tests.compat.provision import ROOT
from tests.console.browser.window import NARROW, View, chromium_in
from tests.console.site import Serving, console_of
from wakelog import client as aio
from wakelog.actors.transport import clocks
from wakelog.client.admin import Admin, open_admin
from wakelog.client.errors import ClientError
from wakelog.client.messages import Message
from wakelog.client.receipts import Receipt
from wakelog.client.sync import Consumer, ConsumerMessage, Producer
from wakelog.protocol.bodies import SubscriptionGroupConfig
from wakelog.storage.file_system import DiskUsage
from wakelog.testing.embedded_broker import EmbeddedBroker
from wakelog.testing.faulty_disk import FaultyDisk

FOLDER: Final = ROOT / "docs" / "pictures"
PICTURE_BYTES_MAX: Final = 150_000

MINUTES: Final = 60
LIVE_SECONDS: Final = 50.0
READ_SECONDS: Final = 5.0
"""Between two readings while the clients run, as for a page that is open."""
SEND_SECONDS: Final = 0.025
"""Between two orders while the clients run."""

SETTINGS: Final = {
    "brokerClusterName": "shop",
    "traceTopicEnable": "true",
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxIndexNum": "400000",
    "maxHashSlotNum": "100000",
}
TOPICS: Final = {"orders": 2, "payments": 4, "shipments": 4, "mails": 2}
"""Their queues."""
MESSAGES_A_MINUTE: Final = {"orders": 1_200, "payments": 700, "shipments": 300, "mails": 60}
GROUPS: Final = {
    "billing": "orders",
    "search": "orders",
    "archive": "payments",
    "ledger": "payments",
    "shipping": "shipments",
    "mail": "mails",
}
"""What each consumes."""
ADDRESS: Final = "10.0.0.7"
"""Of the clients, in place of this machine's."""
KEY: Final = "order-4711"


class Picture(NamedTuple):
    """A page, how it is shown, and how much of it. scale: points of the picture for one of it."""

    name: str
    address: str
    view: View
    height: int
    scale: int = 1


PICTURES: Final = (
    Picture("verdict-light", "/", View(1200, "light"), 620),
    Picture("verdict-dark", "/", View(1200, "dark"), 620),
    Picture("group", "/groups/billing", View(1200, "light"), 600),
    Picture("message", "/messages/{id}?topic=mails", View(1200, "light"), 960),
    Picture("phone", "/groups", View(NARROW, "dark"), 760, scale=2),
)


def main(arguments: Sequence[str]) -> int:
    """Make all pictures, and say how large each is."""
    if arguments:
        print("pictures takes no arguments", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster() as (console, message_id),
        chromium_in(Path(folder)) as chromium,
    ):
        for picture in PICTURES:
            address = picture.address.format(id=message_id)
            size_bytes = make(chromium, console.url + address, picture)
            print(f"{picture.name}.png: {size_bytes:,} bytes")
            if size_bytes > PICTURE_BYTES_MAX:
                print(f"over {PICTURE_BYTES_MAX:,}: show less of the page", file=sys.stderr)
                return 1
    return 0


def make(chromium: Chromium, url: str, picture: Picture) -> int:
    """Write one picture and return its size in bytes."""
    page = chromium.new_page(
        viewport={"width": picture.view.width, "height": picture.height},
        color_scheme=picture.view.scheme,
        device_scale_factor=picture.scale,
        locale="en-GB",
        timezone_id="UTC",
    )
    page.goto(url)
    page.locator("#state").get_by_text("live").or_(page.locator("h1")).first.wait_for()
    path = FOLDER / f"{picture.name}.png"
    page.screenshot(path=path, animations="disabled", caret="hide")
    page.close()
    return path.stat().st_size


@contextmanager
def cluster() -> Iterator[tuple[Serving, str]]:
    """Yield the console of a cluster that has run for an hour, and the id of a dead message."""
    with (
        patch("wakelog.client.instance.own_address", lambda: ADDRESS),
        patch("wakelog.console.reader.UNWATCHED_SECONDS", 3_600.0),  # a reading a minute is enough
        past_clock(),
        shop() as broker,
        console_of(broker.name_server, clock=clocks.wall_ms) as console,
    ):
        for topic, queues in TOPICS.items():
            broker.create_topic(topic, queues=queues)
        give_up_one(broker.name_server)
        asyncio.run(pass_an_hour(broker, console))
        with clients(broker.name_server):
            message_id = live(broker.name_server, console)
            yield console, message_id


@contextmanager
def shop() -> Iterator[EmbeddedBroker]:
    """Run the broker over a disk that fills up."""
    broker = EmbeddedBroker(settings=SETTINGS)
    broker.disk = FillingDisk()
    with broker:
        yield broker


@contextmanager
def past_clock() -> Iterator[None]:
    """Begin an hour ago, so that the hour ends now. Timers only go forward."""
    past = SimpleNamespace(
        time_ns=lambda: time.time_ns() - MINUTES * 60_000_000_000,
        clock_gettime_ns=time.clock_gettime_ns,
        CLOCK_BOOTTIME=time.CLOCK_BOOTTIME,
    )
    with patch.object(clocks, "time", past):
        yield


class FillingDisk(FaultyDisk):
    """A disk that fills up slowly."""

    def __init__(self) -> None:
        super().__init__()
        self._began_ms = clocks.wall_ms()

    def disk_usage(self, path: str) -> DiskUsage:
        """Return more with each hour."""
        hours = (clocks.wall_ms() - self._began_ms) / 3_600_000
        usage = super().disk_usage(path)
        used_bytes = round((0.702 + 0.013 * hours) * usage.total_bytes)
        free_bytes = usage.total_bytes - used_bytes
        return usage._replace(used_bytes=used_bytes, free_bytes=free_bytes)


def lag_of(group: str, minute: int) -> int:
    """Return by how many messages a group lags at the end of a minute."""
    match group:
        case "billing":
            return 40 + max(0, minute - 38) * 430
        case "search":
            return max(0, 9_000 - minute * 160)
        case "archive":
            return max(0, minute - 45) * MESSAGES_A_MINUTE["payments"]
    return 12


async def pass_an_hour(broker: EmbeddedBroker, console: Serving) -> None:
    """Send and commit, minute by minute, with a reading after each."""
    async with (
        aio.Producer(broker.name_server, group="shop") as producer,
        open_admin(broker.name_server) as admin,
    ):
        for group in GROUPS:
            await admin.update_group(broker.address, SubscriptionGroupConfig(group_name=group))
        for minute in range(1, MINUTES + 1):
            wave = 1 + 0.35 * math.sin(minute / 9) + 0.08 * math.sin(minute * 2.1)
            for topic, rate in MESSAGES_A_MINUTE.items():
                await producer.send_many(order(topic, n) for n in range(round(rate * wave)))
            for group, topic in GROUPS.items():
                await commit(admin, group, topic, lag_of(group, minute))
            await asyncio.to_thread(broker.advance, 60)
            await asyncio.to_thread(console.read)


def order(topic: str, number: int) -> Message:
    """Return a message of the shop."""
    body = json.dumps({"id": number, "state": "paid", "total": f"{number % 97}.90"})
    return Message(topic, body, tags="paid", keys=f"order-{number}")


async def commit(admin: Admin, group: str, topic: str, lag: int) -> None:
    """Let a group have consumed all of a topic but so many messages."""
    queues = await admin.queues(topic)
    for queue in queues:
        end = await admin.calls.max_offset(queue)
        await admin.calls.commit_offset(queue, group, max(0, end - lag // len(queues)))


@contextmanager
def clients(name_server: str) -> Iterator[None]:
    """Run the consumers of all groups but the archive's."""
    threads = []
    with ExitStack() as stack:
        for group, handle in [
            ("billing", bill), ("billing", hold), ("search", ack), ("ledger", ack),
            ("shipping", ack), ("mail", give_up),
        ]:  # fmt: skip
            consumer = Consumer(
                name_server, group=group, topics=GROUPS[group], trace=group in ("mail", "shipping"),
                max_retries=1,
            )  # fmt: skip
            stack.enter_context(consumer)
            threads.append(threading.Thread(target=handle, args=(consumer,)))
            threads[-1].start()
        yield
    for thread in threads:
        thread.join()


def give_up_one(name_server: str) -> None:
    """Let the group mail have a dead letter from before the hour."""
    with Producer(name_server, group="shop") as producer:
        send_refund(producer, 4_001)
    topic = GROUPS["mail"]
    with Consumer(name_server, group="mail", topics=topic, start="first", max_retries=0) as mail:
        next(iter(mail)).nack()


def ack(consumer: Consumer) -> None:
    """Consume all."""
    for message in consumer:
        message.ack()


def bill(consumer: Consumer) -> None:
    """Consume slowly, until it is closed."""
    for message in consumer:
        time.sleep(0.2)
        with suppress(ClientError):
            message.ack()


def hold(consumer: Consumer) -> None:
    """Take messages, and acknowledge none."""
    taken: list[ConsumerMessage] = []
    for message in consumer:
        taken.append(message)


def give_up(consumer: Consumer) -> None:
    """Consume all but refunds."""
    for message in consumer:
        if message.tags == "refund":
            message.nack()
        else:
            message.ack()


def live(name_server: str, console: Serving) -> str:
    """Send for a while, with a reading every few seconds; return the id of a message given up."""
    end_seconds = time.monotonic() + LIVE_SECONDS
    read_seconds = time.monotonic()
    with Producer(name_server, group="shop", trace=True) as producer:
        receipts = [send_refund(producer, number) for number in range(4_711, 4_720)]
        for number in count():
            producer.send("orders", order("orders", number).body, keys=f"order-{number}")
            if number % 4 == 0:
                producer.send("payments", order("payments", number).body)
                producer.send("shipments", order("shipments", number).body)
            now_seconds = time.monotonic()
            if now_seconds >= read_seconds:
                read_seconds = now_seconds + READ_SECONDS
                console.read()
            if now_seconds >= end_seconds:
                return receipts[0].offset_message_id
            time.sleep(SEND_SECONDS)
    raise AssertionError


def send_refund(producer: Producer, number: int) -> Receipt:
    """Send a message that the group mail gives up."""
    body: Mapping[str, object] = {
        "id": number,
        "kind": "refund",
        "to": "ada@example.org",
        "lines": [{"sku": "KB-104", "count": 1, "price": "59.00"}],
        "total": "59.00",
    }
    return producer.send("mails", json.dumps(body), tags="refund", keys=f"order-{number}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
