"""Channel: kombu's queues, exchanges and acknowledgements over a link.

Exchanges and bindings are kept by kombu's virtual channel, of this process alone; `routes` says
where a message goes by them. What AMQP has and RocketMQ has not is refused: priorities, and limits
and expiries of queues.

Source: kombu.transport.virtual.Channel (5.7).
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any, Final, Protocol, cast

from amqp.exceptions import AMQPError, NotFound, PreconditionFailed
from amqp.protocol import queue_declare_ok_t
from kombu.transport import base, virtual
from kombu.utils.uuid import uuid

from wakelog.celery.errors import as_kombu_errors
from wakelog.celery.link import BlockingLink, Settled, Source
from wakelog.celery.payload import Payload
from wakelog.celery.routes import FANOUT, Binding, target_of

GET_SECONDS: Final = 1.0
"""How long `basic_get` waits: the queue may have to be joined first."""
DEFAULT_EXCHANGE: Final = ""

_REFUSED: Final = frozenset({"x-max-priority", "x-consumer-timeout", "x-single-active-consumer"})
"""Arguments of any queue; one that is not temporary may have none at all."""


class Connection(Protocol):
    """What a channel needs of its transport.

    temporary, declared: the queues of this connection without and with a topic of their own.
    """

    temporary: set[str]
    declared: set[str]

    @property
    def link(self) -> BlockingLink:
        """The open link. Raises: RecoverableConnectionError."""

    def nudge(self) -> None:
        """Look again: there may be a message, or room for one."""

    def bindings(self) -> list[Binding]:
        """Return what this connection has bound."""

    def is_for(self, queue: str, exchange: str, payload: Payload) -> bool:
        """Return whether a message of an exchange is for a queue."""

    def is_used(self, queue: str, *, besides: "Channel") -> bool:
        """Return whether another open channel reads a queue."""

    def leave(self, queues: Iterable[str]) -> None:
        """Read queues no longer, which no other channel reads."""


class QoS(virtual.QoS):
    """What of a channel is not acknowledged."""

    channel: "Channel"

    def ack(self, delivery_tag: str) -> None:
        """Note that a message is done."""
        self.channel.settle(delivery_tag, Settled.DONE)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Have a message again, or make it a dead letter."""
        self.channel.settle(delivery_tag, Settled.AGAIN if requeue else Settled.GIVEN_UP)
        self._quick_ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Have all messages again that are in hand."""
        self._flush()
        for delivery_tag in list(self._delivered):
            self.reject(delivery_tag, requeue=True)
        self._flush()
        return []


class Channel(virtual.Channel):
    """See the module."""

    QoS = QoS
    do_restore = False  # the broker does
    supports_fanout = True
    connection: Connection

    def __init__(self, connection: Connection, **given: Any) -> None:
        """Have no queue yet."""
        self._no_ack: set[str] = set()
        self._read: set[str] = set()
        self._got: set[str] = set()
        self._callback_of: dict[str, Callable[[Payload], None]] = {}  # by consumer tag
        super().__init__(connection, **given)

    # Queues

    def prepare_queue_arguments(self, arguments: Mapping[str, Any], **given: Any) -> dict[str, Any]:
        """Return the arguments as AMQP names them; `queue_declare` looks at them."""
        return dict(base.to_rabbitmq_queue_arguments(arguments, **given))

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> queue_declare_ok_t:
        """Have a topic for a queue, unless it is temporary.

        The number of messages is counted if `passive`: only then somebody asks for it.
        """
        name = queue or f"amq.gen-{uuid()}"
        if exclusive or auto_delete or not queue:
            self._refuse(name, _REFUSED & set(arguments or ()))
            self.connection.temporary.add(name)
            return queue_declare_ok_t(name, 0, 0)
        self._refuse(name, set(arguments or ()))
        link = self.connection.link
        with as_kombu_errors():
            if not passive:
                link.declare(name)
                self.connection.declared.add(name)
                return queue_declare_ok_t(name, 0, 0)
            if not link.exists(name):
                raise NotFound(f"queue {name} has no topic. Declare it first")
            return queue_declare_ok_t(name, link.size(name), 0)

    def _refuse(self, queue: str, arguments: AbstractSet[str]) -> None:
        if arguments:
            given = ", ".join(sorted(arguments))
            raise PreconditionFailed(
                f"queue {queue} is declared with {given}, which RocketMQ has not. Leave it out"
            )

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> None:
        """Bind a queue; a temporary one gets what is sent from now on."""
        exchange = exchange or "amq.direct"
        if exchange not in self.state.exchanges:
            self.exchange_declare(exchange)
        super().queue_bind(queue, exchange, routing_key, arguments, **given)
        if queue in self.connection.temporary:
            self._read_exchange(queue, exchange)

    def _queue_bind(self, *_: Any) -> None:
        """Do nothing more for a binding."""

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any
    ) -> None:
        """Forget a temporary queue, or skip the messages of another one: its topic stays."""
        with as_kombu_errors():
            if queue in self.connection.temporary:
                self.connection.link.forget(queue)
                self.connection.temporary.discard(queue)
                self._read.discard(queue)
            elif if_empty and self.connection.link.size(queue):
                return
            else:
                self.connection.link.purge(queue)
        for exchange in self.state.exchanges.values():
            exchange["table"] = [meta for meta in exchange["table"] if meta[2] != queue]
        self.state.queue_bindings_delete(queue)

    def _purge(self, queue: str) -> int:
        with as_kombu_errors():
            return self.connection.link.purge(queue)

    def _size(self, queue: str) -> int:
        with as_kombu_errors():
            return self.connection.link.size(queue)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        with as_kombu_errors():
            return queue in self.connection.temporary or self.connection.link.exists(queue)

    # Messages that are sent

    def prepare_message(
        self, body: Any, priority: int | None = None, *more: Any, **given: Any
    ) -> Payload:
        """Return kombu's payload. Raises: PreconditionFailed for a priority."""
        if priority:
            raise PreconditionFailed(
                f"priority={priority} is given, and RocketMQ has none. Use a queue for each"
            )
        return cast(Payload, super().prepare_message(body, priority, *more, **given))

    def basic_publish(self, message: Payload, exchange: str, routing_key: str, **_: Any) -> None:
        """Return when a broker has stored a message, for each queue that it is for."""
        self._inplace_augment_message(message, exchange, routing_key)
        link = self.connection.link
        with as_kombu_errors():
            if exchange:
                bindings = self.connection.bindings()
                target = target_of(bindings, exchange, routing_key, self.connection.temporary)
                link.put(target.queues, exchange if target.to_exchange else None, message)
            elif self._is_shared(routing_key):
                link.put([routing_key], None, message)
            else:
                link.put([], DEFAULT_EXCHANGE, message)

    def _is_shared(self, queue: str) -> bool:
        """Return whether a queue has a topic; a temporary one of another process has none."""
        if queue in self.connection.temporary:
            return False
        return queue in self.connection.declared or self.connection.link.exists(queue)

    # Messages that are received

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[..., Any],
        consumer_tag: str,
        **given: Any,
    ) -> None:
        """Read a queue from now on."""
        self._read_queue(queue)
        if no_ack:
            self._no_ack.add(queue)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **given)
        # kombu keeps one for each queue, and none after a cancel: channels may share a queue.
        self._callback_of[consumer_tag] = cast(Any, self.connection)._callbacks[queue]
        self.connection.nudge()

    def _read_queue(self, queue: str) -> None:
        bindings = self.connection.bindings()
        exchanges = {each.exchange: each.kind for each in bindings if each.queue == queue}
        self._read.add(queue)
        if queue in self.connection.temporary:
            for exchange in exchanges or {DEFAULT_EXCHANGE: ""}:
                self._read_exchange(queue, exchange)
            return
        with as_kombu_errors():
            self.connection.link.read(Source(queue, None, True), lambda payload: True)
            for exchange, kind in exchanges.items():
                source = Source(queue, exchange, True, "last" if kind == FANOUT else "first")
                accepts = partial(self.connection.is_for, queue, exchange)
                self.connection.link.read(source, accepts)

    def _read_exchange(self, queue: str, exchange: str) -> None:
        self._read.add(queue)
        with as_kombu_errors():
            source = Source(queue, exchange, False)
            self.connection.link.read(source, partial(self.connection.is_for, queue, exchange))

    def basic_cancel(self, consumer_tag: str) -> None:
        """Read a queue no longer; what is in hand of it may still be acknowledged."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        self._callback_of.pop(consumer_tag, None)
        if queue is not None and queue not in self._active_queues:
            self._no_ack.discard(queue)
            if not self.closed and not self.connection.is_used(queue, besides=self):
                with as_kombu_errors():
                    self.connection.link.retire(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> virtual.Message | None:
        """Return the next message of a queue, None without one."""
        self._read_queue(queue)
        self._got.add(queue)
        try:
            payload = self._get(queue)
        except Empty:
            return None
        message = self.Message(payload, channel=self)
        if no_ack:
            self.settle(message.delivery_tag, Settled.DONE)
        else:
            self.qos.append(message, message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> Payload:
        with as_kombu_errors():
            taken = self.connection.link.take([queue], timeout or GET_SECONDS)
        if taken is None:
            raise Empty
        return taken.payload

    def wanted(self) -> list[str]:
        """Return the queues of which it may get a message now."""
        is_free = bool(self._consumers) and self.qos.can_consume()
        return list(self._active_queues) if is_free else []

    def reads(self, queue: str) -> bool:
        """Return whether it consumes a queue, or has got single messages of it."""
        return queue in self._active_queues or queue in self._got

    def deliver(self, payload: Payload, queue: str) -> None:
        """Give a message of a queue to its consumer here."""
        [tag, *_] = [tag for tag in self._callback_of if self._tag_to_queue[tag] == queue]
        self._callback_of[tag](payload)

    def needs_no_ack(self, queue: str) -> bool:
        """Return whether a message of a queue is done when it is delivered."""
        return queue in self._no_ack

    def settle(self, delivery_tag: str, outcome: Settled) -> None:
        """Note what became of a message in hand."""
        if self.connection is None:
            return  # closed: the broker gives it to others
        with as_kombu_errors():
            self.connection.link.settle(delivery_tag, outcome)
        self.connection.nudge()

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Bound how many messages are in hand."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.connection.nudge()

    def close(self) -> None:
        """Leave the groups of the queues: others get what is not acknowledged.

        A group stays joined for another channel; what is in hand here is put into its queue again.
        """
        if not self.closed and self.connection is not None:
            shared = {x for x in self._read if self.connection.is_used(x, besides=self)}
            if shared:
                with suppress(AMQPError):  # the broker misses this client all the same
                    self.qos.restore_unacked()
            self.connection.leave(self._read - shared)
        super().close()
