"""Sequences of six owners of one store, wakelog and the real broker in turn, killed or stopped.

A seed says how each of them ends. Under load a kill comes at a random moment, and synchronous flush
makes every answer a promise: whoever comes next serves what was acknowledged, at its place, nothing
twice, and everything that was served before; its queues are those of a rebuild. The watermark is
believed of a wakelog that ended, whichever way, and never after a real broker.
"""

import asyncio
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.actors.client import Client
from tests.actors.load import QUEUES_COUNT, doubled_count, pull_all
from tests.compat.clusters import Wakelog
from tests.compat.real_rocketmq import RealBroker, RealNameServer
from wakelog.audit.rebuild import Rebuild, run_rebuild
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import read_times
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.recovery.watermark_trust import DurablePositions, known_durable
from wakelog.storage.settings_text import read_settings

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

OWNERS_COUNT = 6
TOPIC = "Owned"
SENDERS_COUNT = 4
KILL_SECONDS = (0.1, 0.6)
BODY_BYTES_MAX = 3_000
STOPPED_AFTER = 120
"""So many messages an owner takes before it is stopped in order."""

# Small files, so that each owner rolls all of them.
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


class Owned:
    """The store, what its clients were told, and what was seen in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = read_settings(
            StoreConfig, {**SETTINGS, "storePathRootDir": str(folder / "store")}
        )
        self.sent_count = 0
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.served: dict[int, list[bytes]] = {}
        self._numbers = count()

    async def create_topic(self, address: str) -> None:
        client = Client(address)
        await client.create_topic(TOPIC, QUEUES_COUNT)
        await client.close()

    async def send_until(self, address: str, enough: asyncio.Event) -> None:
        """Send from several clients until there is enough, or the broker is gone."""
        async with asyncio.TaskGroup() as senders:
            for _ in range(SENDERS_COUNT):
                senders.create_task(self._send(address, enough))

    async def _send(self, address: str, enough: asyncio.Event) -> None:
        client = Client(address)
        try:
            while not enough.is_set():
                number = next(self._numbers)
                self.sent_count += 1
                body = b"%d " % number + b"." * (number * 977 % BODY_BYTES_MAX)
                queue_id = number % QUEUES_COUNT
                answer = await client.send(
                    TOPIC, body, queue_id=queue_id, properties=f"KEYS\x01k{number}\x02"
                )
                if answer.code == ResponseCode.SUCCESS:
                    self.acknowledged[body] = queue_id, int(answer.ext_fields["queueOffset"])
        except RemotingError:
            return  # it was killed, and so nothing more is taken
        finally:
            await client.close()

    def check_served(self, address: str) -> None:
        """Assert that this owner serves all that was promised."""
        queues = asyncio.run(pull_all(address, TOPIC))
        for body, (queue_id, queue_offset) in self.acknowledged.items():
            assert queues[queue_id][queue_offset : queue_offset + 1] == [body], body[:10]
        assert not doubled_count(queues)
        assert sum(map(len, queues.values())) <= self.sent_count
        for queue_id, before in self.served.items():
            assert queues[queue_id][: len(before)] == before
        self.served = queues

    def check_queues(self) -> None:
        """Assert that the queues hold what a rebuild from the log gives.

        A real broker leaves entries of what it cut behind a queue's end.
        """
        root, target = Path(self.config.paths.root), self.folder / "rebuilt"
        run_rebuild(Rebuild(FileSystem(), self.config, str(target)))
        queues = {queue_id: bodies for queue_id, bodies in self.served.items() if bodies}
        for queue_id, bodies in queues.items():
            place = Path("consumequeue") / TOPIC / str(queue_id)
            found, expected = (
                b"".join(path.read_bytes() for path in sorted((at / place).iterdir()))
                for at in (root, target)
            )
            assert found[: 20 * len(bodies)] == expected.rstrip(b"\0").ljust(
                20 * len(bodies), b"\0"
            )
        shutil.rmtree(target, ignore_errors=True)  # there is none before the first message

    def durable(self) -> DurablePositions:
        """Return how far the next wakelog will take the log for durable."""
        fs = FileSystem()
        files = commit_log_files(fs, self.config, read_only=True)
        files.load()
        try:
            times = read_times(fs, self.config.paths.checkpoint)
            return known_durable(fs, self.config, files, times)
        finally:
            files.close()


class WakelogOwner:
    """`wakelog up --local`."""

    is_ours = True

    def __init__(self, folder: Path, store: Path, _name_server: str) -> None:
        # What a killed process leaves of its temporary files goes with the test's folder.
        self._wakelog = Wakelog(
            folder, store=store, settings=SETTINGS, flags=["--local"], temporary=folder.parent
        )
        self.address = self._wakelog.cluster.broker
        self.stop, self.kill = self._wakelog.stop, self._wakelog.kill

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._wakelog.process:
            self._wakelog.wait_ready()
            yield


class RealOwner:
    """4.9.3's own broker."""

    is_ours = False

    def __init__(self, folder: Path, store: Path, name_server: str) -> None:
        self._broker = RealBroker(folder, store, name_server=name_server, settings=SETTINGS)
        self.address = self._broker.address
        self.stop, self.kill = self._broker.stop, self._broker.kill

    @contextmanager
    def running(self) -> Iterator[None]:
        self._broker.start()
        try:
            yield
        finally:
            self._broker.kill()


async def live(owned: Owned, owner: WakelogOwner | RealOwner, kill_after: float | None) -> None:
    """Send to an owner, and end it: kill it under load after a time, or stop it in order."""
    enough = asyncio.Event()
    before = len(owned.acknowledged)
    sending = asyncio.create_task(owned.send_until(owner.address, enough))
    if kill_after is not None:
        while len(owned.acknowledged) == before:
            await asyncio.sleep(0)
        await asyncio.sleep(kill_after)
        await asyncio.to_thread(owner.kill)
        await sending
        return
    while len(owned.acknowledged) < before + STOPPED_AFTER:
        await asyncio.sleep(0)
    enough.set()
    await sending
    await asyncio.to_thread(owner.stop)


@pytest.mark.long
@pytest.mark.parametrize("seed", [13, *range(20, 26)])
def test_six_owners_in_turn(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    owned = Owned(tmp_path)
    pair: list[type[WakelogOwner] | type[RealOwner]] = [WakelogOwner, RealOwner]
    chance.shuffle(pair)
    with ExitStack() as stack:
        name_server = RealNameServer()
        stack.callback(name_server.kill)
        for number, kind in enumerate(pair * (OWNERS_COUNT // 2)):
            kill_after = chance.uniform(*KILL_SECONDS) if chance.random() < 0.7 else None
            folder = tmp_path / f"owner-{number}"
            owner = kind(folder, tmp_path / "store", name_server.address)
            with owner.running():
                if number == 0:
                    asyncio.run(owned.create_topic(owner.address))
                owned.check_served(owner.address)
                owned.check_queues()
                asyncio.run(live(owned, owner, kill_after))
            durable = owned.durable()
            if owner.is_ours:
                # It moves once a second; recovery sets it first, and a stop in order last. Of a new
                # store whose first owner was killed it may not have moved.
                assert durable.doubt is None
                assert durable.watermark > 0 or (number == 0 and kill_after is not None)
            else:
                assert durable.watermark == 0
                assert durable.doubt is not None or number < 2
