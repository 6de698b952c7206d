"""The instructions of a name server's core, which its shell takes after each request and tick.

BrokerJoined, BrokerLeft and NotAllowed are for the log, an AuditLine for the audit log. A request
that changes a table yields TableSaved.

Source: org.apache.rocketmq.namesrv.NamesrvController and its services (4.9.3), turned into values.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec

from wakelog.network.audit_line import AuditLine


class TableSaved(msgspec.Struct, frozen=True):
    """The effect of saving ``NameServer.tables[table]``; the result is why not, or "".

    undo: takes the change back if it cannot be saved.
    """

    table: str
    undo: Callable[[], None] | None = None


class ConfigurationChanged(msgspec.Struct, frozen=True):
    """Log what a request has changed, and which of these keys wait for a restart."""

    keys: str
    sender: str
    remark: str


class CloseChannel(msgspec.Struct, frozen=True):
    """Close the connection of a broker that stopped registering, or of a peer that guesses keys.

    The response to its request leaves first.
    """

    channel_id: int


class BrokerJoined(msgspec.Struct, frozen=True):
    """An address is new in the route."""

    broker_name: str
    broker_id: int
    address: str
    topic_count: int


class Cause(StrEnum):
    """Why an address left the route."""

    UNREGISTERED = "unregistered"
    EXPIRED = "expired"
    CHANNEL_CLOSED = "channel closed"
    REPLACED = "replaced by another address of its name and id"
    RENAMED = "registered under another name"


class BrokerLeft(msgspec.Struct, frozen=True):
    """An address has left the route; the topics of its name leave with the last address."""

    broker_name: str
    broker_id: int
    address: str
    cause: Cause


class NotAllowed(msgspec.Struct, frozen=True):
    """Someone who is no administrator has tried to administer."""

    code: int
    host: str
    cause: str


class ForgetTopics(msgspec.Struct, frozen=True):
    """A broker with many topics has left: call ``forget_some`` until nothing is left."""

    broker_name: str


Instruction: TypeAlias = (
    ConfigurationChanged
    | CloseChannel
    | BrokerJoined
    | BrokerLeft
    | ForgetTopics
    | NotAllowed
    | AuditLine
)
