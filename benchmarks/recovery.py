"""How long a store takes to be ready again after kill -9, by the size of its log.

    python -m benchmarks.recovery [--gigabytes 1 4 10] [--rounds 5] [--folder DIRECTORY]

One process writes a log through the store's own code: batches of messages of 1 KiB with two keys
each. The log is synced as asynchronous flush does it. The messages are dispatched to queues and
index, which are synced once a second. It is killed in the middle of that. The next one opens the
store and dispatches until nothing is left, which is when a broker lets clients in; then it writes
on until it is killed too.

    open      lock, recovery, abort mark: the log can be written
    dispatch  queues and index are opened, checked, and made again up to the log's end

Cold rounds begin with no page of the store in the page cache. Starting Python is no part of it.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.kept import RESULTS, row_lines
from wakelog.actors.services.dispatch import Dispatch
from wakelog.actors.services.session import AttachRequest
from wakelog.dispatchers.reput import FlushJob
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.log.flush import SegmentSync
from wakelog.storage.message_store import MessageStore

GIGABYTE = 1_000_000_000
BODY_BYTES = 1024
BATCH_COUNT = 64
QUEUES_COUNT = 8
TOPIC = "recovered"
FLUSH_SECONDS = 0.5
"""Of the log, as asynchronous flush."""
DERIVED_SECONDS = 1.0
"""Of queues, index, checkpoint and watermark, as Reput and Flush."""
PACE_BYTES_PER_SECOND = 40_000_000
"""Once the log has its size: what two cores take from clients."""
LIVE_SECONDS = (1.5, 3.5)
"""How long a recovered process writes before it is killed."""
SEED = 20_493


class Recovery(NamedTuple):
    """One start over a store that a killed process left; `checked_bytes` and on are of the log."""

    gigabytes: int
    cold: bool
    log_bytes: int
    open_ms: int
    dispatch_ms: int
    checked_bytes: int
    records_checked: int
    dispatched_bytes: int

    @property
    def whole_ms(self) -> int:
        """How long until clients are let in."""
        return self.open_ms + self.dispatch_ms


class Owner:
    """What Broker, Flush and Reput do with a store, in one process and one thread."""

    def __init__(self, config: StoreConfig) -> None:
        """Recover, and dispatch to the log's end; `report` says what that took."""
        fs = FileSystem()
        began_seconds = time.perf_counter()
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._store = MessageStore.open(fs, config, _now_ms(), physical_memory_bytes=memory_bytes)
        opened_seconds = time.perf_counter()
        report, end = self._store.recovery, self._store.max_physical_offset
        known = AttachRequest(
            epoch=1,
            store_id="",
            appended=end,
            committed=end,
            flushed=end,
            readable=end,
            dispatched=report.dispatch_from,
            delay_positions={},
            clean_exit=report.clean_exit,
            dispatch_from=report.dispatch_from,
        )
        self._dispatch = Dispatch(fs, config, known)
        begin = self._dispatch.core.position
        self._catch_up()
        self.report = {
            "log_bytes": end - report.log_begin,
            "open_ms": round((opened_seconds - began_seconds) * 1000),
            "dispatch_ms": round((time.perf_counter() - opened_seconds) * 1000),
            "checked_bytes": end - report.checked_from,
            "records_checked": report.records_checked_count,
            "dispatched_bytes": end - begin,
        }
        self._fs = fs
        self._segments = SegmentSync(fs, config.commit_log_file_bytes)
        self._checkpoint = Checkpoint(fs, config.paths.checkpoint)
        self._watermark = Watermark(fs, config.paths.watermark)
        self._flushed = end
        self._stored_ms = 0
        self._batches = count(end // BATCH_COUNT // BODY_BYTES)

    @property
    def log_bytes(self) -> int:
        """How long the log is."""
        return self._store.max_physical_offset - self._store.min_physical_offset

    def write(self) -> None:
        """Put one batch and dispatch it."""
        now_ms, first = _now_ms(), next(self._batches) * BATCH_COUNT
        queue_id = first // BATCH_COUNT % QUEUES_COUNT
        outer = MessageDraft(TOPIC, queue_id, b"", born_timestamp_ms=now_ms)
        messages = [
            (
                0,
                b"%016d" % n * (BODY_BYTES // 16),
                b"KEYS\x01key-%d\x02UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % (n, n),
            )
            for n in range(first, first + BATCH_COUNT)
        ]
        batch = EncodedBatch(outer, messages)
        self._stored_ms = self._store.put_batch(batch, now_ms).store_timestamp_ms
        self._store.write_pending()
        self._catch_up()

    def flush_log(self) -> None:
        """Sync the log."""
        held = set(self._segments.start_offsets)
        for file in self._store.log.files.files:
            if file.start_offset not in held and file.end_offset > self._flushed:
                self._segments.adopt(file.start_offset, os.dup(file.fd))
        end = self._store.max_physical_offset
        self._segments.sync(self._flushed, end)
        self._flushed = end

    def flush_derived(self) -> None:
        """Sync queues and index; say how far everything is durable."""
        self.flush_log()
        job: FlushJob = self._dispatch.core.prepare_flush()
        self._dispatch.run(job)
        self._watermark.note(self._flushed, self._stored_ms)
        self._checkpoint.set_physic(self._stored_ms)

    def abandon(self) -> None:
        """Let the files go as if Reput had died with work left: the next one has to recover."""
        self._segments.close()
        self._checkpoint.close()
        self._watermark.close()
        self._store.close(dispatch_behind_bytes=1)

    def _catch_up(self) -> None:
        end = self._store.max_physical_offset
        while self._dispatch.step(end).more:
            pass
        self._store.set_dispatched(self._dispatch.core.position)


def own(root: Path, log_bytes: int) -> None:
    """Open a store, say how long that took, and write it until somebody kills this process."""
    owner = Owner(StoreConfig(store_path_root=str(root)))
    print(json.dumps(owner.report), flush=True)
    was_full = False
    flush_seconds = derived_seconds = time.monotonic()
    while True:
        owner.write()
        now_seconds = time.monotonic()
        if now_seconds >= derived_seconds + DERIVED_SECONDS:
            owner.flush_derived()
            flush_seconds = derived_seconds = now_seconds
        elif now_seconds >= flush_seconds + FLUSH_SECONDS:
            owner.flush_log()
            flush_seconds = now_seconds
        if owner.log_bytes >= log_bytes:
            if not was_full:
                print("full", flush=True)
                was_full = True
            time.sleep(BATCH_COUNT * BODY_BYTES / PACE_BYTES_PER_SECOND)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def killed_owner(root: Path, log_bytes: int, live_seconds: float) -> dict[str, int]:
    """Run an owner, kill it a time after the log has its size; return what it report."""
    command = [sys.executable, "-m", "benchmarks.recovery", "--own", str(root), str(log_bytes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        report: dict[str, int] = json.loads(process.stdout.readline())
        if process.stdout.readline() != "full\n":
            raise RuntimeError("the owner of the store ended")
        time.sleep(live_seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return report


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


def measure(root: Path, gigabytes: int, rounds: int) -> Iterator[Recovery]:
    """Kill and open a store of this size; the store stays, and can be grown."""
    chance = random.Random(f"{SEED} {gigabytes}")
    log_bytes = gigabytes * GIGABYTE
    killed_owner(root, log_bytes, chance.uniform(*LIVE_SECONDS))
    for number in range(2 * rounds):
        cold = number % 2 == 1
        if cold:
            forget_pages(root)
        report = killed_owner(root, log_bytes, chance.uniform(*LIVE_SECONDS))
        yield Recovery(gigabytes=gigabytes, cold=cold, **report)


def described(results: Sequence[Recovery]) -> str:
    """Return the results as Markdown: the median and the worst round of each size."""
    lines = [
        "# Recovery after kill -9, by the size of the log",
        "",
        f"`python -m benchmarks.recovery` on {os.cpu_count()} cores. Messages of {BODY_BYTES} "
        f"bytes with two keys each, in {QUEUES_COUNT} queues, asynchronous flush; killed while "
        "they come. Times in ms, median and worst of the rounds. Cold: no page of the store was in "
        "the page cache. Checked and dispatched, the most of a round, are MB of the log. Each "
        "round is in [recovery.json](recovery.json).",
        "",
        "| log | page cache | rounds | open | dispatch | together | worst | checked | dispatched |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for gigabytes, cold in dict.fromkeys((one.gigabytes, one.cold) for one in results):
        rounds = [one for one in results if (one.gigabytes, one.cold) == (gigabytes, cold)]
        cells = [
            f"{gigabytes} GB",
            "cold" if cold else "warm",
            str(len(rounds)),
            *(
                f"{statistics.median(values):.0f}"
                for values in (
                    [one.open_ms for one in rounds],
                    [one.dispatch_ms for one in rounds],
                    [one.whole_ms for one in rounds],
                )
            ),
            str(max(one.whole_ms for one in rounds)),
            f"{max(one.checked_bytes for one in rounds) / 1e6:.0f}",
            f"{max(one.dispatched_bytes for one in rounds) / 1e6:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def save(results: Sequence[Recovery]) -> None:
    """Keep what was measured, instead of what was before for the same sizes."""
    path = RESULTS / "recovery.json"
    kept = []
    if path.exists():
        kept = [Recovery(**one) for one in json.loads(path.read_text())["rounds"]]
    measured = {one.gigabytes for one in results}
    rounds = [one for one in kept if one.gigabytes not in measured] + list(results)
    rounds.sort(key=lambda one: (one.gigabytes, one.cold))
    host = {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    report = {"host": host, "rounds": [one._asdict() for one in rounds]}
    path.write_text(row_lines(report) + "\n")
    path.with_suffix(".md").write_text(described(rounds))


def main(arguments: Sequence[str]) -> int:
    """Measure the sizes one after the other, in one store that grows."""
    if arguments[:1] == ["--own"]:
        own(Path(arguments[1]), int(arguments[2]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery")
    parser.add_argument("--gigabytes", type=int, nargs="+", default=[1, 4, 10])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the store is made; it stays there")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="wakelog-recovery-"))
    results: list[Recovery] = []
    try:
        for gigabytes in sorted(given.gigabytes):
            for recovery in measure(folder / "store", gigabytes, given.rounds):
                results.append(recovery)
                print(recovery, flush=True)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)
    save(results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
