"""The consumer of users, and a cluster without sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.client.clusters import NAME_SERVER, messages
from tests.client.group_cluster import RETRY, GroupCluster, two_queues
from tests.fakes.records import STORE_MS, record
from wakelog.client.arrow import to_table
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_arguments import Sql
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.network.tls import Tls
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.java import string_hash
from wakelog.protocol.properties import decode_properties

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
NO_WAIT = 0.01


def consumer_of(cluster: GroupCluster, **settings: Any) -> Consumer:
    given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **settings}
    return Consumer(NAME_SERVER, connect=cluster.join, **given)


def run(
    cluster: GroupCluster, body: Callable[[Consumer], Awaitable[None]], **settings: Any
) -> None:
    async def main() -> None:
        async with consumer_of(cluster, **settings) as consumer:
            await body(consumer)

    asyncio.run(main())


async def get(consumer: Consumer, count: int) -> list[ConsumerMessage]:
    """Return exactly so many messages, and no more are there."""
    found: list[ConsumerMessage] = []
    while len(found) < count:
        more = await consumer.fetch(count - len(found), 5.0)
        assert more, f"{len(found)} of {count} came"
        found += more
    return found


def bodies(found: list[ConsumerMessage]) -> list[bytes]:
    return sorted(message.body for message in found)


def test_every_message_comes_once_and_its_offset_is_committed_at_the_end() -> None:
    cluster = two_queues()

    async def body(consumer: Consumer) -> None:
        found = []
        async for message in consumer:
            found.append(message)
            await message.ack()
            if len(found) == 8:
                break
        assert bodies(found) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]
        assert consumer.assignment == [Q0, Q1]
        assert await consumer.fetch(1, NO_WAIT) == []
        cluster.add(("a", "T", 0), messages(1, first=4))
        assert bodies(await get(consumer, 1)) == [b"4"]

    run(cluster, body)
    assert cluster.committed["g", "a", "T", 0] == 4  # the fifth was not acknowledged
    assert cluster.committed["g", "a", "T", 1] == 4
    assert cluster.members == []


def test_a_group_goes_on_at_the_first_message_without_ack() -> None:
    cluster = two_queues()

    async def first(consumer: Consumer) -> None:
        for message in await get(consumer, 8):
            if message.queue_offset != 1:
                await message.ack()

    async def second(consumer: Consumer) -> None:
        assert bodies(await get(consumer, 6)) == [b"1", b"1", b"2", b"2", b"3", b"3"]

    run(cluster, first)
    run(cluster, second)


def test_only_the_tags_subscribed_to_arrive_even_with_one_hash() -> None:
    assert string_hash("Aa") == string_hash("BB")
    records = [
        record(1000 * n, b"TAGS\x01" + tag, queue_offset=n, body=tag)
        for n, tag in enumerate([b"Aa", b"BB", b"C", b"Aa"])
    ]
    cluster = GroupCluster({("a", "T", 0): records, RETRY: []})
    # A broker compares hashes alone.
    cluster.subscriptions = {}

    async def body(consumer: Consumer) -> None:
        assert bodies(await get(consumer, 2)) == [b"Aa", b"Aa"]
        assert consumer.position(Q0) == 0

    run(cluster, body, topics={"T": "Aa || D"})


def test_a_message_that_is_given_back_comes_by_the_retry_topic() -> None:
    cluster = two_queues(1)

    async def body(consumer: Consumer) -> None:
        first, second = await get(consumer, 2)
        await first.nack()
        await second.nack(timedelta(seconds=7))
        again = await get(consumer, 2)
        assert [(each.topic, each.reconsume_times) for each in again] == [("T", 1), ("T", 1)]
        await consumer.ack(*again)

    run(cluster, body)
    levels = [command.ext_fields["delayLevel"] for command in cluster.sent_back]
    assert levels == ["0", "3"]  # 4.9.3's steps, and 10 s
    assert cluster.committed["g", "a", "T", 0] == 1
    assert cluster.committed["g", *RETRY] == 2


def test_a_message_without_retries_left_is_a_dead_letter() -> None:
    cluster = two_queues(1)

    async def body(consumer: Consumer) -> None:
        for message in await get(consumer, 2):
            await message.nack()
        for message in await get(consumer, 2):
            assert message.reconsume_times == 1
            await message.nack()
        assert await consumer.fetch(1, NO_WAIT) == []

    run(cluster, body, max_retries=1)
    assert len(cluster.queues["a", "%DLQ%g", 0]) == 2


def test_a_message_that_no_broker_takes_back_is_given_again_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wakelog.client.consumer.SENT_BACK_AGAIN", timedelta(milliseconds=1))
    cluster = two_queues(1)

    async def body(consumer: Consumer) -> None:
        first, _ = await get(consumer, 2)
        cluster.refuse("a:10911")
        await first.nack()
        [again] = await get(consumer, 1)
        assert (again.queue, again.reconsume_times) == (first.queue, 1)

    run(cluster, body)
    assert cluster.committed == {}


def test_what_is_not_acknowledged_in_time_goes_to_the_retry_topic() -> None:
    cluster, now = two_queues(1), [STORE_MS]

    async def body(consumer: Consumer) -> None:
        late, _ = await get(consumer, 2)
        now[0] += 59_999
        await consumer.time_out()
        assert not cluster.sent_back
        now[0] += 2
        await consumer.time_out()
        assert [command.ext_fields["delayLevel"] for command in cluster.sent_back] == ["3", "3"]
        await late.ack()  # it does nothing now

    run(cluster, body, consume_timeout=timedelta(minutes=1), now_ms=lambda: now[0])


def test_an_ordered_queue_waits_for_each_message() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(3), RETRY: []})

    async def body(consumer: Consumer) -> None:
        assert cluster.locks[Q0] == "client-0"
        [first] = await consumer.fetch(10)
        assert await consumer.fetch(10, NO_WAIT) == []
        await first.nack(timedelta(milliseconds=1))
        [again] = await get(consumer, 1)
        assert (again.body, again.reconsume_times) == (b"0", 1)
        await again.ack()
        for expected in (b"1", b"2"):
            [message] = await get(consumer, 1)
            assert message.body == expected
            await message.ack()

    run(cluster, body, ordered=True)
    assert cluster.locks == {}
    assert cluster.committed["g", "a", "T", 0] == 3


def test_an_ordered_message_without_retries_left_makes_room() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(2), RETRY: []})

    async def body(consumer: Consumer) -> None:
        [first] = await get(consumer, 1)
        await first.nack()
        [second] = await get(consumer, 1)
        assert second.body == b"1"

    run(cluster, body, ordered=True, max_retries=0)
    assert len(cluster.queues["a", "%DLQ%g", 0]) == 1


@pytest.mark.parametrize("kind", ["plain", "ordered", "broadcast"])
def test_a_rejected_message_is_a_dead_letter_at_once(kind: str, tmp_path: Path) -> None:
    cluster = GroupCluster({("a", "T", 0): messages(1), RETRY: []})

    async def body(consumer: Consumer) -> None:
        [message] = await get(consumer, 1)
        await message.reject()
        await consumer.reject(message)  # it does nothing now
        assert consumer.position(Q0) == 1

    settings = {"offset_folder": tmp_path} if kind == "broadcast" else {}
    run(cluster, body, **{} if kind == "plain" else {kind: True}, **settings)
    levels = [command.ext_fields["delayLevel"] for command in cluster.sent_back]
    assert levels == ([] if kind == "broadcast" else ["-1"])  # a broadcast drops it


def test_a_queue_that_another_client_has_locked_is_left_to_it() -> None:
    cluster = two_queues(1)
    cluster.locks[Q0] = "another"

    async def body(consumer: Consumer) -> None:
        assert consumer.assignment == [Q1]

    run(cluster, body, ordered=True)
    assert cluster.locks == {Q0: "another"}


def test_a_broadcast_keeps_its_offsets_in_a_file(tmp_path: Path) -> None:
    cluster = two_queues(2)
    settings: dict[str, Any] = {"broadcast": True, "offset_folder": tmp_path}

    async def first(consumer: Consumer) -> None:
        for message in await get(consumer, 4):
            if (message.queue, message.queue_offset) != (Q1, 1):
                await message.ack()

    async def second(consumer: Consumer) -> None:
        [left] = await get(consumer, 1)
        assert (left.queue, left.queue_offset) == (Q1, 1)
        await left.nack(timedelta(milliseconds=1))
        [again] = await get(consumer, 1)
        await again.nack()
        assert consumer.position(Q1) == 2  # dropped: there is no retry topic

    run(cluster, first, **settings)
    settings["offset_folder"] = str(tmp_path)
    run(cluster, second, max_retries=1, **settings)
    assert cluster.committed == {}
    assert [path.name for path in tmp_path.rglob("*.json")] == ["offsets.json"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("first", 7),
        ("last", 11),
        (datetime.fromtimestamp(STORE_MS / 1000 + 9, UTC), 9),
    ],
)
def test_a_new_group_begins_where_it_says(start: str | datetime, expected: int) -> None:
    queue = "a", "T", 0
    cluster = GroupCluster({queue: messages(4, first=7), RETRY: []})
    cluster.first[queue] = 7  # the older ones have expired

    async def body(consumer: Consumer) -> None:
        assert consumer.position(Q0) == expected

    run(cluster, body, start=start)
    assert cluster.committed["g", *queue] == expected


def test_a_seek_gives_messages_again() -> None:
    cluster = two_queues()

    async def body(consumer: Consumer) -> None:
        old = await get(consumer, 8)
        await consumer.ack(*old)
        await consumer.seek(Q0, 2)
        found = await get(consumer, 2)
        assert [(each.queue, each.body) for each in found] == [(Q0, b"2"), (Q0, b"3")]
        await consumer.ack(*old)  # which is about what was forgotten
        assert consumer.position(Q0) == 2
        await consumer.seek(Q0, found[1].stored_at)
        assert consumer.position(Q0) == 3
        await consumer.seek(Q0, "last")
        assert consumer.position(Q0) == 4
        with pytest.raises(InvalidArgument, match="is not read here"):
            await consumer.seek(MessageQueue("T", "a", 9), 0)

    run(cluster, body)


def one_moment(count: int) -> list[bytes]:
    """Return records that were all stored in one millisecond, as a batch is."""
    return [record(1000 * n, queue_offset=n, body=b"%d" % n) for n in range(count)]


def test_a_seek_to_a_time_skips_no_message_of_that_time_and_gives_none_before() -> None:
    moment = datetime.fromtimestamp(STORE_MS / 1000, UTC)

    async def body(consumer: Consumer) -> None:
        await consumer.seek(Q0, moment)
        assert consumer.position(Q0) == 0
        for later in (timedelta(milliseconds=1), timedelta(days=400)):
            await consumer.seek(Q0, moment + later)
            assert consumer.position(Q0) == 100

    run(GroupCluster({("a", "T", 0): one_moment(100), RETRY: []}), body)


def test_paused_queues_give_nothing_until_they_are_resumed() -> None:
    cluster = two_queues(2)

    async def body(consumer: Consumer) -> None:
        consumer.pause(Q0)
        assert {each.queue for each in await get(consumer, 2)} == {Q1}
        assert await consumer.fetch(1, NO_WAIT) == []
        consumer.resume()
        assert {each.queue for each in await get(consumer, 2)} == {Q0}

    run(cluster, body)


def test_a_wait_may_be_a_timedelta() -> None:
    async def body(consumer: Consumer) -> None:
        assert len(await consumer.fetch(4, timedelta(seconds=5))) > 0
        assert (await consumer.fetch_arrow(100, timedelta(milliseconds=10))).num_rows <= 8

    run(two_queues(), body)


def test_lag_is_what_was_not_acknowledged() -> None:
    cluster = two_queues()

    async def body(consumer: Consumer) -> None:
        for message in await get(consumer, 8):
            if message.queue == Q0:
                await message.ack()
        assert await consumer.lag() == {Q0: 0, Q1: 4}

    run(cluster, body)


def test_a_queue_that_is_not_there_cannot_be_assigned() -> None:
    async def body(consumer: Consumer) -> None:
        await consumer.assign([Q1])
        with pytest.raises(InvalidArgument, match="topic T has no queue 7 at broker a that can"):
            await consumer.assign([Q0, MessageQueue("T", Q0.broker_name, 7)])
        with pytest.raises(ClientError, match="no name server knows topic X"):
            await consumer.assign([MessageQueue("X", Q0.broker_name, 0)])
        assert consumer.assignment == [Q1]
        assert {each.queue for each in await get(consumer, 4)} == {Q1}

    run(two_queues(), body, topics=())


def test_queues_can_be_assigned_without_a_group() -> None:
    cluster = two_queues()

    async def body(consumer: Consumer) -> None:
        assert await consumer.queues("T") == [Q0, Q1]
        await consumer.assign([Q1])
        assert {each.queue for each in await get(consumer, 4)} == {Q1}
        await consumer.assign([Q0])
        assert {each.queue for each in await get(consumer, 4)} == {Q0}
        assert cluster.pulls[0]["subscription"] == "*"

    run(cluster, body, topics=())
    assert RequestCode.HEART_BEAT not in {code for _, code in cluster.asked}


def test_a_slow_user_is_not_sent_more_than_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakelog.client.process_queue.MESSAGES_MAX", 40)
    cluster = GroupCluster({("a", "T", 0): messages(200), RETRY: []})

    async def body(consumer: Consumer) -> None:
        found = await get(consumer, 64)  # the pull that passes the limit is the last
        assert await consumer.fetch(1, NO_WAIT) == []
        await consumer.ack(*found[:30])
        assert len(await get(consumer, 32)) == 32

    run(cluster, body)


def test_an_unknown_topic_and_a_refused_filter_are_errors_at_the_start() -> None:
    async def body(consumer: Consumer) -> None:
        raise AssertionError

    with pytest.raises(ClientError, match="no name server knows topic U"):
        run(two_queues(), body, topics=["U"], start_timeout=timedelta(milliseconds=20))

    cluster = two_queues()

    def refuse(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.CHECK_CLIENT_CONFIG:
            return answer(command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "Encountered EOF")
        return None

    cluster.fail = refuse
    with pytest.raises(ClientError, match="Encountered EOF"):
        run(cluster, body, topics={"T": Sql("a >")})


def test_a_missing_right_is_an_error_of_the_start() -> None:
    cluster = two_queues()

    def refuse(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return answer(command, ResponseCode.SYSTEM_ERROR, "AclException: No accessKey")
        return None

    cluster.fail = refuse

    async def body(consumer: Consumer) -> None:
        raise AssertionError

    with pytest.raises(ClientError, match="AclException"):
        run(cluster, body)


def test_a_heartbeat_that_access_control_refuses_is_an_error_of_the_start() -> None:
    cluster = two_queues()

    def refuse(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.HEART_BEAT:
            return answer(command, ResponseCode.SYSTEM_ERROR, "AclException: No permission for T")
        if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:  # as 4.9.3 then has it
            return answer(command, ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")
        return None

    cluster.fail = refuse

    async def body(consumer: Consumer) -> None:
        raise AssertionError

    with pytest.raises(ClientError, match=r"a heartbeat with .* No permission for T\. Check the"):
        run(cluster, body)


def test_a_right_that_is_taken_away_is_an_error_of_fetch() -> None:
    cluster = two_queues(1)

    def refuse(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.PULL_MESSAGE:
            return answer(command, ResponseCode.NO_PERMISSION, "the topic is not readable")
        return None

    async def body(consumer: Consumer) -> None:
        await get(consumer, 2)
        cluster.fail = refuse
        cluster.change()
        with pytest.raises(ClientError, match="not readable"):
            await consumer.fetch(1, 5.0)

    run(cluster, body)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"allocation": "BEST"}, "allocation is 'BEST', .*AVG_BY_CIRCLE"),
        ({"start": "middle"}, "start is 'middle', "),
        ({"topics": {"T": "||"}}, "is no filter"),
        ({"topics": {"T": Sql("")}}, "is no filter"),
        ({"group": "a b"}, "is no name of a group"),
    ],
)
def test_bad_arguments_say_what_is_accepted(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        consumer_of(two_queues(), **settings)


def test_a_reply_goes_to_the_client_that_asked() -> None:
    text = "CLUSTER\1c\2CORRELATION_ID\x0142\2REPLY_TO_CLIENT\1me\2TTL\x013000"
    request = record(0, text.encode(), body=b"?")
    cluster = GroupCluster({("a", "T", 0): [request, *messages(1, first=1)], RETRY: []})
    cluster.routes["c_REPLY_TOPIC"] = {"a": 1}

    async def body(consumer: Consumer) -> None:
        asked, plain = await get(consumer, 2)
        await asked.reply(b"!")
        with pytest.raises(ClientError, match="is no request"):
            await plain.reply(b"!")

    run(cluster, body)
    [sent] = cluster.sent
    assert (sent.ext_fields["b"], sent.body) == ("c_REPLY_TOPIC", b"!")
    properties = decode_properties(sent.ext_fields["i"])
    assert (properties["CORRELATION_ID"], properties["REPLY_TO_CLIENT"]) == ("42", "me")


def test_a_namespace_is_before_every_name_and_no_user_sees_it() -> None:
    cluster = GroupCluster({("a", "n%T", 0): messages(1, topic="n%T"), ("a", "%RETRY%n%g", 0): []})

    async def body(consumer: Consumer) -> None:
        [message] = await get(consumer, 1)
        assert (message.topic, message.queue.topic) == ("T", "n%T")
        await message.nack()
        [again] = await get(consumer, 1)
        assert (again.topic, again.reconsume_times) == ("T", 1)

    run(cluster, body, namespace="n")


def test_a_consumer_that_was_closed_says_so_whatever_it_is_asked_for() -> None:
    async def main() -> None:
        async with consumer_of(two_queues()) as consumer:
            with pytest.raises(ClientError, match=r"open already\. Start it once"):
                await consumer.start()
            [message, *rest] = await get(consumer, 8)  # and goes on
            assert len(rest) == 7
        asks: list[Callable[[], Awaitable[object]]] = [
            consumer.fetch,
            consumer.fetch_arrow,
            consumer.commit,
            consumer.lag,
            message.ack,
            message.nack,
            lambda: consumer.ack_arrow(to_table([])),
            lambda: consumer.queues("T"),
            lambda: consumer.assign([Q0]),
            lambda: consumer.seek(Q0, 0),
        ]
        for ask in asks:
            with pytest.raises(ClientError, match="this consumer is not open"):
                await ask()
        for call in (consumer.pause, consumer.resume, lambda: consumer.position(Q0)):
            with pytest.raises(ClientError, match="this consumer is not open"):
                call()
        with pytest.raises(ClientError, match=r"was closed\. Make a new one"):
            await consumer.start()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_retries": -5}, "max_retries is -5, .*Give a whole number of 0 or more"),
        ({"max_retries": "3"}, "max_retries is '3', "),
        ({"consume_timeout": timedelta()}, "consume_timeout is .*Give a time above 0"),
        ({"topics": ""}, "topics has '', which is no name of a topic"),
        ({"topics": None}, "topics is None, "),
        ({"topics": {"T": None}}, "topics is .*Give the name of a topic"),
        ({"ordered": "no"}, "ordered is 'no', .*Give True or False"),
        ({"broadcast": 1}, "broadcast is 1, .*Give True or False"),
        ({"trace": "yes"}, "trace is 'yes', .*Give True or False"),
        ({"ordered": True, "broadcast": True}, "ordered and broadcast are both given"),
        ({"tls": Tls("/nowhere.pem")}, r"tls cannot be used: /nowhere\.pem .*Name readable PEM"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Consumer(NAME_SERVER, **{"group": "g", **settings})


def test_numbers_of_messages_and_offsets_are_checked() -> None:
    async def body(consumer: Consumer) -> None:
        wrong: Any
        for wrong in (-1, 0, "5"):
            with pytest.raises(InvalidArgument, match=f"max is {wrong!r}, "):
                await consumer.fetch(wrong)
        wrong = "T"
        with pytest.raises(InvalidArgument, match=r"queues is 'T', .*consumer\.queues"):
            await consumer.assign(wrong)
        for settle in (consumer.ack, consumer.nack):
            with pytest.raises(InvalidArgument, match=r"is \[\], .* several as `\*messages`"):
                await consumer.ack([])  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match="a message is 'T', "):
                await settle(wrong)
        await consumer.assign(await consumer.queues("T"))
        for wrong in ("1", None, True, float("nan")):
            for fetch in (consumer.fetch, consumer.fetch_arrow):
                with pytest.raises(InvalidArgument, match=f"wait is {wrong!r}, "):
                    await fetch(1, wrong)
        for wrong in (-5, True):
            with pytest.raises(InvalidArgument, match=f"place is {wrong!r}, "):
                await consumer.seek(Q0, wrong)
        for wrong in (1.5, timedelta(hours=1), "middle"):
            with pytest.raises(InvalidArgument, match=r"place is .*\. Give an offset, a time,"):
                await consumer.seek(Q0, wrong)
        await consumer.assign([])
        with pytest.raises(ClientError, match="no topics and no queues"):
            await consumer.fetch()

    run(two_queues(), body, topics=())
