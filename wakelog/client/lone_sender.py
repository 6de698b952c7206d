"""LoneSender: sends a message in the thread that calls, while it is the only one under way.

By the loop of `sync` two threads have to wake up for each send: the loop's, and then the caller's.
Here the caller waits for the response itself. These go by the loop:

    the first message of a topic     its route is not known, nor the producer to its brokers
    a message with a delay           its level may have to be asked for
    a send while one is under way    messages of several threads travel together (`lanes`)
    a further attempt                `sender` has the rules

Invariants: at most one send is under way; nothing is sent after `close`.

Source: none upstream.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from wakelog.client.appended import APPENDED
from wakelog.client.errors import (
    ClientError,
    InvalidArgument,
    NotAcknowledged,
    closed_meanwhile,
)
from wakelog.client.messages import EncodedMessage, Message, SendRequest, encode
from wakelog.client.options import ClientOptions
from wakelog.client.queue_choice import QueueChoice
from wakelog.client.receipts import Receipt, receipt_of
from wakelog.client.route import QueueAt, Routes
from wakelog.client.send_command import Stored, read_response, send_command, unreachable
from wakelog.client.unique_ids import UniqueIds
from wakelog.network.blocking_client import BlockingClient
from wakelog.network.errors import RemotingError

CLOSE_SECONDS_MAX: Final = 10.0
"""How long `close` waits for a message under way, as that of a `SendBuffer` does."""

SendAgain: TypeAlias = Callable[[SendRequest, QueueAt | None, ClientError], Stored]
"""As `Sender.send_again`; it blocks."""


class LoneSender:
    """See the module. Any thread."""

    def __init__(
        self,
        client: BlockingClient,
        options: ClientOptions,
        routes: Routes,
        topics: Mapping[str, str],
        ids: UniqueIds,
        send_again: SendAgain,
    ) -> None:
        """Send nothing yet.

        routes, topics: of the producer, which adds to them in its own thread.
        topics: those whose brokers know the producer, by the names that users give.
        ids: of this sender alone.
        """
        self._client = client
        self._options = options
        self._routes = routes
        self._topics = topics
        self._ids = ids
        self._send_again = send_again
        self._queues = QueueChoice(routes)
        self._lock = threading.Lock()
        self._is_closed = False

    def send(self, message: Message) -> Receipt | None:
        """Send a message; None if it has to go by the loop, and nothing was sent.

        Raises: InvalidArgument, and nothing was sent; NotAcknowledged, and it may be stored.
        """
        if self._lock.locked():
            return None
        # Not `acquire`: an interruption behind it would keep the lock for ever.
        with self._lock:
            try:
                encoded = None if self._is_closed else self._encode(message)
                queues = () if encoded is None else self._routes.known_writable(encoded.topic)
                if encoded is None or not queues:
                    return None
                stored = self._send(encoded, queues)
                return None if stored is None else receipt_of(encoded.unique_key, stored)
            finally:
                if self._is_closed:
                    self._client.close()

    def _encode(self, message: Message) -> EncodedMessage | None:
        """Return the message; None if it is not plain. Raises: InvalidArgument."""
        try:
            topic = self._topics.get(message.topic)
            if topic is None or message.delay is not None:
                return None
            unique_key = self._ids.make()
            return encode(message, unique_key, topic, message.delay_level, None, APPENDED.get())
        except (AttributeError, TypeError):
            return None  # the producer says what is wrong with it

    def _send(self, message: EncodedMessage, queues: Sequence[QueueAt]) -> Stored | None:
        """Send, and again if that may help; None if its queue is not among these.

        Raises: InvalidArgument, NotAcknowledged.
        """
        request = SendRequest((message,))
        try:
            queue = self._queues.choose(message, queues)
        except InvalidArgument:
            return None  # the loop asks for a newer route
        except ClientError as error:
            return self._continue(request, None, error)
        try:
            return self._attempt(request, queue)
        except (InvalidArgument, NotAcknowledged):
            raise
        except ClientError as error:
            return self._continue(request, queue, error)

    def _continue(self, request: SendRequest, queue: QueueAt | None, failed: ClientError) -> Stored:
        """Send again by the loop, as long as that is open. Raises: NotAcknowledged."""
        try:
            if not self._is_closed:
                return self._send_again(request, queue, failed)
        except NotAcknowledged:
            raise
        except ClientError as error:  # the loop has ended meanwhile
            failed = error
        raise closed_meanwhile() from failed

    def _attempt(self, request: SendRequest, queue: QueueAt) -> Stored:
        """Send once. Raises: ClientError."""
        command = send_command(request, queue, self._options.group)
        timeout_ms = self._options.timeout_ms
        try:
            response = self._client.invoke(queue.address, command, timeout_ms=timeout_ms)
        except RemotingError as error:
            raise unreachable(queue, error) from error
        return read_response(queue, response, self._routes)

    def close(self) -> None:
        """Wait for a message under way, and close the connections."""
        has_ended = self._lock.acquire(timeout=CLOSE_SECONDS_MAX)
        self._is_closed = True
        if has_ended:
            self._client.close()
            self._lock.release()
        else:
            self._client.end_call()
