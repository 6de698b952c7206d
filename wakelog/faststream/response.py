"""What a function returns or publishes: a body with fields, and the command made of it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Unpack

from faststream._internal.kafka import (
    extract_per_message_keys_and_bodies,
    key_for_index,
    realign_keys,
)
from faststream.response import BatchPublishCommand, PublishCommand, PublishType, Response

from wakelog.client import ConsumerMessage
from wakelog.faststream.fields import PublishFields, check_names
from wakelog.faststream.message import CONTENT_TYPE, CORRELATION_ID, EMPTY, REPLY_TO

REQUEST_SECONDS: Final = 0.5
"""How long FastStream's brokers wait for a reply."""


class RocketMQResponse(Response):
    """A body with headers and fields of its own: to return, or for `publish_batch`."""

    def __init__(
        self,
        body: Any,
        *,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        **fields: Unpack[PublishFields],
    ) -> None:
        super().__init__(body, headers=dict(headers or {}), correlation_id=correlation_id)
        check_names("fields", fields, PublishFields)
        self.fields = fields

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, Any]:
        """Let a function be annotated with it: any body may be in it (AsyncAPI documents)."""
        return {}

    def get_publish_key(self) -> PublishFields | None:
        """Return the fields, which travel with the body within a batch."""
        return self.fields or None

    def as_publish_command(self) -> "RocketMQPublishCommand":
        """Return the command that publishes it."""
        return RocketMQPublishCommand(
            self.body,
            topic="",
            headers=self.headers,
            correlation_id=self.correlation_id,
            _publish_type=PublishType.PUBLISH,
            **self.fields,
        )


class RocketMQPublishCommand(BatchPublishCommand):
    """What middlewares see of a message on its way out.

    fields: of all its bodies. oneway: no broker acknowledges it. timeout: of a request.
    request: what this replies to; None for a message to a topic.
    """

    def __init__(
        self,
        message: Any = None,
        /,
        *messages: Any,
        topic: str,
        _publish_type: PublishType,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        oneway: bool = False,
        timeout: timedelta | float = REQUEST_SECONDS,
        **fields: Unpack[PublishFields],
    ) -> None:
        super().__init__(
            message,
            *messages,
            destination=topic,
            reply_to=reply_to,
            correlation_id=correlation_id,
            headers=dict(headers or {}),
            _publish_type=_publish_type,
        )
        check_names("fields", fields, PublishFields)
        self.fields = fields
        self.oneway = oneway
        self.timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
        self.request: ConsumerMessage | None = None
        self._of_each: Sequence[Any] = ()
        of_each, bodies = extract_per_message_keys_and_bodies(self.batch_bodies)
        if bodies is not None:
            self.batch_bodies = bodies
        self._of_each = of_each

    @property
    def batch_bodies(self) -> tuple[Any, ...]:
        """The bodies; fields of a single one stay with it when they are replaced."""
        bodies = (*self.extra_bodies,)
        return bodies if self.body is None and not bodies else (self.body, *bodies)

    @batch_bodies.setter
    def batch_bodies(self, bodies: Sequence[Any]) -> None:
        if self._of_each:
            self._of_each = realign_keys(self._of_each, self.batch_bodies, bodies)
        self.body, self.extra_bodies = (bodies[0] if bodies else None), tuple(bodies[1:])

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> "RocketMQPublishCommand":
        """Return a command of FastStream's as one of RocketMQ's."""
        if isinstance(cmd, RocketMQPublishCommand):
            return cmd
        body, more = cls._parse_bodies(cmd.body, batch=batch)
        return cls(
            body,
            *more,
            topic=cmd.destination,
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            reply_to=cmd.reply_to,
            _publish_type=cmd.publish_type,
        )

    def fields_of(self, index: int) -> PublishFields:
        """Return the fields of a body: its own before those of all."""
        own = key_for_index(self._of_each, None, index)
        merged: PublishFields = {**self.fields, **(own or {})}
        return merged

    def properties(self, body: bytes, content_type: str | None) -> dict[str, str]:
        """Return the properties of a message with this body; empty headers are left out."""
        headers = {
            CONTENT_TYPE: content_type,
            CORRELATION_ID: self.correlation_id,
            REPLY_TO: self.reply_to,
            **self.headers,
            EMPTY: "" if body else "true",
        }
        return {
            name: text.decode() if isinstance(text, bytes) else str(text)
            for name, text in headers.items()
            if text not in (None, "", b"")
        }
