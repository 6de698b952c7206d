"""FollowerConnection and MasterConnection: both ends of a connection between members of a group.

They carry bytes between a socket and the cores `member_shipping` and `replica_fetch`. Who may
connect, what the log has, and what an acknowledgement means is for their owner.

Source: 5.x's AutoSwitchHAConnection and AutoSwitchHAClient (org.apache.rocketmq.store.ha.
autoswitch).
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol, cast

from wakelog.actors.broker.acceptor import Accepted
from wakelog.actors.broker.log_connection import LogConnection, LogSource
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.member_proof import FollowerProof, MasterProof
from wakelog.broker.replication.member_shipping import MasterLogView, MemberShipping
from wakelog.broker.replication.replica_fetch import ReplicaFetch
from wakelog.broker.replication.shipping import Piece
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.member_frames import (
    Ack,
    Answer,
    Data,
    FollowerReader,
    Hello,
    MasterReader,
    encode_ack,
    encode_data_head,
    encode_hello,
)
from wakelog.storage.errors import StoreError


class ShipsLog(Protocol):
    """What a FollowerConnection asks of the member that it belongs to."""

    def answer(self, link: "FollowerConnection", hello: Hello) -> Answer | None:
        """Answer a follower; None for one that asks no master."""

    def on_ack(self, link: "FollowerConnection", ack: Ack) -> None:
        """Count what a follower has."""

    def on_broken(self, link: "FollowerConnection", cause: str) -> None:
        """Note that what came is not of a follower. It gets no answer, and is closed later."""

    def view(self) -> MasterLogView:
        """Return what may be shipped now."""

    def confirmed(self) -> int:
        """Return the confirmed offset."""

    def on_failed(self, link: "FollowerConnection", cause: str) -> None:
        """Note that the log could not be read for a follower."""

    def forget_follower(self, link: "FollowerConnection") -> None:
        """Note that a connection has ended."""


class FollowerConnection(LogConnection):
    """A follower's connection, on the master's side.

    accepted_ms: when it was.
    is_broken: whether something came that no follower sends; nothing more is read then.
    """

    def __init__(self, owner: ShipsLog, accepted: Accepted, source: LogSource) -> None:
        super().__init__(accepted.opened, accepted.address, source)
        self._owner, self._reader = owner, FollowerReader()
        self.core: MemberShipping | None = None
        self.proof: MasterProof | None = None
        self.accepted_ms = steady_ms()
        self.is_broken = False

    def received(self, data: bytes) -> None:
        """Answer a hello, count the last acknowledgement: a chunk has room for hundreds."""
        if self.is_broken:
            return
        last: Ack | None = None
        try:
            for message in self._reader.read(data):
                if isinstance(message, Ack):
                    last = message
                    continue
                answer = self._owner.answer(self, message)
                if answer is None:
                    self.close()
                    return
                self.send(encode_hello(answer))
        except ProtocolError as error:
            self.is_broken = True
            self._owner.on_broken(self, str(error))
            self.core = None
            return
        if last is not None:
            self._owner.on_ack(self, last)

    def expect_hello(self) -> None:
        """Take one more hello: the first one was answered with a nonce."""
        self._reader.expect_hello()

    def pieces(self) -> Iterator[Piece]:
        """Yield what to send now."""
        if self.core is None:
            return
        view, confirmed, now_ms = self._owner.view(), self._owner.confirmed(), steady_ms()
        while (head := self.core.next_head(view, confirmed, now_ms)) is not None:
            yield Piece(encode_data_head(head), head.offset, head.size_bytes)

    def failed(self, cause: str) -> None:
        """Write down why the log could not be read."""
        self._owner.on_failed(self, cause)

    def closed(self) -> None:
        """Forget it."""
        self._owner.forget_follower(self)


class FetchesLog(Protocol):
    """What a MasterConnection asks of the member that it belongs to."""

    def on_message(self, link: "MasterConnection", message: Answer | Data) -> None:
        """Take what a master sends. Raises: FetchEnded, StoreError."""

    def end_turn(self) -> None:
        """Write what was placed, and do what follows."""


class MasterConnection(asyncio.Protocol):
    """The connection to the master, on the follower's side.

    ended: has the reason once it is over.
    """

    def __init__(self, owner: FetchesLog, core: ReplicaFetch, proof: FollowerProof) -> None:
        self.core, self.proof = core, proof
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._owner, self._reader = owner, MasterReader()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who this is."""
        self._transport = opened = cast(asyncio.Transport, transport)  # uvloop has others
        if self.ended.done():
            opened.abort()
        else:
            opened.write(encode_hello(self.proof.hello))

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        if self.ended.done():
            return
        try:
            for message in self._reader.read(data):
                self._owner.on_message(self, message)
        except (FetchEnded, ProtocolError, StoreError) as error:
            self.end(str(error))
        finally:
            self._owner.end_turn()

    def prove(self, hello: Hello) -> None:
        """Say the hello with its proof, and wait for one more answer."""
        self._reader.expect_hello()
        if self._transport is not None:
            self._transport.write(encode_hello(hello))

    def acknowledge(self, durable: int, *, is_behind: bool) -> None:
        """Say what is durable, if that is due. is_behind: read no more until it is not."""
        if self._transport is None or self.ended.done():
            return
        try:
            ack = self.core.next_ack(durable, steady_ms())
        except StoreError as error:
            self.end(str(error))
            return
        if ack is not None:
            self._transport.write(encode_ack(ack))
        if is_behind != self._is_paused:
            self._is_paused = is_behind
            change = self._transport.pause_reading if is_behind else self._transport.resume_reading
            change()

    def end(self, cause: str) -> None:
        """Take nothing more, and close it."""
        if not self.ended.done():
            self.ended.set_result(cause)
        self.abort()

    def abort(self) -> None:
        """Close it now."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self._transport = None
        self.end(f"the master closed the connection: {exc or 'end of file'}")
