"""Load for tests of crashes: senders that go on whatever happens, and the proof afterwards."""

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.actors.client import Client, records
from wakelog.dispatchers import core_dispatchers
from wakelog.dispatchers.reput import Reput
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader

QUEUES_COUNT = 4
PAUSE_SECONDS = 0.02
THINK_SECONDS = 0.002
"""Between two sends of a sender: the load is to be there, not to take the machine."""

TIMEOUT_SECONDS = 8.0


@dataclass
class Account:
    """What was sent: each attempt has a body of its own."""

    attempts: int = 0
    acknowledged: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    refused_codes: dict[int, int] = field(default_factory=dict)
    gaps_ms: list[tuple[float, float]] = field(default_factory=list)
    """When a send was answered well after a wait, and how long the wait was."""
    failed_at: list[float] = field(default_factory=list)
    """When a send had no answer."""

    def answered_since(self, since: float) -> bool:
        """Return whether a send was acknowledged after `since`."""
        return bool(self.gaps_ms) and self.gaps_ms[-1][0] > since

    def longest_gap_ms(self, since: float) -> float:
        """Return the longest time without any acknowledgement that ended after `since`."""
        return max((gap for end, gap in self.gaps_ms if end >= since), default=0.0)

    def longest_gap_end(self, since: float) -> float:
        """Return when that was over."""
        longest_ms = self.longest_gap_ms(since)
        return next((end for end, gap in self.gaps_ms if end >= since and gap == longest_ms), since)

    def lost(self, queues: dict[int, list[bytes]]) -> list[bytes]:
        """Return what was acknowledged and is not where the answer said."""
        return [
            body
            for body, (queue_id, queue_offset) in self.acknowledged.items()
            if queues[queue_id][queue_offset : queue_offset + 1] != [body]
        ]


class Load:
    """Senders that run until they are told to stop."""

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        senders: int = 4,
        body_bytes: int = 200,
        think_seconds: float = THINK_SECONDS,
        properties: str = "",
    ) -> None:
        self.account = Account()
        self._address = address
        self.topic = topic
        self._padding = b"." * body_bytes
        self._senders_count = senders
        self._think_seconds = think_seconds
        self._properties = properties
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._last_answer = time.monotonic()

    def start(self) -> None:
        self._last_answer = time.monotonic()
        for sender in range(self._senders_count):
            self._tasks.append(asyncio.get_running_loop().create_task(self._send(sender)))

    async def stop(self) -> Account:
        self._stopping = True
        await asyncio.gather(*self._tasks)
        return self.account

    async def _send(self, sender: int) -> None:
        client = Client(self._address)
        account = self.account
        number = 0
        while not self._stopping:
            number += 1
            account.attempts += 1
            body = b"%d-%d" % (sender, number) + self._padding
            queue_id = (sender + number) % QUEUES_COUNT
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    answer = await client.send(
                        self.topic,
                        body,
                        queue_id=queue_id,
                        properties=f"KEYS\x01{sender}-{number}\x02{self._properties}",
                    )
            except (RemotingError, TimeoutError):
                account.failed_at.append(time.monotonic())
                await client.close()
                client = Client(self._address)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.code == ResponseCode.SUCCESS:
                account.acknowledged[body] = queue_id, int(answer.ext_fields["queueOffset"])
                now = time.monotonic()
                account.gaps_ms.append((now, (now - self._last_answer) * 1000))
                self._last_answer = now
                await asyncio.sleep(self._think_seconds)
            else:
                count = account.refused_codes.get(answer.code, 0)
                account.refused_codes[answer.code] = count + 1
                await asyncio.sleep(PAUSE_SECONDS)
        await client.close()


async def pull_all(
    address: str, topic: str, *, shorten: Callable[[bytes], bytes] = lambda body: body
) -> dict[int, list[bytes]]:
    """Return the bodies of every queue, in order, or what is kept of each."""
    client = Client(address)
    found: dict[int, list[bytes]] = {}
    for queue_id in range(QUEUES_COUNT):
        bodies = found.setdefault(queue_id, [])
        while (answer := await client.pull(topic, len(bodies), queue_id=queue_id)).code == 0:
            bodies += [shorten(record.body) for record in records(answer)]
    await client.close()
    return found


def doubled_count(queues: dict[int, list[bytes]]) -> int:
    """Return how many messages are there more than once."""
    every = [body for bodies in queues.values() for body in bodies]
    return len(every) - len(set(every))


def check_nothing_lost_or_doubled(account: Account, queues: dict[int, list[bytes]]) -> None:
    """Assert that what was acknowledged is where the answer said, and nothing is there twice."""
    assert [body[:20] for body in account.lost(queues)] == []
    assert not doubled_count(queues), "a request was appended twice"
    assert sum(map(len, queues.values())) <= account.attempts


def check_queues_equal_a_rebuild(config: StoreConfig, directory: Path) -> int:
    """Assert that queues and index are those of a rebuild from the log; return how many files."""
    root = Path(config.store_path_root)
    rebuilt_root = directory / "rebuilt"
    shutil.copytree(root / "commitlog", rebuilt_root / "commitlog")
    rebuilt_config = StoreConfig(
        store_path_root=str(rebuilt_root),
        commit_log_file_bytes=config.commit_log_file_bytes,
        consume_queue_file_bytes=config.consume_queue_file_bytes,
        index_slot_count=config.index_slot_count,
        index_entry_count=config.index_entry_count,
    )
    fs = FileSystem()
    log = CommitLogReader(fs, rebuilt_config)
    reput = Reput(fs, log, core_dispatchers(fs, rebuilt_config, log), rebuilt_config)
    end = log.min_offset + sum(path.stat().st_size for path in (root / "commitlog").iterdir())
    reput.start(end, clean_exit=False)
    while reput.step(end, 1 << 24, 0).more:
        pass
    reput.flush()
    queues, rebuilt = (
        sorted(path.relative_to(at) for path in (at / "consumequeue").rglob("0*") if path.is_file())
        for at in (root, rebuilt_root)
    )
    assert queues == rebuilt
    for path in queues:
        assert (root / path).read_bytes() == (rebuilt_root / path).read_bytes(), path
    # An index file's name is the time at which it was made.
    indexes, rebuilt_indexes = (sorted((at / "index").iterdir()) for at in (root, rebuilt_root))
    assert len(indexes) == len(rebuilt_indexes)
    for index, rebuilt_index in zip(indexes, rebuilt_indexes, strict=True):
        assert index.read_bytes() == rebuilt_index.read_bytes(), index
    return len(queues)
