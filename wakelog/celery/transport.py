"""Transport: what kombu calls for the scheme `rocketmq`.

A connection of kombu is one link. Its messages come by the link's thread; kombu's own loop hears of
them by a byte in a socket pair, and other callers wait in `drain_events`.

Source: kombu.transport.virtual.Transport, kombu.transport.redis (5.7).
"""

import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from itertools import count
from typing import Any, Final

from amqp.exceptions import (
    ChannelError,
    ConnectionError,
    RecoverableChannelError,
    RecoverableConnectionError,
)
from kombu.transport import virtual

from wakelog.celery.channel import Channel
from wakelog.celery.errors import as_kombu_errors
from wakelog.celery.link import BlockingLink, Link, Settled
from wakelog.celery.options import DEFAULT_PORT, read_options, read_place, shown
from wakelog.celery.payload import Payload
from wakelog.celery.routes import Binding, is_for
from wakelog.client import ClientError

WAIT_SECONDS: Final = 1.0
"""Of one wait without a limit: signals are handled between."""
FULL_SECONDS: Final = 0.05
"""Of a wait while the limit of messages in hand is reached: who waits is to acknowledge some."""
DELIVERIES_MAX: Final = 64
"""In one turn of kombu's loop."""


class Transport(virtual.Transport):
    """See the module; `channel.Connection` says what its channels need."""

    Channel = Channel
    can_parse_url = True
    default_port = DEFAULT_PORT  # type: ignore[assignment]  # kombu's has None for a type
    driver_type = "rocketmq"
    driver_name = "wakelog"
    connection_errors = (ConnectionError,)
    channel_errors = (ChannelError,)
    recoverable_connection_errors = (RecoverableConnectionError,)
    recoverable_channel_errors = (RecoverableChannelError,)
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"})
    )

    def __init__(self, client: Any, **given: Any) -> None:
        """Read the URL and the options. Raises: InvalidArgument."""
        options, more = read_options(client.transport_options)
        place = read_place(
            client.hostname,
            client.alt,
            user=client.userid,
            password=client.password,
            port=client.port,
            virtual_host=client.virtual_host,
            ssl=client.ssl,
        )
        place.settings.update(more)
        super().__init__(client, **given)
        self.temporary: set[str] = set()
        self.declared: set[str] = set()
        self._place, self._options = place, options
        self._link: BlockingLink | None = None
        self._turns = count()  # of the channels that consume the same queue
        self._loop: Any = None
        self._ends: tuple[socket.socket, socket.socket] | None = None  # read and written

    def driver_version(self) -> str:
        """Return the version of wakelog."""
        return version("wakelog")

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return a URL as it may be shown."""
        return uri if include_password else shown(uri, mask=mask)

    @property
    def link(self) -> BlockingLink:
        """The open link. Raises: RecoverableConnectionError."""
        if self._link is None:
            raise RecoverableConnectionError("this connection is closed. Connect again")
        return self._link

    # Connections

    def establish_connection(self) -> "Transport":
        """Check that a name server answers."""
        with as_kombu_errors():
            self._link = BlockingLink(Link(self._place, self._options, self.nudge)).__enter__()
        try:
            super().establish_connection()
        except BaseException:
            self.close_connection(self)
            raise
        return self

    def verify_connection(self, connection: Any) -> bool:
        """Return whether the connection is open."""
        return self._link is not None

    def close_connection(self, connection: Any) -> None:
        """Close the channels and the link."""
        super().close_connection(connection)
        link, self._link = self._link, None
        self._leave_loop()
        if link is not None:
            with suppress(ClientError):
                link.__exit__(None, None, None)

    def bindings(self) -> list[Binding]:
        """Return what this connection has bound."""
        exchanges = self.state.exchanges or {}
        kinds = {name: each["type"] for name, each in list(exchanges.items())}
        return [
            Binding(key.exchange, kinds.get(key.exchange, "direct"), key.routing_key, key.queue)
            for key in list(self.state.bindings)
        ]

    def is_for(self, queue: str, exchange: str, payload: Payload) -> bool:
        """Return whether a message of an exchange is for a queue."""
        return is_for(queue, self.bindings(), exchange, payload)

    def is_used(self, queue: str, *, besides: virtual.Channel) -> bool:
        """Return whether another open channel reads a queue."""
        return any(each.reads(queue) for each in self.channels if each is not besides)

    def leave(self, queues: Iterable[str]) -> None:
        """Read queues no longer, which no other channel reads."""
        if self._link is not None:
            with suppress(ClientError):  # the broker misses this client all the same
                for queue in list(queues):
                    self._link.forget(queue)

    # Events

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Deliver one message. Raises: TimeoutError without one in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if deadline is None else max(deadline - time.monotonic(), 0.0)
            if self._deliver_one(min(left, WAIT_SECONDS)):
                return
            is_full = not self._wanted() and any(channel._consumers for channel in self.channels)
            if is_full or (deadline is not None and time.monotonic() >= deadline):
                raise TimeoutError("no message in time")

    def _wanted(self) -> list[str]:
        return [queue for channel in self.channels for queue in channel.wanted()]

    def _deliver_one(self, wait_seconds: float) -> bool:
        if not (wanted := self._wanted()):
            time.sleep(min(wait_seconds, FULL_SECONDS))
            return False
        with as_kombu_errors():
            taken = self.link.take(wanted, wait_seconds)
        if taken is None:
            return False
        consumers = [each for each in self.channels if taken.queue in each.wanted()]
        if not consumers:  # cancelled meanwhile
            self._deliver(taken.payload, taken.queue)
            return True
        channel = consumers[next(self._turns) % len(consumers)]
        if channel.needs_no_ack(taken.queue):
            with as_kombu_errors():
                self.link.settle(taken.tag, Settled.DONE)
        channel.deliver(taken.payload, taken.queue)
        return True

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Have kombu's loop deliver messages."""
        self._leave_loop()
        self._loop, self._ends = loop, socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        loop.add_reader(self._ends[0], self._on_readable, self._ends[0])
        self.nudge()

    def _leave_loop(self) -> None:
        ends, self._ends = self._ends, None
        if ends is not None:
            with suppress(KeyError, OSError, ValueError):  # the loop was reset
                self._loop.remove_reader(ends[0])
            for end in ends:
                end.close()

    def _on_readable(self, end: socket.socket) -> None:
        with suppress(BlockingIOError):
            end.recv(4096)
        for _ in range(DELIVERIES_MAX):
            if self._link is None or not self._wanted() or not self._deliver_one(0.0):
                return
        self.nudge()

    def nudge(self) -> None:
        """Wake kombu's loop: there may be a message, or room for one. Any thread may call."""
        if (ends := self._ends) is not None:
            with suppress(OSError):  # full, and so awake; or closed
                ends[1].send(b"\0")
