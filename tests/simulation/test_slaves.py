"""A master, its slave, and a power loss of both: what was acknowledged is there, and equal.

Two stores, each on a simulated disk of its own, and one connection between them without time. At a
seeded moment both lose power. Each disk may have anything of what was not synced.
"""

import errno
from random import Random

import pytest

from tests.fakes.logs import draft
from tests.fakes.stores import open_store, store_config
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.faults import Failure, SyncFailure
from tests.simulation.images import Model, Platter
from tests.simulation.journal import Mark
from wakelog.broker.replication.following import (
    Following,
    FollowingSettings,
    MasterLog,
    check_log,
    overlap_begin,
)
from wakelog.broker.replication.shipping import LogRange, Shipping, ShippingSettings
from wakelog.storage.config import BrokerRole
from wakelog.storage.errors import StoreError
from wakelog.storage.message_store import MessageStore

NOW_MS = 1_700_000_000_000
SENDS_MAX = 50
SCHEDULES, SCHEDULES_LONG = 60, 4_000
"""Some 30 sends each: 100,000 in a long run."""


class Node:
    """A store on a disk, and how far it is synced."""

    def __init__(self, role: BrokerRole, image: Image | None = None) -> None:
        self.disk = SimulatedDisk(image)
        self.config = store_config(broker_role=role)
        self.store: MessageStore = open_store(self.disk.process(), self.config)
        self.durable = self.store.log.end_offset

    def sync(self) -> None:
        self.store.make_durable()
        self.durable = self.store.log.end_offset

    def content(self, begin: int, end: int) -> bytes:
        data = bytearray()
        while begin < end:
            file = self.store.log.files.find(begin)
            assert file is not None
            size = min(end, file.end_offset) - begin
            data += file.read(file.position_of(begin), size)
            begin += size
        return bytes(data)

    def lose_power(self, chance: Random) -> "Node":
        """Return the store as it is after a start on what the disk has kept."""
        platter = Platter(self.disk.origin, chance.choice([*Model]))
        for operation in self.disk.journal:
            if not isinstance(operation, Mark):
                platter.take(operation)
        chosen = chance.choice([*platter.candidates(chance)])
        return Node(self.config.broker_role, platter.image(chosen, platter.torn(chance)))


class Connection:
    """From a slave to its master; bytes wait on either way until they are moved."""

    def __init__(self, master: Node, slave: Node, mistake: str) -> None:
        self.master, self.slave, self._mistake = master, slave, mistake
        segment_bytes = master.config.commit_log_file_bytes
        begin, end = master.store.min_physical_offset, slave.store.log.end_offset
        about = MasterLog(begin, master.store.log.end_offset, segment_bytes)
        check_log(end, segment_bytes, about)
        first = overlap_begin(slave.store.min_physical_offset, end, about)
        self.shipping = Shipping(ShippingSettings(transfer_bytes=700), NOW_MS)
        self.following = Following(
            FollowingSettings(),
            about,
            own_end=end,
            overlap=slave.content(first, end),
            now_ms=NOW_MS,
        )
        self._to_master, self._to_slave = self.following.first_report(), b""

    @property
    def acknowledged(self) -> int:
        """Below which offset sends are answered with 0: slaves alone are waited for here."""
        return self.shipping.acked or 0

    def ship(self, chance: Random) -> None:
        """Let the master hear the slave, and send some of what is durable."""
        end = self.master.durable
        if self._mistake == "ships what is not synced":
            end = self.master.store.log.end_offset
        log = LogRange(self.master.store.min_physical_offset, end, 4096)
        self.shipping.receive(self._to_master, log, NOW_MS)
        assert not self.shipping.refusal
        self._to_master = b""
        for _ in range(chance.randrange(1, 6)):
            piece = self.shipping.next_piece(log, NOW_MS)
            if piece is None:
                break
            data = self.master.content(piece.offset, piece.offset + piece.size_bytes)
            self._to_slave += piece.header + data

    def receive(self, chance: Random) -> None:
        """Let the slave append some of what came, without a sync."""
        size = chance.randrange(1 + len(self._to_slave))
        for part in self.following.receive(self._to_slave[:size], NOW_MS):
            self.slave.store.append_bytes(
                part.offset, part.data, stored_ms=part.stored_ms, now_ms=NOW_MS
            )
        self.slave.store.write_pending()
        self._to_slave = self._to_slave[size:]
        durable = self.slave.durable
        if self._mistake == "acknowledges what is not synced":
            durable = self.slave.store.log.end_offset
        self._to_master += self.following.next_report(durable, NOW_MS) or b""


def run(seed: int, mistake: str = "") -> tuple[int, int]:
    """Send, ship and sync in a seeded order until both lose power.

    Returns: how many messages were sent, and how many bytes acknowledged.
    """
    chance = Random(seed)
    master, slave = Node(BrokerRole.SYNC_MASTER), Node(BrokerRole.SLAVE)
    sent: list[int] = []
    acknowledged = 0
    for _ in range(2):  # the second time the slave has a log, and an overlap
        connection = Connection(master, slave, mistake)
        for step in chance.choices("psSkrr", k=chance.randrange(SENDS_MAX * 4)):
            match step:
                case "p":
                    body = chance.randbytes(chance.randrange(600))
                    put = master.store.put_message(draft(body, queue_id=len(sent) % 3), NOW_MS)
                    master.store.write_pending()
                    sent.append(put.physical_offset_end)
                case "s":
                    master.sync()
                case "S":
                    slave.sync()
                case "k":
                    connection.ship(chance)
                case "r":
                    connection.receive(chance)
        # A blank at the end of a segment may be acknowledged, and is no part of a log's end.
        acknowledged = max([0, *(end for end in sent if end <= connection.acknowledged)])
        expected = master.content(0, acknowledged)
        master, slave = master.lose_power(chance), slave.lose_power(chance)
        ends = master.store.log.end_offset, slave.store.log.end_offset
        assert acknowledged <= ends[1], f"seed {seed}: acknowledged {acknowledged}, kept {ends}"
        assert slave.content(0, acknowledged) == expected, f"seed {seed}"
        assert ends[1] <= ends[0], f"seed {seed}: the slave is ahead, {ends}"
        assert slave.content(0, ends[1]) == master.content(0, ends[1]), f"seed {seed}"
        sent = [end for end in sent if end <= ends[0]]
    return len(sent), acknowledged


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(SCHEDULES), id="daily"),
        pytest.param(range(SCHEDULES, SCHEDULES_LONG), id="long", marks=pytest.mark.long),
    ],
)
def test_what_was_acknowledged_is_kept_and_the_slave_is_never_ahead(seeds: range) -> None:
    """Checks 6 and 14."""
    done = [run(seed) for seed in seeds]
    assert sum(sent_count for sent_count, _ in done) > 15 * len(seeds)
    assert sum(acknowledged > 4096 for _, acknowledged in done) > len(seeds) // 3


@pytest.mark.parametrize("mistake", ["ships what is not synced", "acknowledges what is not synced"])
def test_what_4_9_3_does_is_noticed(mistake: str) -> None:
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(SCHEDULES):
            run(seed, mistake)


FAILURES = [
    (name, Failure(number, sync_failure=model))
    for name in ("pwrite", "datasync", "sync")
    for number in (errno.EIO, errno.ENOSPC)
    for model in (SyncFailure.CLEAN_NEW, SyncFailure.CLEAN_OLD)
]


def strike(connection: Connection, chance: Random) -> list[int]:
    """Send and ship while the slave's disk fails at some time; return where messages end."""
    master, slave, sent = connection.master, connection.slave, [0]
    fails_after = chance.randrange(60)
    for step in range(fails_after + 40):
        if step == fails_after:
            slave.disk.faults.fail_always(*chance.choice(FAILURES))
        body = chance.randbytes(chance.randrange(400))
        sent.append(master.store.put_message(draft(body), NOW_MS).physical_offset_end)
        master.store.write_pending()
        master.sync()
        connection.ship(chance)
        try:
            connection.receive(chance)
            if chance.random() < 0.5:
                slave.sync()
        except StoreError:
            connection.ship(chance)  # what was reported before may still be on its way
            break
    return sent


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(40), id="daily"),
        pytest.param(range(40, 2_000), id="long", marks=pytest.mark.long),
    ],
)
def test_a_slave_whose_disk_fails_acknowledges_nothing_more_and_goes_on_later(
    seeds: range,
) -> None:
    """Check 13."""
    failed_count = 0
    for seed in seeds:
        chance = Random(seed)
        master, slave = Node(BrokerRole.SYNC_MASTER), Node(BrokerRole.SLAVE)
        connection = Connection(master, slave, "")
        sent = strike(connection, chance)
        failed_count += slave.store.log.failure is not None
        acknowledged = max(end for end in sent if end <= connection.acknowledged)
        slave = slave.lose_power(chance)
        assert acknowledged <= slave.store.log.end_offset, f"seed {seed}"
        assert slave.content(0, acknowledged) == master.content(0, acknowledged), f"seed {seed}"
        end, again = master.durable, Connection(master, slave, "")
        while slave.durable < end:
            again.ship(chance)
            again.receive(chance)
            slave.sync()
        assert slave.content(0, end) == master.content(0, end), f"seed {seed}"
    assert failed_count > len(seeds) // 4
