"""The producer of users, and a cluster without sockets."""

import asyncio
import random
import zlib
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from tests.client.clusters import (
    MESSAGE_ID,
    NAME_SERVER,
    SENDS,
    FakeCluster,
    instance_of,
    run_producer,
)
from tests.fakes.records import record
from wakelog.client.errors import ClientError, InvalidArgument, NotAcknowledged
from wakelog.client.messages import Message
from wakelog.client.producer import Producer
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.batch import decode_batch_body
from wakelog.protocol.bodies import HeartbeatData
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


def one_topic() -> FakeCluster:
    return FakeCluster(routes={"T": {"a": 4}})


def properties_of(command: RemotingCommand) -> dict[str, str]:
    return decode_properties(command.ext_fields["i"])


def test_a_message_has_its_tags_keys_and_properties_and_an_id() -> None:
    cluster = one_topic()
    receipt = run_producer(
        cluster,
        lambda producer: producer.send(
            "T", "body", tags="paid", keys=["1", "2"], properties={"a": "b"}, flag=7
        ),
    )
    [command] = cluster.sent
    assert (command.body, command.ext_fields["h"]) == (b"body", "7")
    assert properties_of(command) == {
        "TAGS": "paid", "KEYS": "1 2", "a": "b", "WAIT": "true", "UNIQ_KEY": receipt.message_id,
    }  # fmt: skip
    assert (receipt.broker, receipt.offset_message_id) == ("a", MESSAGE_ID)
    assert receipt.queue_id in range(4)


def test_brokers_hear_of_the_group_before_the_first_message() -> None:
    cluster = one_topic()

    async def send_twice(producer: Producer) -> None:
        await producer.send("T", b"1")
        await producer.send("T", b"2")

    run_producer(cluster, send_twice)
    codes = [code for _, code in cluster.asked if code != RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert codes == [
        RequestCode.HEART_BEAT, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE_V2,
        RequestCode.UNREGISTER_CLIENT,
    ]  # fmt: skip
    heartbeat = decode_body(HeartbeatData, cluster.clients[0][1].body)
    assert [each.group_name for each in heartbeat.producer_data_set] == ["g"]


def test_messages_that_wait_for_the_first_answer_keep_their_order() -> None:
    cluster = one_topic()

    async def send_at_once(producer: Producer) -> None:
        bodies = [b"%d" % n for n in range(50)]
        await asyncio.gather(*[producer.send("T", body, sharding_key="k") for body in bodies])

    run_producer(cluster, send_at_once)
    assert [body for _, _, body in cluster.stored] == [b"%d" % n for n in range(50)]
    assert [code for _, code in cluster.asked].count(RequestCode.HEART_BEAT) == 1


def test_a_thread_with_a_loop_of_its_own_is_refused_from_the_first_message_on() -> None:
    async def send_from_a_thread(producer: Producer) -> None:
        await asyncio.to_thread(asyncio.run, producer.send("T", b"1"))

    with pytest.raises(ClientError, match=r"another event loop uses this producer\. Make one for"):
        run_producer(one_topic(), send_from_a_thread)


def test_a_large_body_is_compressed_as_java_does() -> None:
    cluster = one_topic()
    run_producer(cluster, lambda producer: producer.send("T", b"x" * 4097))
    [command] = cluster.sent
    assert int(command.ext_fields["f"]) == MESSAGE_COMPRESSED
    assert zlib.decompress(command.body) == b"x" * 4097


def test_a_body_that_compression_makes_larger_is_sent_as_it_is() -> None:
    cluster, body = one_topic(), random.Random(1).randbytes(4 << 20)
    run_producer(cluster, lambda producer: producer.send("T", body))
    [command] = cluster.sent
    assert (command.ext_fields["f"], command.body) == ("0", body)


@pytest.mark.parametrize(
    ("delay", "level"),
    [(timedelta(milliseconds=1), "1"), (timedelta(seconds=5), "2"), (timedelta(seconds=6), "3")],
)
def test_a_delay_gets_the_level_of_the_brokers_table(delay: timedelta, level: str) -> None:
    cluster = one_topic()
    run_producer(cluster, lambda producer: producer.send("T", b"x", delay=delay))
    assert properties_of(cluster.sent[0])["DELAY"] == level


def test_a_delay_that_no_level_reaches_is_refused() -> None:
    delay = timedelta(seconds=11)
    with pytest.raises(InvalidArgument, match="is over 0:00:10, the longest of a"):
        run_producer(one_topic(), lambda producer: producer.send("T", b"x", delay=delay))


def test_a_broker_that_hides_its_table_has_the_default_one() -> None:
    cluster = one_topic()

    def refuse(_: str, command: RemotingCommand) -> RemotingCommand | None:
        is_config = command.code == RequestCode.GET_BROKER_CONFIG
        return answer(command, ResponseCode.NO_PERMISSION) if is_config else None

    cluster.fail = refuse
    run_producer(cluster, lambda producer: producer.send("T", b"x", delay=timedelta(hours=2)))
    assert properties_of(cluster.sent[0])["DELAY"] == "18"


def test_many_messages_travel_in_batches_and_have_a_receipt_each() -> None:
    cluster = one_topic()
    receipts = run_producer(
        cluster, lambda producer: producer.send_many(Message("T", str(n)) for n in range(9))
    )
    [command] = cluster.sent
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    keys = [
        decode_properties(block.decode()) for _, _, block in decode_batch_body(command.body, 10_000)
    ]
    assert [key["UNIQ_KEY"] for key in keys] == [receipt.message_id for receipt in receipts]
    assert [receipt.queue_offset for receipt in receipts] == list(range(9))


def test_an_error_of_many_says_which_were_stored() -> None:
    cluster = FakeCluster(routes={"T": {"a": 2}})

    def refuse(_: str, command: RemotingCommand) -> RemotingCommand | None:
        is_second = command.ext_fields.get("e") == "1"
        return answer(command, ResponseCode.SYSTEM_BUSY, "busy") if is_second else None

    cluster.fail = refuse
    messages = [Message("T", b"1", queue=("a", 0)), Message("T", b"2", queue=("a", 1))]
    with pytest.raises(NotAcknowledged, match="1 of 2 messages were not acknowledged") as caught:
        run_producer(cluster, lambda producer: producer.send_many(messages))
    first, second = caught.value.receipts
    assert first is not None and second is None


def test_a_namespace_is_before_topic_and_group() -> None:
    cluster = FakeCluster(routes={"ns%T": {"a": 1}})
    run_producer(cluster, lambda producer: producer.send("T", b"x"), namespace="ns")
    fields = cluster.sent[0].ext_fields
    assert (fields["b"], fields["a"]) == ("ns%T", "ns%g")
    assert properties_of(cluster.sent[0])["INSTANCE_ID"] == "ns"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("no topic", b"x"), "is no name of a topic"),
        (Message("TBW102", b"x"), "the broker's own"),
        (Message("T", b""), "its body is null or empty"),
        (Message("T", {"a": 1}), "body is of type dict"),  # type: ignore[arg-type]
        (Message("T", b"x" * ((4 << 20) + 1)), "its body is 4194305 bytes, over 4194304"),
        (Message("T", b"x", properties={"UNIQ_KEY": "k"}), "RocketMQ itself sets"),
        (Message("T", b"x", properties={"TAGS": "k"}), "no property of a user"),
        (Message("T", b"x", properties={"a": "\1"}), "cannot be told apart"),
        (Message("T", b"x", tags="a\2b"), "cannot be told apart"),
        (Message("T", b"x", properties={"": "b"}), "a property has no name"),
        (Message("T", b"x", properties={"a": ""}), "property a has no text"),
        (Message("T", "\ud800"), "a character that UTF-8 has not, at 0"),
        (Message("T", b"x", properties={"a": "\ud800"}), "has a character that UTF-8 has not"),
        (Message("T", b"x", tags="\ud800"), "has a character that UTF-8 has not"),
        (Message("T", b"x", delay_level=-1), "delay_level is -1, which is not"),
        (Message("T", b"x", delay_level=True), "delay_level is True, which is not"),
        (Message("T", b"x", properties={"a": "b" * 32_768}), "over 32767 bytes"),
        (Message("T", b"x", delay=timedelta(1), delay_level=1), "both given"),
    ],
)
def test_a_message_that_no_broker_stores_is_refused_here(message: Message, words: str) -> None:
    cluster = one_topic()
    with pytest.raises(InvalidArgument, match=words):
        run_producer(cluster, lambda producer: producer.send_many([message]))
    assert cluster.stored == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batching": "no"}, "batching is 'no', .*Give True or False"),
        ({"trace": 1}, "trace is 1, .*Give True or False"),
        ({"check": 5}, "check is 5, .*Give a function"),
    ],
)
def test_an_option_of_another_type_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Producer("n:9876", **settings)


def test_one_message_without_an_answer_is_checked_too() -> None:
    text: Any = "text"
    with pytest.raises(InvalidArgument, match="a message is of type str"):
        run_producer(one_topic(), lambda producer: producer.send_oneway(text))


untyped: Any = Message
"""As a program without a type checker makes them."""


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (untyped(None, b"x"), "topic is None, which is not"),
        (untyped(["T"], b"x"), "topic is \\[.*, which is not"),
        (untyped("T", b"x", tags=["a"]), "tags is \\[.*, which is not"),
        (untyped("T", b"x", tags=5), "tags is 5, which is not"),
        (untyped("T", b"x", tags=5, keys="k"), "tags is 5, which is not"),
        (untyped("T", b"x", properties={"a": 1}), "property a is 1, which is not"),
        (untyped("T", b"x", keys=4711), "keys is 4711, which is not"),
        (untyped("T", b"x", keys=[4711]), "keys is 4711, which is not"),
        (untyped("T", b"x", properties=[("a", "b")]), "properties is \\[.*, which is not"),
        (untyped("T", b"x", sharding_key=7), "sharding_key is 7, which is not"),
        (untyped("T", b"x", delay_level="1"), "delay_level is '1', which is not"),
        (untyped("T", b"x", flag="1"), "flag is '1'"),
        (untyped("T", b"x", flag=1 << 31), "flag is 2147483648"),
        (untyped("T", b"x", queue="a"), "queue is 'a', which is not"),
        (untyped("T", b"x", queue=(0, "a")), "which is not accepted"),
        ("text", "a message is of type str"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_field_of_another_type_is_named(message: Any, words: str, is_known: bool) -> None:
    cluster = one_topic()

    async def use(producer: Producer) -> None:
        if is_known:
            await producer.send("T", b"first")
        with pytest.raises(InvalidArgument, match=words):
            await producer.send_many([message])

    run_producer(cluster, use)
    assert len(cluster.stored) == is_known


def test_a_queue_that_is_not_there_is_no_doubt_about_the_message() -> None:
    with pytest.raises(InvalidArgument, match="has no queue 4 to write to at a"):
        run_producer(one_topic(), lambda producer: producer.send("T", b"x", queue=("a", 4)))


def test_one_of_the_queues_of_a_topic_may_be_named() -> None:
    async def use(producer: Producer) -> int:
        [*_, last] = await producer.queues("T")
        return (await producer.send("T", b"x", queue=last)).queue_id

    assert run_producer(one_topic(), use) == 3


def test_a_producer_sends_only_while_it_is_open() -> None:
    async def main() -> None:
        producer = Producer(NAME_SERVER, connect=instance_of(one_topic()))
        with pytest.raises(ClientError, match="is not open"):
            await producer.send("T", b"x")
        async with producer:
            await producer.send("T", b"x")
        with pytest.raises(ClientError, match="is not open"):
            await producer.send("T", b"x")

    asyncio.run(main())


def test_one_way_messages_are_not_acknowledged() -> None:
    cluster = one_topic()
    run_producer(cluster, lambda producer: producer.send_oneway(Message("T", b"x")))
    assert [body for _, _, body in cluster.stored] == [b"x"]


def test_the_queues_of_a_topic_are_known() -> None:
    found = run_producer(one_topic(), lambda producer: producer.queues("T"))
    assert [(queue.broker, queue.queue_id) for queue in found] == [("a", n) for n in range(4)]


@pytest.mark.parametrize("name", ["messages_max", "bytes_max"])
def test_a_producer_without_room_is_refused(name: str) -> None:
    given: Any = {name: 0}
    with pytest.raises(InvalidArgument, match=f"{name} is 0, .*Give a whole number of 1 or more"):
        Producer(NAME_SERVER, **given)


@pytest.mark.parametrize("illegal", [None, b"5"])
def test_a_list_that_is_too_large_for_a_broker_goes_in_smaller_requests(
    illegal: bytes | None,
) -> None:
    cluster = FakeCluster(routes={"T": {"a": 1}})

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code not in SENDS:
            return None
        is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE
        bodies = [body for _, body, _ in decode_batch_body(command.body, 100)] if is_batch else []
        if len(bodies) > 3 or illegal in (bodies or [command.body]):
            return answer(command, ResponseCode.MESSAGE_ILLEGAL, "too large")
        return None

    cluster.fail = fail

    async def send(producer: Producer) -> list[object]:
        messages = [Message("T", b"%d" % n, queue=("a", 0)) for n in range(8)]
        try:
            return list(await producer.send_many(messages))
        except NotAcknowledged as error:
            return list(error.receipts)

    receipts = run_producer(cluster, send)
    count = 8 if illegal is None else 5  # in order: nothing behind the one at fault is sent
    assert [body for _, _, body in cluster.stored] == [b"%d" % n for n in range(count)]
    assert [receipt is None for receipt in receipts] == [False] * count + [True] * (8 - count)


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    async def body(producer: Producer) -> None:
        wrong: dict[str, Any] = {"tag": "paid"}
        for send in (producer.send, producer.request):
            with pytest.raises(InvalidArgument, match=r"unknown fields tag\. Perhaps tags\. Known"):
                await send("T", b"x", **wrong)
        with pytest.raises(InvalidArgument, match=r"unknown fields tag\. Perhaps tags\. Known"):
            async with producer.transaction("T", b"x", **wrong):
                pass

    run_producer(FakeCluster(routes={"T": {"a": 1}}), body)


@pytest.mark.parametrize(("retries_max", "seconds"), [(0, 2.0), (3, 8.0)])
def test_room_is_waited_for_as_long_as_a_send_may_take(retries_max: int, seconds: float) -> None:
    timeout = timedelta(seconds=2)
    producer = Producer(NAME_SERVER, group="g", timeout=timeout, retries_max=retries_max)
    assert producer._buffer._room_seconds_max == seconds


def test_a_producer_is_started_once() -> None:
    async def main() -> None:
        producer = Producer(NAME_SERVER, connect=instance_of(one_topic()))
        await producer.start()
        with pytest.raises(ClientError, match="is open already"):
            await producer.start()
        await producer.send("T", b"x")  # and goes on
        await producer.close()
        with pytest.raises(ClientError, match="was closed"):
            await producer.start()

    asyncio.run(main())


REPLY_TO = "CLUSTER\1c\2CORRELATION_ID\1k\2REPLY_TO_CLIENT\1a@1\2TTL\0013000\2"
REQUEST = ReceivedMessage(decode_record(record(0, REPLY_TO.encode())))

CALLS: dict[str, Callable[[Producer], Coroutine[Any, Any, object]]] = {
    "send": lambda producer: producer.send("T", b"x"),
    "send_many": lambda producer: producer.send_many([Message("T", b"x")]),
    "send_oneway": lambda producer: producer.send_oneway(Message("T", b"x")),
    "transaction": lambda producer: producer.transaction("T", b"x").__aenter__(),
    "request": lambda producer: producer.request("T", b"x", timeout=timedelta(seconds=1)),
    "reply": lambda producer: producer.reply(REQUEST, b"x"),
    "queues": lambda producer: producer.queues("T"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_whatever_a_producer_is_asked_for_it_is_open_and_of_one_loop(
    call: Callable[[Producer], Coroutine[Any, Any, object]],
) -> None:
    cluster = one_topic()

    async def main() -> None:
        async with Producer(NAME_SERVER, group="g", connect=instance_of(cluster)) as producer:
            with pytest.raises(ClientError, match="another event loop uses this producer"):
                await asyncio.to_thread(asyncio.run, call(producer))
        with pytest.raises(ClientError, match="this producer is not open"):
            await call(producer)

    asyncio.run(main())
    assert cluster.stored == []


def test_closing_a_producer_waits_for_its_messages() -> None:
    class Slow(FakeCluster):
        async def invoke(
            self, address: str, command: RemotingCommand, *, timeout_ms: int
        ) -> RemotingCommand:
            if command.code in SENDS:
                began.set()
                await answered.wait()
            return await super().invoke(address, command, timeout_ms=timeout_ms)

    began, answered = asyncio.Event(), asyncio.Event()

    async def main() -> None:
        producer = Producer(NAME_SERVER, connect=instance_of(Slow(routes={"T": {"a": 4}})))
        await producer.start()
        sending = asyncio.create_task(producer.send("T", b"x"))
        await began.wait()
        closing = asyncio.create_task(producer.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        answered.set()
        await closing
        assert (await sending).broker == "a"

    asyncio.run(main())
