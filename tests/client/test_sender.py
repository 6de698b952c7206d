"""A producer and a cluster without sockets: the queue of each request, and retries."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.client.clusters import NAME_SERVER, READ, Clock, FakeCluster, message
from wakelog.client.errors import InvalidArgument, NotAcknowledged
from wakelog.client.messages import EncodedMessage, SendRequest, pack
from wakelog.client.options import ClientOptions
from wakelog.client.sender import Sender
from wakelog.network.errors import (
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    RemotingError,
    SendFailed,
    TlsFailed,
    TooManyCalls,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def send(
    cluster: FakeCluster,
    *messages: EncodedMessage,
    rows_max: int = 1,
    clock: Clock | None = None,
    **options: object,
) -> None:
    """Send as a task would, without waiting between attempts."""
    given: dict[str, Any] = {"name_servers": (NAME_SERVER,), "retries_max": 2, **options}
    clock = clock or Clock()

    async def run() -> None:
        producer = Sender(
            cluster,
            ClientOptions(**given),
            first_queue=0,
            pause=clock.pause,
            now_seconds=clock.now_seconds,
        )
        await producer.send_all(pack(messages, bytes_max=1 << 20, rows_max=rows_max))

    asyncio.run(run())


def numbered(count: int, **fields: object) -> list[EncodedMessage]:
    return [message(b"%d" % n, **fields) for n in range(count)]


def test_each_topic_has_its_turn_of_queues_whatever_others_send() -> None:
    """Twenty to one topic and five to another, again and again, once went to 2 of 4 queues."""
    cluster = FakeCluster(routes={"T": {"b": 4}, "U": {"b": 4}})
    round_trip = [message(b"t", topic="T")] * 3 + [message(b"u", topic="U")]

    async def run() -> None:
        sender = Sender(cluster, ClientOptions(name_servers=(NAME_SERVER,)))
        for each in round_trip * 100:
            await sender.send(SendRequest((each,)))

    asyncio.run(run())
    counts = Counter((body, queue_id) for _, queue_id, body in cluster.stored)
    assert counts == {(b"t", n): 75 for n in range(4)} | {(b"u", n): 25 for n in range(4)}


def test_messages_for_any_queue_are_spread_over_all_queues_of_all_brokers() -> None:
    cluster = FakeCluster(routes={"T": {"b": 1, "a": 2}})
    send(cluster, *numbered(6))
    places = [(broker, queue_id) for broker, queue_id, _ in cluster.stored]
    assert places == [("a", 0), ("a", 1), ("b", 0)] * 2
    assert [code for _, code in cluster.asked].count(ROUTE) < 6


def test_messages_of_one_queue_keep_their_order() -> None:
    cluster = FakeCluster(routes={"T": {"a": 4, "b": 4}})
    send(cluster, *numbered(50, queue=("b", 3)), *numbered(50, queue=("", 2)), rows_max=3)
    for place in (("b", 3), ("a", 2)):
        found = [body for broker, queue_id, body in cluster.stored if (broker, queue_id) == place]
        assert found == [b"%d" % n for n in range(50)]
    assert len(cluster.stored) == 100


def test_a_new_topic_goes_to_the_brokers_with_the_template_topic() -> None:
    cluster = FakeCluster(routes={"TBW102": {"a": 8}})
    send(cluster, *numbered(8))
    assert {queue_id for _, queue_id, _ in cluster.stored} == {0, 1, 2, 3}


@pytest.mark.parametrize("lost", [True, False])
def test_a_failed_request_is_sent_to_another_broker_with_a_new_route(lost: bool) -> None:
    cluster = FakeCluster(routes={"T": {"a": 4, "b": 1}})  # a retry passes over all queues of a

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if address != "a:10911":
            return None
        if lost:
            raise CallTimeout(address, "no answer within 3000 ms")
        return answer(command, ResponseCode.SYSTEM_BUSY, "busy")

    cluster.fail = fail
    send(cluster, message(), retries_max=1)
    assert cluster.stored == [("b", 0, b"x")]
    assert [code for _, code in cluster.asked].count(ROUTE) == 2


@pytest.mark.parametrize(
    ("code", "attempts", "remedy"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, 3, "The log of that server may say more"),
        (ResponseCode.SLAVE_NOT_AVAILABLE, 3, "The log of that server may say more"),
        (ResponseCode.MESSAGE_ILLEGAL, 1, "The broker's maxMessageSize, 4 MiB by default, limits "),
    ],
)
def test_the_error_has_broker_code_remark_and_remedy(
    code: ResponseCode, attempts: int, remedy: str
) -> None:
    cluster = FakeCluster(routes={"T": {"a": 1}})

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        return None if command.code == ROUTE else answer(command, code, "because")

    cluster.fail = fail
    with pytest.raises(NotAcknowledged) as failed:
        send(cluster, *numbered(2), rows_max=2)
    said = f"no broker acknowledged 2 messages for topic T: a at a:10911 answered {code.value} "
    assert failed.value.cause == f"{said}({code.name}): because"
    assert failed.value.remedy.startswith(remedy)
    assert (failed.value.broker, failed.value.code) == ("a", code)
    assert failed.value.remark == "because"
    assert sum(asked != ROUTE for _, asked in cluster.asked) == attempts


@pytest.mark.parametrize(
    ("cluster", "fields", "words"),
    [
        (FakeCluster(routes={}), {}, r"no broker accepts messages for topic T\. Create the topic"),
        (
            FakeCluster(routes={"T": {"a": 1}}, perm=READ),
            {},
            r"no broker accepts messages for topic T\. Give .* write permission \(.* addWritePerm",
        ),
        (FakeCluster(routes={"T": {"a": 1}}), {"queue": ("", 4)}, "no queue 4 to write to"),
        (FakeCluster(routes={"T": {"a": 1}}), {"queue": ("b", 0)}, "no queue 0 to write to at b"),
    ],
)
def test_the_error_names_a_topic_or_queue_without_write_permission(
    cluster: FakeCluster, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgument if fields else NotAcknowledged, match=words):
        send(cluster, message(**fields))
    assert cluster.stored == []


def test_a_broker_that_restarts_gets_the_message_within_the_retries() -> None:
    """While it restarts, the broker does not answer and the name server does not know it."""
    cluster = FakeCluster(routes={"T": {"a": 1}})
    refusals = iter([True] * 4)

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code != ROUTE and next(refusals, False):
            cluster.routes = {}
            raise ConnectFailed(address, "Connection refused")
        return None

    cluster.fail = fail
    send(cluster, message(), retries_max=10)
    assert cluster.stored == [("a", 0, b"x")]


def test_a_topic_without_a_route_is_tried_again() -> None:
    cluster = FakeCluster(routes={})

    def register_later(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if len(cluster.asked) > 4:
            cluster.routes = {"T": {"a": 1}}
        return None

    cluster.fail = register_later
    send(cluster, message(), retries_max=5)
    assert cluster.stored == [("a", 0, b"x")]


# A switch of masters


def switch(
    cluster: FakeCluster, clock: Clock, seconds: float, how: Callable[[str, RemotingCommand], Any]
) -> None:
    """Let broker a fail in some way for so long, from now on."""
    end = clock.seconds + seconds

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        is_over = clock.seconds >= end or command.code == ROUTE or address != "a:10911"
        return None if is_over else cast(RemotingCommand, how(address, command))

    cluster.fail = fail


def refuse_connection(address: str, command: RemotingCommand) -> None:
    raise ConnectFailed(address, "Connection refused")


def lose_connection(address: str, command: RemotingCommand) -> None:
    raise SendFailed(address, "the connection was lost")


def refuse_as_no_master(address: str, command: RemotingCommand) -> RemotingCommand:
    remark = "service not available now: this replica is not serving yet"
    return answer(command, ResponseCode.SERVICE_NOT_AVAILABLE, remark)


@pytest.mark.parametrize("how", [refuse_connection, lose_connection, refuse_as_no_master])
def test_a_send_waits_out_a_switch(how: Callable[[str, RemotingCommand], Any]) -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()
    switch(cluster, clock, 5.9, how)
    send(cluster, *numbered(3, queue=("a", 0)), clock=clock)
    assert [body for _, _, body in cluster.stored] == [b"0", b"1", b"2"]
    assert max(clock.pauses) == 0.5
    assert 5.9 <= clock.seconds - 1000 <= 6.0


def test_a_switch_is_waited_out_for_as_long_as_unanswered_attempts_could_take() -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()
    switch(cluster, clock, 100, refuse_connection)
    with pytest.raises(NotAcknowledged, match="a at a:10911: Connection refused"):
        send(cluster, message(), clock=clock, timeout_ms=1_000, retries_max=4)
    assert clock.seconds == pytest.approx(1004)  # with an attempt at the very end
    asked = [code for _, code in cluster.asked]
    assert asked.count(ROUTE) == len(clock.pauses) + 1  # a new route for each


@pytest.mark.parametrize("brokers_count", [2, 3])
@pytest.mark.parametrize("how", [refuse_connection, lose_connection, refuse_as_no_master])
def test_another_broker_is_asked_at_once(
    brokers_count: int, how: Callable[[str, RemotingCommand], Any]
) -> None:
    """As by 4.9.3. A pause would be had by each message that begins at a broker that is down."""
    brokers = ("a", "b", "c")[:brokers_count]
    cluster, clock = FakeCluster(routes={"T": dict.fromkeys(brokers, 1)}), Clock()
    switch(cluster, clock, 100, how)
    send(cluster, *numbered(6), clock=clock)
    assert sorted(body for _, _, body in cluster.stored) == [b"%d" % n for n in range(6)]
    assert clock.pauses == []


def test_brokers_that_all_fail_are_each_asked_once_before_a_pause() -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1, "b": 1, "c": 1}}), Clock()
    asked: list[str] = []

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == ROUTE:
            return None
        asked.append(f"{address[0]} after {len(clock.pauses)}")
        return answer(command, ResponseCode.SYSTEM_BUSY, "because")

    cluster.fail = fail
    with pytest.raises(NotAcknowledged):
        send(cluster, message(), clock=clock, retries_max=3)
    assert sorted(asked[:3]) == ["a after 0", "b after 0", "c after 0"]
    assert [one[1:] for one in asked[3:]] == [" after 1"]
    assert asked[3][0] != asked[2][0]
    assert clock.pauses == [0.1]


def test_without_retries_nothing_is_waited_out() -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()
    switch(cluster, clock, 100, refuse_connection)
    with pytest.raises(NotAcknowledged):
        send(cluster, message(), clock=clock, retries_max=0)
    assert clock.pauses == []


@pytest.mark.parametrize(
    ("how", "attempts"),
    [
        (ResponseCode.MESSAGE_ILLEGAL, 1),
        (ResponseCode.TOPIC_NOT_EXIST, 3),
        (ResponseCode.SYSTEM_BUSY, 3),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, 3),
        (TooManyCalls, 3),
        (ClientClosed, 3),
        (TlsFailed, 3),
    ],
)
def test_what_no_switch_explains_is_not_waited_out(
    how: ResponseCode | type[RemotingError], attempts: int
) -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()

    def fail(address: str, command: RemotingCommand) -> RemotingCommand:
        if isinstance(how, ResponseCode):
            return answer(command, how, "because")
        raise how(address) if how is ClientClosed else how(address, "because")

    switch(cluster, clock, 100, fail)
    with pytest.raises(NotAcknowledged):
        send(cluster, message(), clock=clock)
    assert sum(code != ROUTE for _, code in cluster.asked) == attempts
    assert clock.seconds < 1001


@pytest.mark.parametrize("has_replicas", [True, False])
def test_a_full_disk_is_waited_out_where_a_replica_may_lead_that_has_space(
    has_replicas: bool,
) -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()
    if has_replicas:
        cluster.addresses["a"] = {0: "a:10911", 2: "a:20911"}
    remark = "service not available now: the broker's disk is full"
    code = ResponseCode.SERVICE_NOT_AVAILABLE
    switch(cluster, clock, 2, lambda _, command: answer(command, code, remark))
    if has_replicas:
        send(cluster, message(), clock=clock)
    else:
        with pytest.raises(NotAcknowledged, match="disk is full"):
            send(cluster, message(), clock=clock)
        assert clock.seconds < 1001


@pytest.mark.parametrize("fields", [{"queue": ("a", 1)}, {"sharding_key": "order-7"}])
def test_what_belongs_to_a_queue_waits_for_its_broker(fields: dict[str, Any]) -> None:
    """The route has another broker, and of this one only a follower, until that leads."""
    cluster, clock = FakeCluster(routes={"T": {"a": 5, "b": 3}}), Clock()
    cluster.addresses["a"] = {0: "a:10911", 2: "a:20911"}
    send(cluster, message(b"before", **fields), clock=clock)
    [(broker, queue_id, _)] = cluster.stored
    assert broker == "a"

    def fail(address: str, command: RemotingCommand) -> RemotingCommand | None:
        if clock.seconds >= 1002:
            cluster.addresses["a"] = {0: "a:20911", 1: "a:10911"}
        elif address == "a:10911":
            cluster.addresses["a"] = {2: "a:20911"}
            raise ConnectFailed(address, "Connection refused")
        return None

    cluster.fail = fail
    send(cluster, *(message(body, **fields) for body in (b"1", b"2")), clock=clock)
    assert cluster.stored[1:] == [("a", queue_id, b"1"), ("a", queue_id, b"2")]
    assert clock.seconds >= 1002


def test_the_first_send_waits_for_a_master() -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()
    cluster.addresses["a"] = {2: "a:20911"}
    with pytest.raises(NotAcknowledged, match="broker a of topic T has no master now"):
        send(cluster, message(), clock=clock)
    assert clock.seconds == pytest.approx(1006)

    def lead(address: str, command: RemotingCommand) -> None:
        if clock.seconds > 1008:
            cluster.addresses["a"] = {0: "a:20911"}

    cluster.fail = lead
    send(cluster, message(queue=("a", 0)), clock=clock)
    assert cluster.stored == [("a", 0, b"x")]


@pytest.mark.parametrize("is_oneway", [False, True])
def test_a_queue_that_was_just_added_may_be_named(is_oneway: bool) -> None:
    """The route is asked for again, once: a queue that it lacks stays an error."""
    cluster = FakeCluster(routes={"T": {"a": 4}})

    async def run() -> None:
        sender = Sender(cluster, ClientOptions((NAME_SERVER,)))
        send = sender.send_oneway if is_oneway else sender.send
        await send(SendRequest((message(b"first", queue=("a", 3)),)))
        cluster.routes["T"] = {"a": 8}
        await send(SendRequest((message(b"second", queue=("a", 7)),)))
        with pytest.raises(InvalidArgument, match="no queue 8 to write to at a"):
            await send(SendRequest((message(b"third", queue=("a", 8)),)))

    asyncio.run(run())
    assert [queue_id for _, queue_id, _ in cluster.stored] == [3, 7]
    assert [code for _, code in cluster.asked].count(ROUTE) == 3


def test_senders_that_fail_together_ask_for_one_route() -> None:
    cluster, clock = FakeCluster(routes={"T": {"a": 1}}), Clock()

    async def run() -> None:
        sender = Sender(
            cluster,
            ClientOptions((NAME_SERVER,)),
            pause=clock.pause,
            now_seconds=clock.now_seconds,
        )
        await sender.routes.writable("T")
        asked = len(cluster.asked)
        await asyncio.gather(*[sender.routes.writable("T", refresh=True) for _ in range(50)])
        assert len(cluster.asked) == asked + 1

    asyncio.run(run())
