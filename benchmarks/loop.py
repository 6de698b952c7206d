"""What holds up a steady sender: a cold drain, a roll, a deletion, and the first dispatch.

    python -m benchmarks.loop [--part drain|roll|remove|dispatch] [--results FOLDER]

    drain     another client drains 2 GB that were evicted from the page cache; in turns without
    roll      a filler makes segments of 64 MiB roll every few seconds
    remove    a segment of 1 GiB rolls, then retention removes three of them
    dispatch  the first message after ready

The sender keeps its pace whatever happens (``paced``), so each message that fell into a stall has
the stall in its latency. Rolls and removals are moments: sends within a window around one are
compared with all the others of the same run.
"""

import argparse
import ctypes
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.kept import RESULTS, row_lines
from benchmarks.paced import Connection, Template, send_templates
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import RocketMQ, Side, Wakelog
from wakelog.protocol.codes import RequestCode

GIBIBYTE = 1 << 30
PER_SECOND = 500.0
TURNS_COUNT = 5
ALONE_SECONDS = 8.0
DRAIN_SECONDS_MAX = 24.0
SETTLE_SECONDS = 2.0
DRAINED_MESSAGES = 2_000_000
LARGE_BODY_BYTES = 64 << 10
FILL_PER_SECOND = 300.0
"""Of large bodies: 20 MB/s, a roll of 64 MiB every 3.4 s, and no more than a disk takes on."""

WINDOW_SECONDS = (0.1, 1.0)
"""Before and after a moment; a removal's is the end of the file's name."""

ROLL_SECONDS = 30.0
FIRST_RETENTION_SECONDS = 62.0
REMOVED_COUNT = 3
STARTS_COUNT = 10
RATIO_MAX = 2.0
DISPATCH_MS_MAX = 50.0

Figures = dict[str, Any]


@contextmanager
def client(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run one of the clients of ``paced`` beside what follows."""
    command = [sys.executable, "-m", "benchmarks.paced", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process


def outcome(process: "subprocess.Popen[str]") -> Figures:
    """Wait for a client and return what it printed. Raises: RuntimeError if it failed."""
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a client ended with {process.returncode}")
    found: Figures = json.loads(printed)
    return found


def run(*arguments: object) -> Figures:
    """Run one of the clients to its end."""
    with client(*arguments) as process:
        return outcome(process)


def figures_of(samples: Sequence[Sequence[float]]) -> Figures:
    """Return percentiles of latencies, and how many sends were refused."""
    latencies = sorted(sample[1] for sample in samples)
    if not latencies:
        return {"count": 0}

    def percentile(share: float) -> float:
        return round(latencies[min(len(latencies) - 1, int(len(latencies) * share))], 3)

    return {
        "count": len(latencies),
        "refused": sum(sample[2] < 0 for sample in samples),
        "p50_ms": percentile(0.5),
        "p99_ms": percentile(0.99),
        "p999_ms": percentile(0.999),
        "max_ms": percentile(1.0),
    }


def compare(quiet: list[Figures], loaded: list[Figures]) -> Figures:
    """Return each turn, and the ratio of the medians of p99."""
    medians = [statistics.median(one["p99_ms"] for one in turns) for turns in (quiet, loaded)]
    return {
        "quiet": quiet,
        "loaded": loaded,
        "quiet_p99_ms": medians[0],
        "loaded_p99_ms": medians[1],
        "ratio": round(medians[1] / medians[0], 2),
    }


def evict(store: Path) -> float:
    """Write a store's log and queues out and off the page cache; return the share that stayed.

    A moment later, since a disk is busy with what it was given for a while after it said done.
    """
    paths = [path for kind in ("commitlog", "consumequeue") for path in (store / kind).rglob("*")]
    files = [path for path in paths if path.is_file()]
    resident_pages = pages = 0
    for path in files:
        fd = os.open(path, os.O_RDWR)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        found = residency(fd)
        resident_pages += sum(found)
        pages += len(found)
        os.close(fd)
    time.sleep(SETTLE_SECONDS)
    return resident_pages / pages


def residency(fd: int) -> bytes:
    """Return for each page of a file whether it is in the page cache, as mincore tells."""
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as mapped:
        length = len(mapped)
        pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), pages
        )
        del first
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return bytes(page & 1 for page in pages)


def warm_up(side: Side) -> None:
    """Make the topics, and let every process do once what it does later."""
    run("fill", side.broker, "filled", BODY_BYTES, 3_200)
    run("fill", side.broker, "filled", LARGE_BODY_BYTES, 50)
    run("send", side.broker, "sends", PER_SECOND, 2)


def measure_drain(make_side: type[Side], folder: Path) -> Figures:
    """Send alone and beside a cold drain, in turns."""
    side = make_side(folder, {"mappedFileSizeCommitLog": str(GIBIBYTE)})
    quiet, loaded, drains = [], [], []
    try:
        warm_up(side)
        run("fill", side.broker, "drained", BODY_BYTES, DRAINED_MESSAGES)
        for _ in range(TURNS_COUNT):
            evict(side.store)
            quiet.append(
                figures_of(run("send", side.broker, "sends", PER_SECOND, ALONE_SECONDS)["samples"])
            )
            resident_share = evict(side.store)
            with client("send", side.broker, "sends", PER_SECOND, DRAIN_SECONDS_MAX) as sender:
                time.sleep(1.0)
                began = time.monotonic()
                drained = run("drain", side.broker, "drained")
                ended = time.monotonic()
                samples = outcome(sender)["samples"]
            loaded.append(figures_of([one for one in samples if began < one[0] < ended]))
            drains.append(drained | {"resident_share_before": resident_share})
    finally:
        side.stop()
    return compare(quiet, loaded) | {"drains": drains}


def around(
    samples: Iterable[Sequence[float]], moments: Sequence[float]
) -> tuple[list[Sequence[float]], list[Sequence[float]]]:
    """Part samples into those far from every moment and those in the window of one."""
    far: list[Sequence[float]] = []
    near: list[Sequence[float]] = []
    before, after = WINDOW_SECONDS
    for sample in samples:
        is_near = any(moment - before < sample[0] < moment + after for moment in moments)
        (near if is_near else far).append(sample)
    return far, near


def rolls_in(samples: Sequence[Sequence[float]], segment_bytes: int) -> list[float]:
    """Return when sends were first put into a further segment."""
    moments = []
    last = None
    for sent_seconds, _, physical_offset in samples:
        number = physical_offset // segment_bytes
        if last is not None and number > last:
            moments.append(sent_seconds)
        last = number if last is None else max(last, number)
    return moments


def measure_roll(make_side: type[Side], folder: Path) -> Figures:
    """Send while segments of 64 MiB roll."""
    segment_bytes = 64 << 20
    side = make_side(folder, {"mappedFileSizeCommitLog": str(segment_bytes)})
    try:
        warm_up(side)
        messages = int(FILL_PER_SECOND * ROLL_SECONDS)
        fill = ("fill", side.broker, "filled", LARGE_BODY_BYTES, messages, FILL_PER_SECOND)
        with client(*fill) as filler:
            samples = run("send", side.broker, "sends", PER_SECOND, ROLL_SECONDS)["samples"]
            outcome(filler)
    finally:
        side.stop()
    moments = rolls_in(samples, segment_bytes)
    far, near = around(samples, moments)
    return compare([figures_of(far)], [figures_of(near)]) | {"moments": len(moments)}


def measure_remove(make_side: type[Side], folder: Path) -> Figures:
    """Send while a segment of 1 GiB rolls, and while retention removes expired ones."""
    settings = {
        "mappedFileSizeCommitLog": str(GIBIBYTE),
        "fileReservedTime": "1",
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    }
    side = make_side(folder, settings)
    removals: list[float] = []
    try:
        began = time.monotonic()
        warm_up(side)
        full_count = (REMOVED_COUNT + 1) * GIBIBYTE // LARGE_BODY_BYTES
        run("fill", side.broker, "filled", LARGE_BODY_BYTES, int(full_count * 0.98))
        segments = sorted((side.store / "commitlog").iterdir())[:REMOVED_COUNT]
        for path in segments:
            os.utime(path, (1, 1))
        watch = threading.Thread(target=_watch, args=(segments, removals), daemon=True)
        watch.start()
        seconds = began + FIRST_RETENTION_SECONDS + 14.0 - time.monotonic()
        fill = ("fill", side.broker, "filled", LARGE_BODY_BYTES, 2_000, FILL_PER_SECOND)
        with client(*fill) as filler:
            samples = run("send", side.broker, "sends", PER_SECOND, seconds)["samples"]
            outcome(filler)
    finally:
        side.stop()
    rolls = rolls_in(samples, GIBIBYTE)
    far, near_removal = around(samples, removals)
    far, near_roll = around(far, rolls)
    return {
        "roll_1_gib": compare([figures_of(far)], [figures_of(near_roll)]) | {"moments": len(rolls)},
        "remove": compare([figures_of(far)], [figures_of(near_removal)])
        | {"moments": len(removals)},
    }


def _watch(paths: Sequence[Path], removals: list[float]) -> None:
    end = time.monotonic() + 3 * FIRST_RETENTION_SECONDS
    waiting = list(paths)
    while waiting and time.monotonic() < end:
        if not waiting[0].exists():
            waiting.pop(0)
            removals.append(time.monotonic())
        time.sleep(0.005)


def measure_dispatch(folder: Path) -> Figures:
    """Start again and again over nothing; time the first message from its answer to its pull."""
    firsts_ms = []
    for _ in range(STARTS_COUNT):
        side = Wakelog(folder, {})
        try:
            firsts_ms.append(_dispatch_ms(side.broker, 0))
        finally:
            side.stop()
    return {"first_ms": firsts_ms}


def _dispatch_ms(address: str, queue_offset: int) -> float:
    """Send one message to queue 0 and return how long after the answer a pull has it."""
    with Connection(address) as connection:
        connection.send(send_templates("first", bytes(BODY_BYTES))[0], 0)
        _answer(connection)
        answered = time.monotonic()
        connection.send(_held_pull(queue_offset), 1)
        _answer(connection)
        return round((time.monotonic() - answered) * 1000, 3)


def _answer(connection: Connection) -> None:
    while not (answers := connection.answers(10.0)):
        pass
    assert answers[0].code == 0, answers[0].remark


def _held_pull(queue_offset: int) -> Template:
    fields = {
        "consumerGroup": "first",
        "topic": "first",
        "queueId": "0",
        "queueOffset": str(queue_offset),
        "maxMsgNums": "1",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "10000",
        "subscription": "*",
        "subVersion": "1",
        "expressionType": "TAG",
    }
    return Template(RequestCode.PULL_MESSAGE, fields)


PARTS = {"drain": measure_drain, "roll": measure_roll, "remove": measure_remove}


def table(results: Figures) -> str:
    """Return everything measured as Markdown."""
    lines = [
        "# What holds up a steady sender",
        "",
        f"`python -m benchmarks.loop` on {os.cpu_count()} cores: {PER_SECOND:.0f} sends a second of"
        f" {BODY_BYTES} bytes, asynchronous flush. Times in ms; the ratio is of the p99.",
        "",
        "| beside it | broker | moments | p50 quiet | p99 quiet | p50 | p99 | longest | ratio |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    names = {
        "drain": "2 GB drained cold",
        "roll": "segments of 64 MiB roll",
        "roll_1_gib": "a segment of 1 GiB rolls",
        "remove": "segments of 1 GiB are removed",
    }
    for part, name in names.items():
        for side, found in results.get(part, {}).items():
            p50 = [statistics.median(x["p50_ms"] for x in found[w]) for w in ("quiet", "loaded")]
            longest = max(one["max_ms"] for one in found["loaded"])
            moments = found.get("moments", "")
            lines.append(
                f"| {name} | {side} | {moments} | {p50[0]:.2f} | {found['quiet_p99_ms']:.2f} | "
                f"{p50[1]:.2f} | {found['loaded_p99_ms']:.2f} | {longest:.1f} | "
                f"{found['ratio']:.2f} |"
            )
    dispatch = results.get("dispatch")
    if dispatch:
        first = dispatch["first_ms"]
        lines += [
            "",
            f"From the answer of the first send after ready to the pull that has it, in "
            f"{len(first)} starts: median {statistics.median(first):.1f} ms, longest "
            f"{max(first):.1f} ms.",
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Measure what was asked for, keep it beside what was measured before; 1 over a bound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop", description=__doc__)
    parser.add_argument("--part", action="append", choices=[*PARTS, "dispatch"])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "loop.json"
    results: Figures = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory(prefix="wakelog-loop-") as name:
        for part in options.part or [*PARTS, "dispatch"]:
            if part == "dispatch":
                results[part] = measure_dispatch(Path(name) / "side")
            else:
                for make_side in (Wakelog, RocketMQ):
                    found = PARTS[part](make_side, Path(name) / make_side.name)
                    rows = found if part == "remove" else {part: found}
                    for row, value in rows.items():
                        results.setdefault(row, {})[make_side.name] = value
                    print(table(results), flush=True)
            path.write_text(row_lines(results) + "\n")
            (options.results / "loop.md").write_text(table(results))
    print(table(results))
    return int(any(is_missed(results)))


def is_missed(results: Figures) -> Iterator[bool]:
    """Yield for each promise whether it was missed."""
    for row in ("drain", "roll", "roll_1_gib", "remove"):
        if row in results:
            yield results[row]["wakelog"]["ratio"] > RATIO_MAX
    if "dispatch" in results:
        yield max(results["dispatch"]["first_ms"]) >= DISPATCH_MS_MAX


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
