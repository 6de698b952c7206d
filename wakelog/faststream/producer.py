"""The way out: commands become messages, requests or replies of the client's Producer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import BatchCodecProto, CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream._internal.types import AsyncCallable, CustomCallable
from faststream.exceptions import IncorrectState

from wakelog.client import Message, NoReply, Producer, Receipt, ReceivedMessage
from wakelog.client.messages import MessageFields
from wakelog.faststream.fields import client_fields
from wakelog.faststream.message import EMPTY_BODY, MessageParser
from wakelog.faststream.response import RocketMQPublishCommand

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto


class RocketMQProducer(ProducerProto[RocketMQPublishCommand]):
    """See the module. It is true while it is connected."""

    def __init__(self, parser: CustomCallable | None, decoder: CustomCallable | None) -> None:
        """parser, decoder: the user's, for the replies to requests."""
        own = MessageParser()
        self._parser: AsyncCallable = ParserComposition(parser, own.parse_message)
        self._decoder: AsyncCallable = ParserComposition(decoder, own.decode_message)
        self.codec: CodecProto = DefaultCodec()
        self._serializer: SerializerProto | None = None
        self._client: Producer | None = None

    def connect(
        self, client: Producer, serializer: "SerializerProto | None", codec: CodecProto | None
    ) -> None:
        """Send by this client, which is open."""
        self._client, self._serializer = client, serializer
        self.codec = codec or DefaultCodec()

    async def disconnect(self) -> None:
        """Wait for what is under way, and close the client."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def __bool__(self) -> bool:
        """Tell whether it is connected."""
        return self._client is not None

    @property
    def client(self) -> Producer:
        """The client's producer. Raises: IncorrectState if the broker is not connected."""
        if self._client is None:
            raise IncorrectState("The broker is not connected. Call `broker.start()` first.")
        return self._client

    async def publish(self, cmd: RocketMQPublishCommand) -> Receipt | None:
        """Send one message, or a reply. Raises: ClientError; None comes of one-way ones."""
        [(body, fields)] = await self.encode(cmd, [cmd.body])
        if cmd.request is not None:
            await cmd.request.reply(body, properties=fields["properties"])
        elif cmd.oneway:
            await self.client.send_oneway(Message(cmd.destination, body, **fields))
        else:
            return await self.client.send(cmd.destination, body, **fields)
        return None

    async def publish_batch(self, cmd: RocketMQPublishCommand) -> Sequence[Receipt]:
        """Send messages in batches. Raises: NotAcknowledged, whose `receipts` say which came."""
        encoded = await self.encode(cmd, cmd.batch_bodies)
        messages = [Message(cmd.destination, body, **fields) for body, fields in encoded]
        if not cmd.oneway:
            return await self.client.send_many(messages)
        for message in messages:
            await self.client.send_oneway(message)
        return ()

    async def request(self, cmd: RocketMQPublishCommand) -> ReceivedMessage:
        """Send a request, and return the reply. Raises: TimeoutError; ClientError."""
        [(body, fields)] = await self.encode(cmd, [cmd.body])
        try:
            return await self.client.request(cmd.destination, body, timeout=cmd.timeout, **fields)
        except NoReply as error:
            raise TimeoutError(str(error)) from error

    async def encode(
        self, cmd: RocketMQPublishCommand, bodies: Sequence[Any]
    ) -> list[tuple[bytes, MessageFields]]:
        """Return bodies with their fields. Raises: InvalidArgument, and what the codec does."""
        if isinstance(self.codec, BatchCodecProto):
            pairs = await self.codec.encode_batch(bodies, self._serializer)
        else:
            pairs = [await self.codec.encode(each, self._serializer) for each in bodies]
        return [
            (body or EMPTY_BODY, client_fields(cmd.fields_of(index), cmd.properties(body, kind)))
            for index, (body, kind) in enumerate(pairs)
        ]
