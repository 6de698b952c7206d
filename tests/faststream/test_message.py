"""Messages and commands by themselves: headers, settling, fields of each body, and refusals."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from faststream import Response
from faststream._internal.parser import DefaultCodec
from faststream.exceptions import SetupError
from faststream.message import AckStatus
from faststream.response import PublishType, ensure_response

from tests.client.group_cluster import SETTLER
from tests.fakes.records import record
from wakelog.client import (
    ClientError,
    ConsumerMessage,
    InvalidArgument,
    MessageQueue,
    ReceivedMessage,
)
from wakelog.faststream import RocketMQMessage as Annotation
from wakelog.faststream.fields import client_fields, plain_bad_body, start_of
from wakelog.faststream.message import BatchParser, MessageParser, RocketMQMessage, headers_of
from wakelog.faststream.producer import RocketMQProducer
from wakelog.faststream.response import RocketMQPublishCommand, RocketMQResponse
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED


class Settled(ConsumerMessage):
    """A message that keeps what was done with it."""

    def __init__(self, properties: str = "", body: bytes = b"x") -> None:
        stored = record(7, properties.encode(), topic="T", body=body)
        super().__init__(decode_record(stored), MessageQueue("T", "a", 0), SETTLER)
        self.done: list[Any] = []

    async def ack(self) -> None:
        self.done.append("ack")

    async def nack(self, delay: timedelta | None = None) -> None:
        self.done.append(("nack", delay))

    async def reject(self) -> None:
        self.done.append("reject")


def parsed(raw: ReceivedMessage) -> RocketMQMessage:
    return asyncio.run(MessageParser().parse_message(raw))


def test_headers_are_what_the_producer_gave() -> None:
    raw = Settled("KEYS\1k\2TAGS\1t\2UNIQ_KEY\1U\2content-type\1text/plain\2tenant\1a\2DELAY\x013")
    assert headers_of(raw) == {"content-type": "text/plain", "tenant": "a"}
    message = parsed(raw)
    assert (message.message_id, message.content_type, message.body) == ("U", "text/plain", b"x")
    assert Annotation.__metadata__  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("properties", "reply_to"),
    [("", ""), ("reply_to\1R", "R"), ("REPLY_TO_CLIENT\1c", "c"), ("empty-body\1true", "")],
)
def test_a_message_says_where_a_reply_goes(properties: str, reply_to: str) -> None:
    message = parsed(Settled(properties))
    assert message.reply_to == reply_to
    assert message.body == (b"" if "empty" in properties else b"x")
    assert "empty-body" not in message.headers


@pytest.mark.parametrize(
    ("settle", "done", "status"),
    [
        (lambda message: message.ack(), "ack", AckStatus.ACKED),
        (lambda message: message.nack(), ("nack", None), AckStatus.NACKED),
        (lambda message: message.nack(delay=2), ("nack", timedelta(seconds=2)), AckStatus.NACKED),
        (lambda message: message.nack(timedelta(1)), ("nack", timedelta(1)), AckStatus.NACKED),
        (lambda message: message.reject(), "reject", AckStatus.REJECTED),
    ],
)
def test_a_message_is_settled_once_and_a_batch_as_a_whole(
    settle: Any, done: Any, status: AckStatus
) -> None:
    async def settle_all(message: RocketMQMessage) -> None:
        await settle(message)
        for again in (message.ack, message.nack, message.reject):
            await again()
        assert message.committed is status

    single, batch = Settled(), (Settled(), Settled())
    asyncio.run(settle_all(parsed(single)))
    asyncio.run(settle_all(asyncio.run(BatchParser().parse_batch(batch))))
    assert [each.done for each in (single, *batch)] == [[done]] * 3


def test_a_batch_is_decoded_each_by_its_own_type() -> None:
    raws = [Settled("content-type\1text/plain\2n\x011"), Settled("n\x012", body=b"[1]")]
    batch = asyncio.run(BatchParser().parse_batch(raws))
    assert [headers["n"] for headers in batch.batch_headers] == ["1", "2"]
    assert asyncio.run(BatchParser().decode_batch(batch)) == ["x", [1]]


# Commands


def command(*bodies: Any, **fields: Any) -> RocketMQPublishCommand:
    return RocketMQPublishCommand(*bodies, topic="T", _publish_type=PublishType.PUBLISH, **fields)


def test_bodies_of_a_batch_keep_their_fields_when_they_are_replaced() -> None:
    given = command(
        RocketMQResponse("a", key="1"), RocketMQResponse("b", tags="t"), "c", tags="all"
    )
    assert given.batch_bodies == ("a", "b", "c")
    assert [given.fields_of(n) for n in range(3)] == [
        {"tags": "all", "key": "1"}, {"tags": "t"}, {"tags": "all"},
    ]  # fmt: skip
    given.batch_bodies = ("b", "a")
    assert [given.fields_of(n) for n in range(2)] == [{"tags": "t"}, {"tags": "all", "key": "1"}]
    given.batch_bodies = ()
    assert (given.batch_bodies, given.body) == ((), None)
    assert command(None, "a").batch_bodies == (None, "a")


@pytest.mark.parametrize(
    ("returned", "bodies"), [(None, ()), ([], ()), ("ab", ("ab",)), ([0, 1], (0, 1)), ("", ("",))]
)
def test_what_a_function_returns_is_a_batch(returned: Any, bodies: tuple[Any, ...]) -> None:
    made = ensure_response(returned).as_publish_command()
    assert RocketMQPublishCommand.from_cmd(made, batch=True).batch_bodies == bodies


def test_a_response_becomes_a_command_with_its_fields() -> None:
    response = RocketMQResponse("a", headers={"h": 1}, correlation_id="c", delay=5, tags="t")
    made = response.as_publish_command()
    assert (made.body, made.headers, made.correlation_id) == ("a", {"h": 1}, "c")
    assert RocketMQPublishCommand.from_cmd(made) is made
    assert made.fields == {"delay": 5, "tags": "t"}
    plain = RocketMQPublishCommand.from_cmd(Response("a", headers={"h": 2}).as_publish_command())
    assert (plain.body, plain.headers, plain.fields) == ("a", {"h": 2}, {})


def test_properties_are_texts_and_empty_ones_are_left_out() -> None:
    headers = {"n": 5, "none": None, "empty": "", "bytes": b"b"}
    made = command("x", headers=headers, correlation_id="c", reply_to="R")
    assert made.properties(b"x", "text/plain") == {
        "content-type": "text/plain", "correlation_id": "c", "reply_to": "R", "n": "5",
        "bytes": "b",
    }  # fmt: skip
    assert command(None).properties(b"", None) == {"empty-body": "true"}


def test_a_codec_of_batches_encodes_them_at_once() -> None:
    class Upper(DefaultCodec):
        async def encode_batch(self, msgs: Any, serializer: Any = None) -> list[Any]:
            return [(each.upper().encode(), None) for each in msgs]

        async def decode_batch(self, msg: Any) -> list[Any]:
            return [raw.body for raw in msg.raw_message]

    producer = RocketMQProducer(None, None)
    producer.codec = Upper()
    made = asyncio.run(producer.encode(command("a", "b", key="k"), ["a", "b"]))
    assert [(body, fields["keys"]) for body, fields in made] == [(b"A", "k"), (b"B", "k")]
    assert not producer


# Fields


def test_a_key_is_for_order_and_for_tools_unless_they_are_given() -> None:
    fields = client_fields({"key": b"k", "keys": ["a"], "delay": 1.5}, {"p": "1"})
    assert (fields["keys"], fields["sharding_key"]) == (["a"], "k")
    assert (fields["delay"], fields["properties"]) == (timedelta(seconds=1.5), {"p": "1"})
    assert client_fields({}, {})["keys"] == ""
    with pytest.raises(InvalidArgument, match=r"key=b'\\xff' is no text"):
        client_fields({"key": b"\xff"}, {})


def test_where_a_queue_begins_has_two_names() -> None:
    moment = datetime(2026, 1, 1)
    assert (start_of({}), start_of({"start": moment})) == ("last", moment)
    assert start_of({"auto_offset_reset": "earliest"}) == "first"
    assert start_of({"auto_offset_reset": None, "start": "first"}) == "first"
    assert plain_bad_body("skip") == "skip"
    with pytest.raises(SetupError, match="bad_body='x' is unknown"):
        plain_bad_body("x")


def test_a_reply_that_cannot_be_inflated_says_so() -> None:
    stored = decode_record(record(7, b"", topic="T", body=b"no zlib"))
    damaged = msgspec.structs.replace(stored, sys_flag=MESSAGE_COMPRESSED)
    reply = parsed(ReceivedMessage(damaged))
    reply.set_decoder(MessageParser().decode_message)
    with pytest.raises(ClientError, match="cannot be read"):
        asyncio.run(reply.decode())
    asyncio.run(reply.ack())
