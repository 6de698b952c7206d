"""Whether groups have consumed a message."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.compat.driver import wait_until
from tests.fakes.records import properties, record
from wakelog.client.admin import open_admin
from wakelog.client.errors import ClientError
from wakelog.client.message_search import by_id
from wakelog.client.receipts import Receipt
from wakelog.client.sync import Consumer, Producer
from wakelog.client.tracks import (
    CONSUMED,
    CONSUMED_BUT_FILTERED,
    NOT_CONSUME_YET,
    NOT_ONLINE,
    PULL,
    UNKNOWN,
    Track,
    track_of,
    tracks_of,
)
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.record import decode_record
from wakelog.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def send(broker: EmbeddedBroker, topic: str) -> Receipt:
    with Producer(broker.name_server, group="tracked") as producer:
        return producer.send(topic, b"x", keys=["shared"])


def tracks(broker: EmbeddedBroker, receipt: Receipt) -> list[Track]:
    async def main() -> list[Track]:
        async with open_admin(broker.name_server) as admin:
            [message] = await by_id(admin, receipt.offset_message_id)
            return await tracks_of(admin, message.record)

    return asyncio.run(main())


def test_a_group_that_is_beyond_a_message_has_consumed_it(broker: EmbeddedBroker) -> None:
    broker.create_topic("tracked", queues=1)
    receipt, next_receipt = send(broker, "tracked"), send(broker, "tracked")
    settings = {"group": "trackers", "topics": ["tracked"], "start": "first"}
    with Consumer(broker.name_server, **settings) as consumer:  # type: ignore[arg-type]
        next(iter(consumer)).ack()
        wanted = [Track("trackers", CONSUMED, None, 1)]
        wait_until(lambda: tracks(broker, receipt) == wanted, what="consumed")
        assert tracks(broker, next_receipt) == [Track("trackers", NOT_CONSUME_YET, None, 1)]
    [found] = tracks(broker, receipt)
    assert found.kind == NOT_ONLINE and "CODE:206" in (found.description or "")


RECORD = decode_record(record(900, properties(TAGS="a"), queue_offset=5))
HERE = MessageQueue("T", "b", 0)


def tracked(
    offsets: dict[MessageQueue, int],
    subscriptions: dict[str, SubscriptionData] | None = None,
    *,
    consume_type: str = "CONSUME_PASSIVELY",
    address: str = "127.0.0.1:10911",
    failure: ClientError | None = None,
) -> Track:
    """Return what is known of a group whose offsets are these."""

    async def of(found: object) -> object:
        if failure is not None:
            raise failure
        return found

    clients = SimpleNamespace(consume_type=consume_type, subscription_table=subscriptions or {})
    table = {queue: SimpleNamespace(consumer_offset=one) for queue, one in offsets.items()}
    brokers = {"b": SimpleNamespace(broker_addrs={0: address})}
    admin: Any = SimpleNamespace(
        consumers=lambda _group: of(clients),
        cluster=lambda: of(SimpleNamespace(broker_addr_table=brokers)),
        consume_stats=lambda _group: of(SimpleNamespace(offset_table=table)),
    )
    return asyncio.run(track_of(admin, RECORD, "g"))


@pytest.mark.parametrize(
    ("offsets", "kind", "offset"),
    [
        ({}, NOT_CONSUME_YET, None),
        ({HERE: 4}, NOT_CONSUME_YET, 4),
        ({HERE: 5}, NOT_CONSUME_YET, 5),
        ({HERE: 6}, CONSUMED, 6),
        ({MessageQueue("U", "b", 0): 9}, NOT_CONSUME_YET, None),
        ({MessageQueue("T", "b", 1): 9}, NOT_CONSUME_YET, None),
        ({MessageQueue("T", "other", 0): 9}, NOT_CONSUME_YET, None),
        ({MessageQueue("T", "b", 1): 9, HERE: 6}, CONSUMED, 6),
    ],
)
def test_a_message_is_consumed_once_the_offset_of_its_queue_is_beyond_it(
    offsets: dict[MessageQueue, int], kind: str, offset: int | None
) -> None:
    assert tracked(offsets) == Track("g", kind, None, offset)
    assert tracked(offsets, address="127.0.0.1:9").offset is None, "the log of another broker"


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        (set(), CONSUMED),
        ({"*"}, CONSUMED),
        ({"a"}, CONSUMED),
        ({"c", "a"}, CONSUMED),
        ({"c"}, CONSUMED_BUT_FILTERED),
    ],
)
def test_one_that_a_group_does_not_want_was_filtered(tags: set[str], kind: str) -> None:
    assert tracked({HERE: 6}, {"T": SubscriptionData(topic="T", tags_set=tags)}).kind == kind
    assert tracked({HERE: 6}, {"U": SubscriptionData(topic="U", tags_set={"c"})}).kind == CONSUMED


def test_of_a_group_that_pulls_or_is_away_nothing_is_known() -> None:
    assert tracked({HERE: 6}, consume_type="CONSUME_ACTIVELY") == Track("g", PULL)
    away = ClientError("no", "Start it", code=int(ResponseCode.CONSUMER_NOT_ONLINE))
    assert tracked({}, failure=away) == Track("g", NOT_ONLINE, "CODE:206 DESC:no")
    other = ClientError("no", "Look", code=1, remark="broken")
    assert tracked({}, failure=other) == Track("g", UNKNOWN, "CODE:1 DESC:broken")
    with pytest.raises(ClientError, match="no answer"):
        tracked({}, failure=ClientError("no answer", "Look"))
