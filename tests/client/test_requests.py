"""Requests with replies, at both ends."""

import asyncio
from datetime import timedelta

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster, instance_of, run_producer
from tests.fakes.records import record
from wakelog.client.errors import ClientError, InvalidArgument, NoReply, NotAcknowledged
from wakelog.client.producer import Producer
from wakelog.client.received import ReceivedMessage
from wakelog.client.requests import WAITING_MAX, PendingRequests, make_reply
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import decode_record

REPLY_FIELDS = {
    "producerGroup": "g", "topic": "c_REPLY_TOPIC", "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1",
    "flag": "0", "bornHost": "h:1", "storeHost": "h:2", "storeTimestamp": "2",
}  # fmt: skip


def one_topic() -> FakeCluster:
    return FakeCluster(routes={"T": {"a": 1}, "c_REPLY_TOPIC": {"a": 1}})


def reply_to(correlation_id: str, body: bytes) -> RemotingCommand:
    """Return what a broker pushes to the client that asked."""
    fields = REPLY_FIELDS | {"properties": f"CORRELATION_ID\1{correlation_id}"}
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    return RemotingCommand(int(code), ext_fields=fields, body=body)


def test_a_request_gets_its_own_reply() -> None:
    cluster = one_topic()

    async def ask(producer: Producer) -> bytes:
        request = asyncio.create_task(producer.request("T", b"question"))
        while not cluster.sent:
            await asyncio.sleep(0)
        properties = decode_properties(cluster.sent[0].ext_fields["i"])
        assert properties["REPLY_TO_CLIENT"] == producer._instance.client_id
        assert properties["TTL"] == "3000"
        for correlation_id in ("another", properties["CORRELATION_ID"]):
            pushed = reply_to(correlation_id, b"answer to " + correlation_id.encode())
            answered = await producer._instance.answer("a:10911", pushed)
            assert answered is not None and answered.code == ResponseCode.SUCCESS
        reply = await request
        assert reply.body == b"answer to " + properties["CORRELATION_ID"].encode()
        return reply.body

    assert run_producer(cluster, ask)


def test_a_request_without_a_reply_ends_with_its_time() -> None:
    timeout = timedelta(milliseconds=1)
    with pytest.raises(NoReply, match="within 1 ms"):
        run_producer(one_topic(), lambda producer: producer.request("T", b"x", timeout=timeout))


def test_a_request_that_waits_ends_when_its_producer_closes() -> None:
    async def main() -> None:
        cluster = one_topic()
        async with Producer(NAME_SERVER, group="g", connect=instance_of(cluster)) as producer:
            asks = [asyncio.create_task(producer.request("T", b"%d" % n)) for n in range(2)]
            while len(cluster.stored) < 2:
                await asyncio.sleep(0)
        for ask in asks:
            async with asyncio.timeout(1.0):  # a third of the time of a request
                with pytest.raises(NotAcknowledged, match="the client was closed while"):
                    await ask

    asyncio.run(main())


def test_a_request_that_was_not_sent_when_its_producer_closes_leaves_no_warning() -> None:
    async def main() -> None:
        pending = PendingRequests("client")
        unsent = pending.begin(1000)
        pending.close()
        pending.end(unsent)  # its send has failed, and nobody waits for a reply

    asyncio.run(main())


def test_too_many_requests_are_refused() -> None:
    async def fill() -> None:
        pending = PendingRequests("client")
        for _ in range(WAITING_MAX):
            last = pending.begin(1000)
        with pytest.raises(ClientError, match="wait for a reply"):
            pending.begin(1000)
        pending.end(last)
        pending.begin(1000)

    asyncio.run(fill())


def test_a_reply_goes_to_the_cluster_and_client_of_its_request() -> None:
    cluster = one_topic()
    properties = b"CLUSTER\1c\2CORRELATION_ID\1id\2REPLY_TO_CLIENT\1who\2TTL\x01100"
    request = ReceivedMessage(decode_record(record(1, properties)))
    more = {"content-type": "text/plain"}
    run_producer(cluster, lambda producer: producer.reply(request, b"answer", more))
    [command] = cluster.sent
    assert (command.code, command.ext_fields["b"]) == (325, "c_REPLY_TOPIC")
    found = decode_properties(command.ext_fields["i"])
    del found["UNIQ_KEY"]
    assert found == {
        "MSG_TYPE": "reply", "CORRELATION_ID": "id", "REPLY_TO_CLIENT": "who", "TTL": "100",
        "WAIT": "true", **more,
    }  # fmt: skip


def test_only_a_request_can_be_replied_to() -> None:
    message = ReceivedMessage(decode_record(record(1, b"CLUSTER\1c")))
    with pytest.raises(InvalidArgument, match="is no request"):
        run_producer(one_topic(), lambda producer: producer.reply(message, b"answer"))


@pytest.mark.parametrize("reconsumed", [None, "2"])
def test_a_reply_is_a_message_with_what_the_broker_pushed(reconsumed: str | None) -> None:
    async def main() -> ReceivedMessage:
        pending = PendingRequests("client")
        properties = pending.begin(1_000)
        pushed = reply_to(properties["CORRELATION_ID"], b"answer")
        if reconsumed is not None:
            pushed.ext_fields["reconsumeTimes"] = reconsumed
        await pending.accept_reply("a:1", pushed)
        again = reply_to(properties["CORRELATION_ID"], b"another")
        await pending.accept_reply("a:1", again)
        reply = await pending.wait(properties)
        pending.end(properties)
        pending.end(properties)
        return reply

    reply = asyncio.run(main())
    record = reply.record
    assert (reply.body, record.topic, record.queue_id) == (b"answer", "c_REPLY_TOPIC", 0)
    assert (record.born_timestamp_ms, record.store_timestamp_ms) == (1, 2)
    assert record.reconsume_times == int(reconsumed or 0)
    assert record.properties_text.startswith("CORRELATION_ID")


@pytest.mark.parametrize("missing", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_a_request_has_all_that_a_reply_needs(missing: str) -> None:
    fields = {"CLUSTER": "c", "CORRELATION_ID": "id", "REPLY_TO_CLIENT": "who"}
    del fields[missing]
    text = "\2".join(f"{name}\1{value}" for name, value in fields.items())
    message = ReceivedMessage(decode_record(record(1, text.encode())))
    with pytest.raises(InvalidArgument, match="is no request"):
        make_reply(message, b"answer", "K")


def test_a_request_without_a_time_has_a_reply_without_one() -> None:
    text = b"CLUSTER\1c\2CORRELATION_ID\1id\2REPLY_TO_CLIENT\1who"
    made = make_reply(ReceivedMessage(decode_record(record(1, text))), b"answer", "K")
    assert made.is_reply and made.is_alone and "TTL" not in made.properties
