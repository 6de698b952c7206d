"""How soon the first messages of 16,000 new queues are visible, and how fast a bare program is.

    python -m benchmarks.new_queues [--folder FOLDER] [--image] [--pairs 3] [--results FOLDER]

The broker has 2,000 topics of 8 queues without a file. Each queue gets one message; the time ends
when the last queue shows it. The bare program makes the same directories and files on the same file
system, reserves and syncs as much, and does nothing else.

``--image`` measures over an ext4 of its own, in a file. ext4 takes an inode again only some minutes
after its file was removed, and every new file passes over such inodes. So on a disk from which a
test has just removed thousands of files a new one takes half a millisecond of system time, whoever
makes it. An ext4 of its own has none of them. It needs root, for the mount.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.held import (
    QUEUES_COUNT,
    TOPICS_COUNT,
    add_topics,
    await_dispatched,
    fill,
    topic_name,
)
from benchmarks.kept import row_lines
from benchmarks.paced import Connection
from benchmarks.sides import Wakelog
from wakelog.dispatchers.consume_queue import FILES_TOGETHER_MAX
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.reservation import QUEUE_FIRST_BYTES

COUNT = TOPICS_COUNT * QUEUES_COUNT
FILE_BYTES = 6_000_000
IMAGE_BYTES = 24 << 30
"""Of a sparse file. A broker reserves 4 KiB for each queue, and a bare program as much."""
PAIRS_COUNT = 3
PER_SECOND_MIN = 2_000
JSON_NAME = "new_queues.json"


def measure_broker(folder: Path) -> dict[str, float]:
    """Send a message to each of the queues; return how many were visible a second."""
    side = Wakelog(folder, {}, add_topics)
    try:
        with Connection(side.broker) as connection:
            began = time.monotonic()
            fill(connection)
            sent_seconds = time.monotonic() - began
            await_dispatched(connection)
            seconds = time.monotonic() - began
    finally:
        side.stop()
    return {"per_second": round(COUNT / seconds), "sent_per_second": round(COUNT / sent_seconds)}


def measure_bare(folder: Path) -> dict[str, float]:
    """Make the same files; return how many a second, and one's microseconds in each step."""
    fs = FileSystem()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spent = {"make": 0.0, "sync": 0.0, "name": 0.0, "write": 0.0}
    clock = time.perf_counter
    began = clock()
    for first in range(0, COUNT, FILES_TOGETHER_MAX):
        numbers = range(first, min(COUNT, first + FILES_TOGETHER_MAX))
        at = [clock()]
        fds = []
        for number in numbers:
            fds.append(os.open(folder / f"new.{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL))
            os.ftruncate(fds[-1], FILE_BYTES)
        at.append(clock())
        fs.sync_all(fds)
        at.append(clock())
        for number in numbers:
            topic, queue = divmod(number, QUEUES_COUNT)
            directory = folder / topic_name(topic) / str(queue)
            directory.mkdir(parents=True)
            os.rename(folder / f"new.{number}", directory / f"{0:020}")
        at.append(clock())
        for fd in fds:
            fs.reserve(fd, 0, QUEUE_FIRST_BYTES)
            os.pwrite(fd, bytes(20), 0)
            os.close(fd)
        at.append(clock())
        for step, (begin, end) in zip(spent, pairwise(at), strict=True):
            spent[step] += end - begin
    seconds = clock() - began
    steps = {f"{step}_us": round(taken / COUNT * 1e6) for step, taken in spent.items()}
    return {"per_second": round(COUNT / seconds), **steps}


@contextmanager
def mounted_image(folder: Path) -> Iterator[Path]:
    """Give a new ext4 that is kept in a file. Raises: subprocess.CalledProcessError."""
    image, mounted = folder / "image", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mounted], check=True)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", mounted], check=True)


def measure(folder: Path, pairs_count: int) -> dict[str, Any]:
    """Measure broker and bare program in turns; nothing is removed in between."""
    found: dict[str, list[dict[str, float]]] = {"broker": [], "bare": []}
    for pair in range(pairs_count):
        for name in ("broker", "bare") if pair % 2 else ("bare", "broker"):
            kind = measure_broker if name == "broker" else measure_bare
            found[name].append(kind(folder / f"{name}-{pair}"))
            print(f"pair {pair + 1}, {name}: {found[name][-1]}", flush=True)
    return {
        name: {"median": statistics.median(run["per_second"] for run in runs), "runs": runs}
        for name, runs in found.items()
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, and keep the result if a folder for it is given; 1 if queues are made too slowly."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_queues", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the stores are")
    parser.add_argument("--image", action="store_true", help="over an ext4 of its own in a file")
    parser.add_argument("--pairs", type=int, default=PAIRS_COUNT)
    parser.add_argument("--results", type=Path, help="where the JSON is written")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wakelog-queues-", dir=options.folder) as name:
        folder = Path(name)
        if options.image:
            with mounted_image(folder) as mounted:
                found = measure(mounted, options.pairs)
        else:
            found = measure(folder, options.pairs)
    found = {"file_system": "own image" if options.image else "the machine's", **found}
    text = row_lines({"queues": COUNT, "cores": os.cpu_count(), **found})
    if options.results:
        (options.results / JSON_NAME).write_text(text + "\n")
    print(text)
    return int(found["broker"]["median"] < PER_SECOND_MIN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
