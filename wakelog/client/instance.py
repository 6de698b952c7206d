"""The client instance: what a producer or a consumer has in common with every client.

It has the connections, the routes and an id by which brokers know it. Every `HEARTBEAT_SECONDS` it
tells the brokers of its topics which groups it belongs to, and asks for the routes again. A broker
knows a client by its connection, so each new connection begins with a heartbeat. Brokers send
requests of their own on the same connections: `answers` has a function for each code.

Each producer and each consumer has an instance of its own, as in 4.9.3 without an instanceName, so
that one process can have several members of a group.

Source: org.apache.rocketmq.client.impl.factory.MQClientInstance, org.apache.rocketmq.client.
ClientConfig#buildMQClientId, org.apache.rocketmq.client.impl.ClientRemotingProcessor (4.9.3).
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Self, TypeAlias

from wakelog.client.attempts import Result, wait_out
from wakelog.client.errors import (
    ClientError,
    describe,
    is_account_refused,
    log_unexpected,
    refused,
    tls_refused,
)
from wakelog.client.failure_lines import FailureLines
from wakelog.client.options import ClientOptions
from wakelog.client.route import MASTER_ID, Connections, Routes
from wakelog.client.unique_ids import own_address
from wakelog.network import refusals
from wakelog.network.background import keep, run_once
from wakelog.network.client import RemotingClient, make_client
from wakelog.network.errors import RemotingError, TlsRefused
from wakelog.protocol.bodies import ConsumerData, HeartbeatData, ProducerData
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import LanguageCode, RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.clients import UnregisterClientRequestHeader

HEARTBEAT_SECONDS: Final = 30.0
"""heartbeatBrokerInterval and pollNameServerInterval of 4.9.3."""

Answer: TypeAlias = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | None]]
"""Execute a request of the broker at an address; None means that it gets no response."""

logger = logging.getLogger("wakelog.client")


class Opened:
    """What a block of `async with` starts, and closes: also after a start that failed.

    _was_started, _was_closed: set by `start` and `close`; it is open between them, once.
    """

    _was_started = _was_closed = False

    def _check_new(self) -> None:
        """Check that it may be started. Raises: ClientError."""
        if self._was_closed:
            raise ClientError("this client was closed", "Make a new one")
        if self._was_started:
            raise ClientError("this client is open already", "Start it once")

    async def start(self) -> None:
        """Begin."""
        raise NotImplementedError

    async def close(self) -> None:
        """End; called after a start that failed, too."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Start."""
        self._check_new()  # what is open already stays open
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()


class OpenedByUser(Opened):
    """A producer or a consumer.

    is_open: between `start` and `close`.
    """

    is_open: bool
    _kind = ""
    _loop: asyncio.AbstractEventLoop | None = None

    def _check_open(self) -> None:
        """Check that it is in use. Raises: ClientError."""
        if not self.is_open:
            raise ClientError(f"this {self._kind} is not open", "Use it inside of `async with`")

    def _check_loop(self) -> None:
        """Check that it is open, and that no other loop uses it now. Raises: ClientError."""
        self._check_open()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running():
                remedy = "Make one for each loop; from threads use wakelog.client.sync"
                raise ClientError(f"another event loop uses this {self._kind}", remedy)
            self._loop = loop


class ClientInstance(Opened):
    """See the module. One loop, one thread.

    producer_group: "" for an instance that produces nothing.
    consumers: the consumer groups of the next heartbeat.
    answers: by request code; the others are refused with code 3.
    refusals: by address, why access control refused the newest heartbeat.
    failures: the lines of what fails again and again.
    """

    def __init__(
        self,
        options: ClientOptions,
        *,
        connect: Callable[["ClientInstance"], Connections] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Make no connection yet. Raises: InvalidArgument for certificates of no use."""
        self.options = options
        self.address = own_address()
        self.client_id = f"{self.address}@{os.getpid()}#{time.monotonic_ns()}"
        self.producer_group = ""
        self.consumers: Callable[[], Sequence[ConsumerData]] = tuple
        self.answers: dict[int, Answer] = {}
        self.refusals: dict[str, ClientError] = {}
        self.failures = FailureLines()
        self.connections: Connections = (connect or _connect)(self)
        self.routes = Routes(self.connections, options)
        self._pause = pause
        self._keeping: asyncio.Task[None] | None = None
        self._introduced: set[str] = set()  # addresses of brokers that had a heartbeat
        self._greeting: set[str] = set()  # those of which one is under way
        self._introducing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Check that a name server answers, and begin with the heartbeats. Raises: ClientError."""
        await self.routes.check()
        if self._keeping is None:  # a start may be tried again
            self._keeping = keep(self._keep, log_unexpected("the heartbeats"))

    async def _keep(self) -> None:
        while True:
            await self._pause(HEARTBEAT_SECONDS)
            await self.routes.refresh()
            await self.heartbeat()

    async def heartbeat(self) -> None:
        """Tell every broker of the topics in use which groups this client belongs to.

        A broker that cannot be reached gets the next heartbeat.
        """
        command = self._heartbeat()
        self.refusals.clear()  # a broker that has left the routes says nothing any more
        if command is not None:
            await self._send_to_brokers(command, with_slaves=bool(self.consumers()))

    def _heartbeat(self) -> RemotingCommand | None:
        data = HeartbeatData(client_id=self.client_id, consumer_data_set=list(self.consumers()))
        if self.producer_group:
            data.producer_data_set.append(ProducerData(self.producer_group))
        if not data.producer_data_set and not data.consumer_data_set:
            return None
        return _request(RequestCode.HEART_BEAT, body=encode_body(data))

    async def wait_out(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call again while another broker is to lead (`attempts`). Raises: ClientError."""
        return await wait_out(call, self.options, self.routes.refresh, pause=self._pause)

    def reopened(self, address: str) -> None:
        """Introduce this client on a new connection to a broker that knew it, or leads now."""
        command = self._heartbeat()
        if command is not None and self._has_to_meet(address):
            task = run_once(self._send(address, command), log_unexpected("a heartbeat"))
            self._introducing.add(task)
            task.add_done_callback(self._introducing.discard)

    def _has_to_meet(self, address: str) -> bool:
        """Return whether a broker has had a heartbeat, or leads where others had one."""
        if address in self._greeting or not self._introduced:
            return False
        masters = (by_id.get(MASTER_ID) for by_id in self.routes.brokers.values())
        return address in self._introduced or address in masters

    async def close(self) -> None:
        """Leave every group, and close the connections."""
        if self._keeping is not None:
            self._introduced.clear()
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None  # a second `close` has nobody to tell
            if self.producer_group:
                header = UnregisterClientRequestHeader(
                    client_id=self.client_id, producer_group=self.producer_group
                )
                command = _request(RequestCode.UNREGISTER_CLIENT, to_ext_fields(header))
                await self._send_to_brokers(command, with_slaves=False)
            for data in self.consumers():
                header = UnregisterClientRequestHeader(
                    client_id=self.client_id, consumer_group=data.group_name
                )
                command = _request(RequestCode.UNREGISTER_CLIENT, to_ext_fields(header))
                await self._send_to_brokers(command, with_slaves=True)
        if isinstance(self.connections, RemotingClient):
            await self.connections.close()

    async def answer(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """Execute a request of a broker (network.client.OnRequest)."""
        answer = self.answers.get(request.code)
        if answer is None:
            return refusals.unsupported(request)
        try:
            return await answer(address, request)
        except Exception:
            logger.exception("request %s of %s failed", request.code, address)
            raise

    async def _send_to_brokers(self, command: RemotingCommand, *, with_slaves: bool) -> None:
        addresses = {
            address
            for by_id in self.routes.brokers.values()
            for broker_id, address in by_id.items()
            if with_slaves or broker_id == MASTER_ID
        }
        await asyncio.gather(*[self._send(address, command) for address in addresses])

    async def _send(self, address: str, command: RemotingCommand) -> None:
        self._greeting.add(address)
        source = f"heartbeats to {address}"
        try:
            response = await self.connections.invoke(
                address, command, timeout_ms=self.options.timeout_ms
            )
        except RemotingError as error:
            self.failures.failed(source, f"a broker does not answer: {error}", address)
            return
        finally:
            self._greeting.discard(address)
        if self._keeping is not None:  # a farewell introduces nobody
            self._introduced.add(address)
        self.refusals.pop(address, None)
        if is_account_refused(response):
            cause = f"{address} answered a heartbeat with {describe(response)}"
            self.refusals[address] = refused("", cause, response, {})
        if response.code != ResponseCode.SUCCESS:
            line = f"{address} answered {response.code}: {response.remark}"
            self.failures.failed(source, line, address)
        else:
            self.failures.works(source)


def _connect(instance: ClientInstance) -> RemotingClient:
    options = instance.options
    try:
        return make_client(
            options.credentials, options.tls, instance.answer, instance.reopened, options.dial
        )
    except TlsRefused as error:
        raise tls_refused(error) from error


def _request(
    code: RequestCode, fields: dict[str, str] | None = None, *, body: bytes = b""
) -> RemotingCommand:
    return RemotingCommand(
        int(code), ext_fields=fields or {}, body=body, language=int(LanguageCode.PYTHON)
    )
