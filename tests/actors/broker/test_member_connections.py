"""What a master does with the bytes of a follower."""

import socket
from contextlib import closing
from typing import Any

from tests.actors.bounded import on_loop
from wakelog.actors.broker.acceptor import Accepted
from wakelog.actors.broker.log_connection import LogSource
from wakelog.actors.broker.member_connections import FollowerConnection
from wakelog.protocol.member_frames import Ack, Answer, Hello, encode_ack, encode_hello

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


@on_loop
async def test_of_many_acknowledgements_the_last_one_counts() -> None:
    """Each lets go what it confirms: 9,000 of one chunk took 0.2 s."""
    owner, source = Owner(), LogSource(1 << 20, lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        opened, _ = server.accept()
    connection = FollowerConnection(owner, Accepted(opened, "other", "", ""), source)
    with closing(other), closing(connection):
        acks = b"".join(encode_ack(Ack(1, durable, is_seeding=False)) for durable in range(1_000))
        connection.received(encode_hello(HELLO) + acks)
        connection.received(acks[:-1])
        assert owner.acks == [Ack(1, 999, False), Ack(1, 998, False)]
        connection.received(acks[-1:] + b"what no follower sends" * 9)
        assert owner.acks == [Ack(1, 999, False), Ack(1, 998, False)]
        assert len(owner.broken) == 1
