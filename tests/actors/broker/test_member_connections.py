"""What a master does with the bytes of a follower."""

import socket
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker.acceptor import Accepted
from wakelog.actors.broker.log_connection import LogSource
from wakelog.actors.broker.member_connections import FollowerConnection, MasterConnection
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.member_proof import FollowerProof
from wakelog.broker.replication.shipping import Piece
from wakelog.protocol.member_frames import (
    Ack,
    Answer,
    DataHead,
    Hello,
    encode_ack,
    encode_data_head,
    encode_hello,
)
from wakelog.storage.errors import NotWriteable, StoreError, StoreFailed

HELLO = Hello("group", 2, b"log", 1, 1 << 20, 0, 0, ())


class Owner:
    """A master that takes everyone."""

    def __init__(self) -> None:
        self.acks: list[Ack] = []
        self.broken: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: True

    def answer(self, _link: FollowerConnection, _hello: Hello) -> Answer:
        return Answer("", 1)

    def on_ack(self, _link: FollowerConnection, ack: Ack) -> None:
        self.acks.append(ack)

    def on_broken(self, _link: FollowerConnection, cause: str) -> None:
        self.broken.append(cause)


def connected(owner: Owner, source: LogSource) -> tuple[socket.socket, FollowerConnection]:
    """Return a follower's end of a connection, and the master's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        opened, _ = server.accept()
    return other, FollowerConnection(owner, Accepted(opened, "other", "", ""), source)


@on_loop
async def test_of_many_acknowledgements_the_last_one_counts() -> None:
    """Each lets go what it confirms: 9,000 of one chunk took 0.2 s."""
    owner, source = Owner(), LogSource(1 << 20, lambda _: None)
    other, connection = connected(owner, source)
    with closing(other), closing(connection):
        acks = b"".join(encode_ack(Ack(1, durable, is_seeding=False)) for durable in range(1_000))
        connection.received(encode_hello(HELLO) + acks)
        connection.received(acks[:-1])
        assert owner.acks == [Ack(1, 999, False), Ack(1, 998, False)]
        connection.received(acks[-1:] + b"what no follower sends" * 9)
        assert owner.acks == [Ack(1, 999, False), Ack(1, 998, False)]
        assert len(owner.broken) == 1


class Fetcher:
    """A follower that writes down what came. failure: what taking it raises."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.messages: list[object] = []
        self.turns = 0

    def on_message(self, _link: MasterConnection, message: object) -> None:
        if self.failure is not None:
            raise self.failure
        self.messages.append(message)

    def end_turn(self) -> None:
        self.turns += 1


class Opened:
    """A transport that writes down what is done with it."""

    def __init__(self) -> None:
        self.done: list[object] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def __getattr__(self, name: str) -> Any:
        return lambda: self.done.append(name)


def link_of(
    owner: Fetcher, acks: list[Ack | StoreError | None] | None = None
) -> tuple[MasterConnection, Opened]:
    """Return a connection to a master, and what it goes over."""

    def next_ack(durable: int, _now_ms: int) -> Ack | None:
        found = (acks or [None]).pop(0)
        if isinstance(found, StoreError):
            raise found
        assert durable == 7
        return found

    core: Any = SimpleNamespace(next_ack=next_ack)
    link = MasterConnection(owner, core, FollowerProof(None, b"", HELLO))
    transport: Any = Opened()
    return link, transport


@on_loop
async def test_a_follower_says_hello_and_hands_on_what_comes() -> None:
    owner = Fetcher()
    link, opened = link_of(owner)
    link.acknowledge(7, is_behind=True)  # there is no connection yet
    transport: Any = opened
    link.connection_made(transport)
    assert opened.done == [encode_hello(HELLO)]
    answered = Answer("", 1)
    link.data_received(encode_hello(answered)[:9])
    assert owner.messages == [] and owner.turns == 1
    link.data_received(encode_hello(answered)[9:])
    assert owner.messages == [answered] and owner.turns == 2
    link.prove(HELLO)
    link.data_received(encode_hello(answered))
    assert len(owner.messages) == 2 and opened.done == [encode_hello(HELLO)] * 2
    link.connection_lost(None)
    assert await link.ended == "the master closed the connection: end of file"
    link.prove(HELLO)
    assert len(opened.done) == 2, "there is no connection any more"


@pytest.mark.parametrize(
    ("data", "failure", "cause"),
    [
        (b"x" * 99, None, ""),
        (encode_hello(Answer("", 1)), FetchEnded("enough"), "enough"),
        (encode_hello(Answer("", 1)), NotWriteable("full"), "full"),
    ],
)
@on_loop
async def test_what_ends_a_connection_to_a_master(
    data: bytes, failure: Exception | None, cause: str
) -> None:
    owner = Fetcher(failure)
    link, opened = link_of(owner)
    transport: Any = opened
    link.connection_made(transport)
    link.data_received(data)
    assert cause in await link.ended and owner.turns == 1
    assert opened.done[-1] == "abort"
    link.data_received(data)
    link.acknowledge(7, is_behind=True)
    assert owner.turns == 1 and opened.done[-1] == "abort"


@on_loop
async def test_one_that_ended_before_it_was_made_says_nothing() -> None:
    link, opened = link_of(Fetcher())
    link.end("too late")
    link.end("later")
    transport: Any = opened
    link.connection_made(transport)
    assert opened.done == ["abort"] and await link.ended == "too late"


@on_loop
async def test_reading_stops_while_the_own_disk_is_behind() -> None:
    ack = Ack(1, 7, is_seeding=False)
    link, opened = link_of(Fetcher(), [ack, None, None, ack, StoreFailed("p", "sync", OSError(5))])
    transport: Any = opened
    link.connection_made(transport)
    del opened.done[:]
    for is_behind in (False, True, True, False):
        link.acknowledge(7, is_behind=is_behind)
    sent = encode_ack(ack)
    assert opened.done == [sent, "pause_reading", sent, "resume_reading"]
    link.acknowledge(7, is_behind=False)
    assert opened.done[-1] == "abort" and "sync" in await link.ended


@on_loop
async def test_a_master_sends_what_its_core_says_and_to_a_stranger_nothing() -> None:
    owner, source = Owner(), LogSource(1 << 20, lambda _: None)
    other, connection = connected(owner, source)
    heads = [DataHead(3, 0, 1, 0, 0, 3), DataHead(0, 3, 1, 0, 0, 3)]
    left: list[DataHead | None] = [*heads, None]
    core: Any = SimpleNamespace(next_head=lambda _view, _confirmed, _now_ms: left.pop(0))
    with closing(other), closing(connection):
        assert list(connection.pieces()) == []
        connection.core = core
        assert list(connection.pieces()) == [
            Piece(encode_data_head(head), head.offset, head.size_bytes) for head in heads
        ]
        connection.received(b"noise" * 20)
        assert connection.is_broken and connection.core is None
        connection.received(encode_hello(HELLO))
        assert len(owner.broken) == 1
