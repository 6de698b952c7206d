"""MemberServer: whom a master takes as a follower, and what it counts."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker import member_server
from wakelog.actors.broker.acceptor import Accepted
from wakelog.actors.broker.member_server import CONNECTIONS_MAX, MemberServer
from wakelog.actors.transport.clocks import steady_ms
from wakelog.broker.access.administrators import read_trusted
from wakelog.broker.replication.epochs import EpochLine
from wakelog.broker.replication.member_proof import NONCE_BYTES, ProofAccount
from wakelog.broker.replication.member_shipping import SILENT_MS_MAX
from wakelog.protocol.member_frames import Ack, Answer, Hello

LOG_ID = bytes(range(16))
SEGMENT_BYTES = 4096
HELLO = Hello("g", 2, LOG_ID, 3, SEGMENT_BYTES, 0, 30, ((3, 0),))


class InSync:
    """Writes down what is noted of followers."""

    confirmed = 17

    def __init__(self) -> None:
        self.acks: list[tuple[int, int, bool]] = []
        self.lost: list[int] = []

    def on_ack(self, replica: int, durable: int, now_ms: int, *, is_seeding: bool) -> None:
        assert now_ms > 0
        self.acks.append((replica, durable, is_seeding))

    def on_lost(self, replica: int, now_ms: int) -> None:
        assert now_ms > 0
        self.lost.append(replica)


class Master:
    """Replica 1, the master of epoch 3, with a log of 50 bytes."""

    def __init__(self) -> None:
        self.group, self.own_id = "g", 1
        self.in_sync = InSync()
        self.promises: list[int] = []
        self.acts = 0
        self.epochs = SimpleNamespace(log_id=LOG_ID, lines=(EpochLine(3, 0),))
        self.election = SimpleNamespace(
            in_sync=self.in_sync, epoch=3, on_promise=self.promises.append
        )
        self.found: list[int] = []
        self.run = SimpleNamespace(
            is_master=True,
            is_open=True,
            account=None,
            checksum=lambda begin, end: begin * 1000 + end,
            open_store=SimpleNamespace(
                config=SimpleNamespace(commit_log_file_bytes=SEGMENT_BYTES),
                min_physical_offset=0,
                log=SimpleNamespace(
                    appended_offset=50, files=SimpleNamespace(find=self.found.append)
                ),
            ),
        )
        given: Any = self
        self.server = MemberServer(given, "10.9.*.*", SEGMENT_BYTES)

    def act(self) -> None:
        self.acts += 1

    @property
    def refused_count(self) -> int:
        """How many followers were refused."""
        return self.server.statistics(50)["refused_count"]

    def connect(self, hello: Hello | None = HELLO) -> Any:
        """Return a connection that has said hello, if one is given, with its answer."""
        link = Link(self.server)
        self.server._accepted.add(link.given)
        if hello is not None:
            link.answer = self.server.answer(link.given, hello)
        return link


class Link:
    """A connection of a follower."""

    def __init__(self, server: MemberServer) -> None:
        self.core: Any = None
        self.proof: Any = None
        self.address = "h:2"
        self.accepted_ms = steady_ms()
        self.answer: Answer | None = None
        self.is_closed = False
        self.shipped = self.hellos = 0
        self.given: Any = self
        self._server = server

    def ship(self) -> None:
        self.shipped += 1

    def expect_hello(self) -> None:
        self.hellos += 1

    def close(self) -> None:
        """Close it, which its owner hears of."""
        if not self.is_closed:
            self.is_closed = True
            self._server.forget_follower(self.given)


@on_loop
async def test_a_follower_is_answered_shipped_to_and_counted() -> None:
    master = Master()
    link = master.connect()
    assert (link.answer.refusal, link.answer.epoch, link.answer.common) == ("", 3, 30)
    assert link.answer.checksum == 30 and link.answer.end == 50
    server = master.server
    assert server.acknowledging == set()
    assert server.statistics(50) == {
        "members_count": 0, "behind_bytes_max": 0, "refused_count": 0
    }  # fmt: skip
    server.on_ack(link, Ack(3, 30, is_seeding=True))
    assert master.in_sync.acks == [(2, 30, True)] and master.acts == 1
    assert server.acknowledging == {2}
    assert server.statistics(50)["members_count"] == 1
    assert server.statistics(50)["behind_bytes_max"] == 20
    server.ship()
    assert link.shipped == 1
    assert server.confirmed() == 17


@on_loop
async def test_the_view_is_of_the_log_as_it_is_now() -> None:
    master = Master()
    assert master.server.view() == (
        "g", LOG_ID, 3, (EpochLine(3, 0),), SEGMENT_BYTES, 0, 50
    )  # fmt: skip
    assert master.server._source._find(7) is None and master.found == [7]
    master.election.in_sync = None
    assert master.server.confirmed() == 0


@pytest.mark.parametrize("why", ["no master", "a follower", "closed"])
@on_loop
async def test_only_a_master_answers(why: str) -> None:
    master = Master()
    if why == "no master":
        master.election.in_sync = None
    elif why == "a follower":
        master.run.is_master = False
    else:
        master.run.is_open = False
    assert master.connect().answer is None
    assert master.refused_count == 0


@pytest.mark.parametrize(
    ("changes", "cause", "promise"),
    [
        ({"replica": 1}, "brokerId 1 is the master's own", []),
        ({"group": "h"}, "is of group h", []),
        ({"promise": 4}, "has promised epoch 4", [4]),
        ({"nonce": bytes(NONCE_BYTES)}, "the master has no wakelog.accessKey", []),
    ],
)
@on_loop
async def test_a_master_refuses_what_does_not_fit(
    changes: dict[str, Any], cause: str, promise: list[int]
) -> None:
    master = Master()
    fields = {name: getattr(HELLO, name) for name in HELLO.__struct_fields__} | changes
    link = master.connect(Hello(**fields))
    assert cause in link.answer.refusal
    assert master.promises == promise and master.refused_count == 1
    master.server.on_ack(link, Ack(3, 30, is_seeding=False))
    assert master.in_sync.acks == [] and master.acts == 0
    master.server.ship()
    assert link.shipped == 0


@on_loop
async def test_a_follower_that_proves_itself_later_is_waited_for() -> None:
    master = Master()
    account: Any = ProofAccount("a", "s")
    master.run.account = account
    hello = Hello("g", 2, LOG_ID, 3, SEGMENT_BYTES, 0, 30, ((3, 0),), nonce=bytes(NONCE_BYTES))
    link = master.connect(hello)
    assert link.answer.refusal == "" and link.hellos == 1 and master.refused_count == 0
    assert len(link.answer.nonce) == NONCE_BYTES != link.answer.nonce.count(0)
    assert link.core is None
    link.close()  # it cannot
    assert master.refused_count == 1
    gone = master.connect(hello)
    gone.answer = master.server.answer(gone, hello)
    assert "does not know the secret key" in gone.answer.refusal and gone.hellos == 1
    assert master.refused_count == 2
    gone.close()
    assert master.refused_count == 2, "once each"


@on_loop
async def test_a_second_connection_of_a_replica_ends_the_first() -> None:
    master = Master()
    first, other = master.connect(), master.connect(Hello(*_with_replica(3)))
    for link in (first, other):
        master.server.on_ack(link, Ack(3, 30, is_seeding=False))
    second = master.connect()
    assert first.is_closed and not other.is_closed and not second.is_closed
    assert master.in_sync.lost == [2]
    assert master.server.acknowledging == {3}
    master.server.on_ack(first, Ack(3, 30, is_seeding=False))
    assert len(master.in_sync.acks) == 2, "of a connection that is over"


def _with_replica(replica: int) -> list[Any]:
    return [replica if name == "replica" else getattr(HELLO, name) for name in _FIELDS]


_FIELDS = HELLO.__struct_fields__


@on_loop
async def test_a_false_acknowledgement_is_a_loss() -> None:
    master = Master()
    link = master.connect()
    master.server.on_ack(link, Ack(3, 31, is_seeding=False))
    assert master.in_sync.lost == [2] and master.in_sync.acks == [] and master.acts == 1
    assert master.server.acknowledging == set()


@on_loop
async def test_an_acknowledgement_to_a_master_no_longer_counts_for_nothing() -> None:
    master = Master()
    link = master.connect()
    master.election.in_sync = None
    master.server.on_ack(link, Ack(3, 30, is_seeding=False))
    assert link.core.acked is None and master.acts == 0


@on_loop
async def test_a_connection_that_ends_is_a_loss_once_it_has_acknowledged() -> None:
    master = Master()
    silent, heard = master.connect(), master.connect(Hello(*_with_replica(3)))
    master.server.on_ack(heard, Ack(3, 30, is_seeding=False))
    silent.close()
    assert master.in_sync.lost == []
    heard.close()
    assert master.in_sync.lost == [3] and master.server.acknowledging == set()
    assert not master.server._accepted


@on_loop
async def test_what_no_follower_sends_ends_the_shipping_and_not_the_connection() -> None:
    master = Master()
    link = master.connect()
    master.server.on_ack(link, Ack(3, 30, is_seeding=False))
    master.server.on_broken(link, "noise")
    assert master.refused_count == 1 and not link.is_closed
    assert master.in_sync.lost == [2] and master.server._accepted == {link}
    master.server.ship()
    assert link.shipped == 0


@on_loop
async def test_the_silent_are_dropped() -> None:
    master = Master()
    link, mute = master.connect(), master.connect(None)
    core = link.core
    core._received_ms, mute.accepted_ms = 1_000, 2_000
    master.server.drop_silent(1_000 + SILENT_MS_MAX)
    assert not link.is_closed and not mute.is_closed
    master.server.drop_silent(1_001 + SILENT_MS_MAX)
    assert link.is_closed and not mute.is_closed
    master.server.drop_silent(2_000 + SILENT_MS_MAX)
    assert not mute.is_closed
    master.server.drop_silent(2_001 + SILENT_MS_MAX)
    assert mute.is_closed


@on_loop
async def test_all_that_are_shipped_to_are_dropped_with_the_role() -> None:
    master = Master()
    link, mute = master.connect(), master.connect(None)
    master.server.on_ack(link, Ack(3, 30, is_seeding=False))
    master.server.drop_all()
    assert link.is_closed and not mute.is_closed
    assert master.in_sync.lost == [], "of the next role"
    await master.server.close()
    assert mute.is_closed


class Socket:
    """A socket that was accepted."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("host", "taken", "is_accepted"),
    [
        ("127.0.0.1", 0, True),
        ("10.9.1.2", 0, True),
        ("10.8.1.2", 0, False),
        ("127.0.0.1", CONNECTIONS_MAX - 1, True),
        ("127.0.0.1", CONNECTIONS_MAX, False),
    ],
)
@on_loop
async def test_only_trusted_hosts_may_connect_and_so_many(
    host: str, taken: int, *, is_accepted: bool
) -> None:
    assert read_trusted("10.9.*.*").match("10.9.1.2")
    master, opened = Master(), Socket()
    begun: list[object] = []

    class Connection(Link):
        def __init__(self, server: MemberServer, accepted: Accepted, _source: object) -> None:
            super().__init__(server)
            assert accepted.host == host

        def begin(self) -> None:
            begun.append(self)

    links: Any = [Link(master.server) for _ in range(taken)]
    master.server._accepted |= set(links)
    given: Any = opened
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(member_server, "FollowerConnection", Connection)
        master.server._accept(Accepted(given, f"{host}:9", host, "127.0.0.1"))
    assert len(begun) == is_accepted and opened.is_closed is not is_accepted
    assert len(master.server._accepted) == taken + is_accepted
    assert master.refused_count == (not is_accepted)
