"""Request and Processor: one decoded request, and the row of a table that handles it.

A request table maps each request code to a Processor. The core decodes the header once, into the
row's Struct, and hands on one Request. Lanes, access control and handlers use that Struct; none of
them parses text.

`access` says who may send a request. With access control (`broker/access/control.py`) each rule is
checked against an account. Without it, administration is for loopback peers and for trusted ones
(`broker/access/administrators.py`). A group is checked under the name of its retry topic.

Invariant: a row that no rule maps counts as administration.

Source: org.apache.rocketmq.acl.plain.{PlainAccessValidator, PlainPermissionManager},
org.apache.rocketmq.acl.common.Permission (4.9.3).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar, get_args

import msgspec

from wakelog.network.handler import Channel
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import Header

HeaderT = TypeVar("HeaderT")


class Request(msgspec.Struct, Generic[HeaderT], gc=False):
    """One request: its command, its typed header, its connection, and the time it is handled.

    `gc=False` is safe: no field refers back to a request.
    """

    command: RemotingCommand
    header: HeaderT
    channel: Channel
    now_ms: int

    def success(
        self, ext_fields: dict[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """Make the response with code SUCCESS."""
        return answer(self.command, ResponseCode.SUCCESS, None, ext_fields, body)

    def refusal(self, code: ResponseCode, remark: str) -> RemotingCommand:
        """Make a response with a remark and nothing else."""
        return answer(self.command, code, remark)


class Permission(StrEnum):
    """What an account needs for a request.

    ANY: a valid signature is enough. ADMIN: administration, of the broker or of the name server.
    """

    ANY = "ANY"
    PUB = "PUB"
    SUB = "SUB"
    ADMIN = "ADMIN"


class Resource(StrEnum):
    """What the permission is for.

    HEARTBEAT: each consumer group in the body, and its topics. SERVER: none in particular.
    ACCOUNTS: no address replaces the signature of an admin account.
    """

    TOPIC = "topic"
    GROUP = "group"
    HEARTBEAT = "heartbeat"
    SERVER = "server"
    ACCOUNTS = "accounts"


class Access(NamedTuple):
    """One rule: the permission, the kind of resource, and the header's attribute that names it."""

    permission: Permission
    resource: Resource
    attribute: str = ""


ANYONE = Access(Permission.ANY, Resource.SERVER)
"""For what changes nothing, or only what belongs to a client; 4.9.3 wants a signature, too."""

ADMINISTERS = Access(Permission.ADMIN, Resource.SERVER)
"""For what changes a server, or a client of another."""


class BodyTooLarge(RemoteProtocolError):
    """A body is larger than its request may have; nothing of it was parsed."""

    def __init__(
        self, has: int, unit: str, limit: int, code: ResponseCode = ResponseCode.SYSTEM_ERROR
    ) -> None:
        """Make the remark; `unit` is what `has` and `limit` count."""
        super().__init__(code, f"the body has {has} {unit}, at most {limit} are allowed")


class BodyLimits(NamedTuple):
    """The bounds of a body, which are checked before anything parses it.

    entries_max: commas. JSON has one between any two members of an object or an array, so this
        bounds what parsing makes. None for a body that is not JSON.
    is_read: False if nobody reads it: it is dropped once the signature was checked. A request may
        wait for long, as a pull does, and a body would be kept as long.
    refusal: the code of the response to a body that was too long to be read.
    """

    body_bytes_max: int
    entries_max: int | None = None
    refusal: ResponseCode = ResponseCode.SYSTEM_ERROR
    is_read: bool = True

    @property
    def unchecked_bytes_max(self) -> int:
        """The longest body that is within both bounds whatever it has."""
        if self.entries_max is None:
            return self.body_bytes_max
        return min(self.body_bytes_max, self.entries_max)

    def check(self, body: bytes, factor: int = 1) -> None:
        """Raise BodyTooLarge for a body beyond `factor` times the bounds."""
        if len(body) > factor * self.body_bytes_max:
            raise BodyTooLarge(len(body), "bytes", factor * self.body_bytes_max)
        if self.entries_max is not None:
            entries_count = body.count(b",")
            if entries_count > factor * self.entries_max:
                raise BodyTooLarge(entries_count, "entries", factor * self.entries_max)


ADMINISTRATION = BodyLimits(1_048_576, 65_536)
"""What administrators and clients send has a few KB."""


class Processor(NamedTuple):
    """One row of a request table.

    header: what `handle` finds in `Request.header`; None if the request has no header.
    reads_queues: the request has to see every message that was acknowledged before it came.
    is_in_order: later requests of its connection and lane wait while its work pauses, and the work
        is done though the connection is closed.
    is_administration: whether one of the rules asks for an administrator.
    body: the limits of its body. A body of `unchecked_bytes_max` is within all of them.
    is_audited: whether a line of the audit log says that it was asked for, and how it ended.
    names_in: what its body names, for that line; None if its header names all.
    """

    handle: Callable[..., Any]
    header: type[Header] | None
    lane: str
    access: tuple[Access, ...]
    reads_queues: bool
    is_administration: bool
    body: BodyLimits
    unchecked_bytes_max: int
    is_in_order: bool
    is_audited: bool
    names_in: Callable[[bytes], dict[str, str]] | None


def processor(
    handle: Callable[..., Any],
    lane: str,
    *access: Access,
    body: BodyLimits,
    header: type[Header] | None = None,
    reads_queues: bool = False,
    is_in_order: bool = False,
    is_audited: bool | None = None,
    names_in: Callable[[bytes], dict[str, str]] | None = None,
) -> Processor:
    """Make a row.

    access: at least one rule, or the request is administration.
    body: the limits of its body. Each row names them: what a handler reads is never dropped.
    is_audited: None if it follows from the rules: administration changes something.
    header: for a handler of several types; else the one that the handler is annotated with, as in
        ``request: Request[PullMessageRequestHeader]``.
    """
    if header is None:
        (annotated,) = get_args(handle.__annotations__["request"])
        header = None if annotated is type(None) else annotated
    administers = not access or any(rule.permission is Permission.ADMIN for rule in access)
    return Processor(
        handle,
        header,
        lane,
        access,
        reads_queues,
        administers,
        body,
        body.unchecked_bytes_max,
        is_in_order,
        administers if is_audited is None else is_audited,
        names_in,
    )
