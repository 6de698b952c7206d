"""Topics, groups and messages for the console to show, made by clients of any RocketMQ 4.x."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from tests.console.site import Serving, console_of
from wakelog.client.receipts import Receipt
from wakelog.client.sync import Consumer, Producer

ORDERS: Final = "orders"
BILLING: Final = "billing"
"""A group with a client that has consumed all of ORDERS."""
ARCHIVE: Final = "archive"
"""A group that has consumed all of ORDERS, and has no client."""
MAIL: Final = "mail"
"""A group with dead letters of ORDERS, and no client."""
ORDERS_COUNT: Final = 12
LETTERS_COUNT: Final = 3
SCRIPT: Final = '<script>document.title = "hostile"</script><img src=x onerror="alert(1)">'

SHOWN_SECONDS_MAX: Final = 60.0


class Demonstration(NamedTuple):
    """A console over a cluster with topics and groups. receipts: of ORDERS, SCRIPT the last."""

    console: Serving
    name_server: str
    receipts: list[Receipt]

    def read(self) -> None:
        """Have the cluster and its topics read once more, now."""
        self.console.console.reader.read_soon()
        self.console.read()

    def send(self, body: str, topic: str = ORDERS) -> Receipt:
        """Send one more message."""
        with Producer(self.name_server, group="shop") as producer:
            return producer.send(topic, body)


@contextmanager
def demonstration_of(name_server: str) -> Iterator[Demonstration]:
    """Yield what stands above, once the console shows it; clients and console end with the block.

    There must be none of these topics and groups yet.
    """
    with Producer(name_server, group="shop", trace=True) as producer:
        receipts = [
            producer.send(
                ORDERS,
                f'{{"id": {4711 + number}, "paid": true}}',
                tags="paid",
                keys=f"order-{4711 + number}",
                properties={"amount": str(number)},
            )
            for number in range(ORDERS_COUNT - 1)
        ]
        receipts.append(producer.send(ORDERS, SCRIPT, tags="open", keys="<b>"))
    _consume_all(name_server, ARCHIVE)
    with Consumer(name_server, group=MAIL, topics=ORDERS, start="first", max_retries=0) as mail:
        for number, message in enumerate(islice(mail, ORDERS_COUNT)):
            if number < LETTERS_COUNT:
                message.nack()
            else:
                message.ack()
    with (
        Consumer(name_server, group=BILLING, topics=ORDERS, start="first", trace=True) as billing,
        console_of(name_server) as console,
    ):
        for message in islice(billing, ORDERS_COUNT):
            message.ack()
        billing.commit()
        _wait_until_shown(console)
        yield Demonstration(console, name_server, receipts)


def _consume_all(name_server: str, group: str) -> None:
    with Consumer(name_server, group=group, topics=ORDERS, start="first") as consumer:
        for message in islice(consumer, ORDERS_COUNT):
            message.ack()


def _wait_until_shown(console: Serving) -> None:
    """Read until the cluster says what was done: offsets and queues follow what was sent."""
    end_seconds = time.monotonic() + SHOWN_SECONDS_MAX
    while not _is_shown(console):
        assert time.monotonic() < end_seconds, console.console.reader.shown
        console.read()


def _is_shown(console: Serving) -> bool:
    shown = console.console.reader.shown
    groups = [shown.groups[name] for name in (ARCHIVE, BILLING, MAIL) if name in shown.groups]
    consumed = [
        sum(place.consumer_offset for place in group.progress.offset_table.values())
        for group in groups
    ]
    has_client = [bool(each.clients and each.clients.connection_set) for each in groups]
    return (
        len(groups) == 3
        and min(consumed) >= ORDERS_COUNT
        and has_client == [False, True, False]
        and shown.dead_letters.get(MAIL, 0) >= LETTERS_COUNT
    )
