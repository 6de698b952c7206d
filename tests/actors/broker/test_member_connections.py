"""What a master does with the bytes of a follower."""

from typing import Any

from tests.network.fakes import FakeTransport
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

    def take_ack(self, _link: FollowerConnection, ack: Ack) -> None:
        self.acks.append(ack)

    def note_broken(self, _link: FollowerConnection, cause: str) -> None:
        self.broken.append(cause)


class Transport(FakeTransport):
    """A transport with both addresses."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default


def test_of_many_acknowledgements_the_last_one_counts() -> None:
    """Each lets go what it confirms: 9,000 of one chunk took 0.2 s."""
    owner = Owner()
    connection = FollowerConnection(owner)
    connection.connection_made(Transport(connection))
    acks = b"".join(encode_ack(Ack(1, durable, is_seeding=False)) for durable in range(1_000))
    connection.data_received(encode_hello(HELLO) + acks)
    connection.data_received(acks[:-1])
    assert owner.acks == [Ack(1, 999, False), Ack(1, 998, False)]
    connection.data_received(acks[-1:] + b"what no follower sends" * 9)
    assert owner.acks == [Ack(1, 999, False), Ack(1, 998, False)]
    assert len(owner.broken) == 1
