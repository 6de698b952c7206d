"""The Broker's death over a log of 1 GiB: clients send again within seconds, cached or not.

Only in a long run, which says what it measured.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.actors.deployments import wait_until
from tests.actors.kill_incidents import Incident, read_back
from tests.actors.load import QUEUES_COUNT, Load, doubled_count
from tests.actors.programs import Up, running_up
from tests.actors.supervised_brokers import BROKER_STALL_MS_MAX
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.message_store import MessageStore

pytestmark = [
    pytest.mark.ray,
    pytest.mark.kill,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(600),
]

LOG_BYTES = 1 << 30
BODY_BYTES = 1 << 10
BATCH_COUNT = 64
ROUNDS_COUNT = 5
BROKER_PROCESS = "ray::BrokerActor"
USUAL_FILES = (
    "mappedFileSizeCommitLog=1073741824",
    "mappedFileSizeConsumeQueue=6000000",
    "maxHashSlotNum=5000000",
    "maxIndexNum=20000000",
)
"""4.9.3's sizes, which are ours too, instead of the small ones of tests."""


def fill_log(root: Path) -> None:
    """Make a store whose log holds 1 GiB, its queues to be made by whoever opens it."""
    now_ms = time.time_ns() // 1_000_000
    store = MessageStore.open(
        FileSystem(),
        StoreConfig(store_path_root=str(root)),
        now_ms,
        physical_memory_bytes=1 << 34,
    )
    body = os.urandom(BODY_BYTES)
    number = 0
    while store.max_physical_offset < LOG_BYTES:
        queue_id = number // BATCH_COUNT % QUEUES_COUNT
        outer = MessageDraft("filled", queue_id, b"", born_timestamp_ms=now_ms)
        messages = [(0, body, b"KEYS\x01%d\x02" % n) for n in range(number, number + BATCH_COUNT)]
        store.put_batch(EncodedBatch(outer, messages), now_ms)
        store.write_pending()
        number += BATCH_COUNT
    store.close(dispatch_behind_bytes=store.max_physical_offset)


def forget_pages(root: Path) -> None:
    """Have the kernel drop every page of a store from its cache."""
    for path in root.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def broker_process(up: Up) -> int:
    """Return the id of the Broker's process, 0 while there is none."""
    found = [one for one, line in up.processes().items() if line.startswith(BROKER_PROCESS)]
    return found[0] if found else 0


async def kill_broker(up: Up, store: Path, case: str, number: int) -> Incident:
    address = up.addresses[0]
    topic = f"long-{case[-4:]}-{number}"
    load = Load(address, topic, body_bytes=BODY_BYTES)
    account = load.account
    load.start()
    try:
        await wait_until(lambda: len(account.acknowledged) >= 500, "load")
        process_id: int = await wait_until(lambda: broker_process(up), "a Broker")
        if case.endswith("cold"):
            await asyncio.get_running_loop().run_in_executor(None, forget_pages, store)
        killed_at = time.monotonic()
        os.kill(process_id, signal.SIGKILL)
        failed_at: float = await wait_until(
            lambda: next((at for at in account.failed_at if at >= killed_at), 0.0), "noticed"
        )
        await wait_until(lambda: account.gaps_ms[-1][0] > failed_at, "a send", 60.0)
        await asyncio.sleep(1)  # what stalls after the first send belongs to it
    finally:
        await load.stop()
    queues = await read_back(address, topic, account)
    return Incident(
        case=case,
        role="Broker",
        transport="notifications",
        number=number,
        stall_ms=round(account.longest_gap_ms(killed_at)),
        back_ms=round((account.longest_gap_end(killed_at) - killed_at) * 1000),
        noticed_ms=round((failed_at - killed_at) * 1000),
        lost=len(account.lost(queues)),
        doubled=doubled_count(queues),
        acknowledged=len(account.acknowledged),
        load_average=round(os.getloadavg()[0], 1),
    )


@contextmanager
def filled_up(root: Path) -> Iterator[Up]:
    """Run a broker over a filled store."""
    fill_log(root)
    with running_up(root, settings=USUAL_FILES) as up:
        up.wait_ready()
        yield up
        up.stop()


def test_clients_send_again_soon_after_the_broker_of_a_long_log_died(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    store = tmp_path / "store"
    with filled_up(store) as up:
        for case in ("long log, warm", "long log, cold"):
            for number in range(ROUNDS_COUNT):
                incident = asyncio.run(kill_broker(up, store, case, number))
                record_property("said", incident)
                assert (incident.lost, incident.doubled) == (0, 0)
                assert incident.back_ms <= BROKER_STALL_MS_MAX
