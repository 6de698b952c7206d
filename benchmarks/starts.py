"""The rows ``starts-N``: when a broker is ready again over a store with a message in N queues.

The store is made once, through the store's own code, and copied for each run, so that both sides
begin with the same files. A side is started over its copy, stopped in order and started again; then
all its processes are killed at once, and it is started a third time. Then it gets a slave. Once the
slave has log, topics and offsets, all are killed, and the slave's store is started as a new master.
The first start is not counted: it is over a store that another broker left.

    python -m benchmarks.starts --queues 100000 [--folder FOLDER]

measures wakelog alone: 4.9.3 needs a descriptor a queue, and does not start over so many.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.held import QUEUES_COUNT, add_topics, topic_name
from benchmarks.load import Run, memory
from benchmarks.sides import SLAVE_STORE, Side, Wakelog
from benchmarks.slaves import FOLLOWED_SECONDS_MAX, wait_followed, wait_until
from wakelog.actors.services.dispatch import Dispatch
from wakelog.actors.services.session import AttachRequest
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.message_store import MessageStore

BODY = bytes(100)
TOPICS_PATH = "config/topics.json"
TOPICS_TOGETHER = 100
SETTLE_SECONDS = 3.0
"""Longer than queues and index wait for their sync."""


class StartStore:
    """A store that was stopped in order, with one message in each of its queues."""

    def __init__(self, folder: Path, queues_count: int) -> None:
        """Write it."""
        self._folder = folder
        queues_each = min(QUEUES_COUNT, queues_count)
        topics_count = queues_count // queues_each
        add_topics(folder, topics_count, queues_each)
        write_messages(folder, topics_count, queues_each)

    def copy_into(self, store: Path) -> None:
        """Copy all of it; the disk has nothing to write when a side begins."""
        command = ["cp", "-R", "--sparse=always", f"{self._folder}/.", str(store)]
        subprocess.run(command, check=True)
        os.sync()


def write_messages(store: Path, topics_count: int, queues_each: int) -> None:
    """Put a message into each queue, with its key, and make queues and index."""
    fs, config = FileSystem(), StoreConfig(store_path_root=str(store))
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    opened = MessageStore.open(fs, config, _now_ms(), physical_memory_bytes=memory_bytes)
    known = AttachRequest(
        epoch=1,
        store_id="",
        appended=0,
        committed=0,
        flushed=0,
        readable=0,
        dispatched=0,
        delay_positions={},
        clean_exit=True,
        dispatch_from=0,
    )
    dispatch = Dispatch(fs, config, known)
    for number in range(topics_count):
        for queue_id in range(queues_each):
            key = f"UNIQ_KEY\x01{number * queues_each + queue_id:032X}\x02"
            draft = MessageDraft(topic_name(number), queue_id, BODY, properties_text=key)
            opened.put_message(draft, _now_ms())
        if number % TOPICS_TOGETHER == TOPICS_TOGETHER - 1 or number == topics_count - 1:
            opened.write_pending()
            while dispatch.step(opened.max_physical_offset).more:
                pass
    opened.set_dispatched(dispatch.core.position)
    dispatch.close()
    opened.close(dispatch_behind_bytes=0)


def _started(side: Side, ending: str) -> Run:
    cost = side.cost()
    figures: Run = {
        f"{ending}_seconds": side.ready_seconds,
        f"{ending}_cpu_seconds": cost.cpu_seconds,
    }
    return figures | memory(cost)


def _follow(side: Side) -> None:
    """Give a side that ends a slave, and return once the slave lacks nothing of it.

    A slave of 4.9.3 asks for tables every 10 s.
    """
    side.kill()
    side.settings = {**side.settings, "brokerRole": "SYNC_MASTER"}
    side.start_again()
    side.add_slave()
    wait_followed(side)
    wanted = (side.store / TOPICS_PATH).read_bytes().count(b'"topicName"')
    copied = side.folder / SLAVE_STORE / TOPICS_PATH
    wait_until(
        lambda: copied.is_file() and copied.read_bytes().count(b'"topicName"') >= wanted,
        FOLLOWED_SECONDS_MAX,
        "all topics at the slave",
    )
    time.sleep(SETTLE_SECONDS)


def measure_starts(make_side: Callable[[], Side]) -> tuple[Run, Mapping[str, object]]:
    """Start, stop, start, kill, start, promote; return figures and configuration."""
    side = make_side()
    try:
        run: Run = {"errors": 0, "messages": 1, "busy_percent": {}}
        endings: Mapping[str, Callable[[], None]] = {
            "orderly": partial(side.stop, in_order=True),
            "killed": side.kill,
        }
        for ending, end in endings.items():
            time.sleep(SETTLE_SECONDS)
            end()
            side.start_again()
            run |= _started(side, ending)
        _follow(side)
        side.lead_from_slave()
        return run | _started(side, "promoted"), side.configuration
    finally:
        side.kill()


def _now_ms() -> int:
    return int(time.time() * 1000)


def main(arguments: Sequence[str]) -> int:
    """Measure wakelog alone over as many queues as were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("--queues", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where the stores are")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wakelog-starts-", dir=options.folder) as name:
        store = StartStore(Path(name) / "made", options.queues)
        run, _ = measure_starts(lambda: Wakelog(Path(name) / "side", {}, store.copy_into))
    print({figure: round(number, 2) for figure, number in run.items() if number})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
