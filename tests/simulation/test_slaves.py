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
from wakelog.broker.replication.ha_client_state import (
    FetchEnded,
    HaClientSettings,
    HaClientState,
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


SHIPS_UNSYNCED = "ships what is not synced"
ACKNOWLEDGES_UNSYNCED = "acknowledges what is not synced"


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

    def __init__(self, master: Node, slave: Node, *mistakes: str) -> None:
        self.master, self.slave, self._mistakes = master, slave, mistakes
        segment_bytes = master.config.commit_log_file_bytes
        begin, end = master.store.min_physical_offset, slave.store.log.end_offset
        about = MasterLog(begin, master.store.log.end_offset, segment_bytes)
        check_log(end, segment_bytes, about)
        first = overlap_begin(slave.store.min_physical_offset, end, about)
        self.shipping = Shipping(ShippingSettings(transfer_bytes=700), NOW_MS)
        self.following = HaClientState(
            HaClientSettings(),
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
        if SHIPS_UNSYNCED in self._mistakes:
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
        if ACKNOWLEDGES_UNSYNCED in self._mistakes:
            durable = self.slave.store.log.end_offset
        self._to_master += self.following.next_report(durable, NOW_MS) or b""


def send_and_copy(
    connection: Connection, chance: Random, sent: list[int], steps: str = "psSkrr"
) -> None:
    """Send, ship and sync in a seeded order. sent: gets where each message ends."""
    master, slave = connection.master, connection.slave
    for step in chance.choices(steps, k=chance.randrange(SENDS_MAX * 4)):
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
        send_and_copy(connection, chance, sent)
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


@pytest.mark.parametrize("mistake", [SHIPS_UNSYNCED, ACKNOWLEDGES_UNSYNCED])
def test_what_4_9_3_does_is_noticed(mistake: str) -> None:
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(SCHEDULES):
            run(seed, mistake)


def lose_one(seed: int, *, master_loses: bool) -> str:
    """Acknowledge from the page cache, and let one of both lose power; then send more.

    Returns: why the slave did not follow again, "" if it did.
    """
    chance = Random(seed)
    master, slave = Node(BrokerRole.SYNC_MASTER), Node(BrokerRole.SLAVE)
    connection = Connection(master, slave, SHIPS_UNSYNCED, ACKNOWLEDGES_UNSYNCED)
    connection.ship(chance)  # an empty slave asks for the segment that is the last one then
    sent: list[int] = []
    send_and_copy(connection, chance, sent, chance.choice(["ppkrrr", "ppppskkrrr"]))
    acknowledged = max([0, *(end for end in sent if end <= connection.acknowledged)])
    expected = master.content(0, acknowledged)
    if master_loses:
        master = master.lose_power(chance)
    else:
        slave = slave.lose_power(chance)
    left = slave if master_loses else master
    assert acknowledged <= left.store.log.end_offset, f"seed {seed}"
    assert left.content(0, acknowledged) == expected, f"seed {seed}"
    for _ in range(chance.choice([0, 1, 40])):
        master.store.put_message(draft(chance.randbytes(chance.randrange(600))), NOW_MS)
    master.store.write_pending()
    master.sync()
    own_end, end = slave.store.log.end_offset, master.store.log.end_offset
    own = slave.content(0, own_end)
    refusal = ""
    try:
        again = Connection(master, slave, SHIPS_UNSYNCED, ACKNOWLEDGES_UNSYNCED)
        while slave.store.log.end_offset < end:
            again.ship(chance)
            again.receive(chance)
    except FetchEnded as error:
        assert error.is_mismatch, f"seed {seed}: {error}"
        refusal = str(error)
        assert slave.store.log.end_offset == own_end, f"seed {seed}"
        assert slave.content(0, own_end) == own, f"seed {seed}"
    else:
        assert slave.content(0, end) == master.content(0, end), f"seed {seed}"
    return refusal


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(SCHEDULES), id="daily"),
        pytest.param(range(SCHEDULES, SCHEDULES_LONG), id="long", marks=pytest.mark.long),
    ],
)
def test_from_the_page_cache_a_power_loss_of_one_loses_nothing_acknowledged(seeds: range) -> None:
    """`haAckDurable=false`; a slave that is ahead or differs is refused, and nothing is written."""
    assert not any(lose_one(seed, master_loses=False) for seed in seeds)
    refusals = [lose_one(seed, master_loses=True) for seed in seeds]
    assert any("this store has what the master lost" in one for one in refusals)
    assert any("it is another log" in one for one in refusals)
    assert "" in refusals


FAILURES = [
    (name, Failure(number, sync_failure=model))
    for name in ("pwrite", "datasync", "sync")
    for number in (errno.EIO, errno.ENOSPC)
    for model in (SyncFailure.CLEAN_NEW, SyncFailure.CLEAN_OLD)
]


def kill(connection: Connection, chance: Random) -> list[int]:
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
        connection = Connection(master, slave)
        sent = kill(connection, chance)
        failed_count += slave.store.log.failure is not None
        acknowledged = max(end for end in sent if end <= connection.acknowledged)
        slave = slave.lose_power(chance)
        assert acknowledged <= slave.store.log.end_offset, f"seed {seed}"
        assert slave.content(0, acknowledged) == master.content(0, acknowledged), f"seed {seed}"
        end, again = master.durable, Connection(master, slave)
        while slave.durable < end:
            again.ship(chance)
            again.receive(chance)
            slave.sync()
        assert slave.content(0, end) == master.content(0, end), f"seed {seed}"
    assert failed_count > len(seeds) // 4
