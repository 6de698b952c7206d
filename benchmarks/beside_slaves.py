"""What slaves that fetch an old log cost a steady sender, and how fast they get it.

    python -m benchmarks.beside_slaves [--against CHECKOUT] [--turns N]
    python -m benchmarks.beside_slaves slave HOST:PORT LOG_BYTES SECONDS

A sender keeps its pace, alone and beside one slave, in turns. The slave is a process that keeps
nothing: it takes the log from its first byte as fast as it can, and begins again. So there is as
much of the master's work beside the sender as a slave can make. With ``--against`` a broker of
another checkout stands beside this one, and both have their turns. Results are printed only: the
medians of the turns.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.loop import Figures, client, figures_of, outcome, run, warm_up
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import Side, Wakelog, other_side
from wakelog.protocol.ha_frames import encode_report

PER_SECOND = 500.0
SECONDS = 3.0
TURNS_COUNT = 5
MESSAGES = 500_000
"""They make a log of half a GB, which stays in the page cache."""

SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "replicationEnable": "true",
    "haAckDurable": "false",
}
SILENT_SECONDS_MAX = 5.0


def take_log(address: str, log_bytes: int, seconds: float) -> Figures:
    """Take the log again and again for a time; return the bytes and the time."""
    host, _, port = address.rpartition(":")
    buffer = bytearray(1 << 20)
    began, taken_bytes = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        left_bytes = log_bytes
        with socket.create_connection((host, int(port)), SILENT_SECONDS_MAX) as slave:
            slave.sendall(encode_report(1))
            while left_bytes > 0 and (now := time.monotonic()) < began + seconds:
                size_bytes = slave.recv_into(buffer)
                if not size_bytes:
                    raise RuntimeError("the master closed the connection")
                left_bytes -= size_bytes
                taken_bytes += size_bytes
    return {"bytes": taken_bytes, "seconds": now - began}


class Measured:
    """A side with a log in the page cache, and what its turns have shown."""

    def __init__(self, side: Side) -> None:
        """Fill the log."""
        self.side = side
        self._turns: list[Figures] = []
        warm_up(side)
        run("fill", side.broker, "filled", BODY_BYTES, MESSAGES)

    def take_turn(self) -> None:
        """Send alone, and beside a slave."""
        host, _, port = self.side.broker.rpartition(":")
        slave = [sys.executable, "-m", "benchmarks.beside_slaves", "slave"]
        slave += [f"{host}:{int(port) + 1}", str(MESSAGES * BODY_BYTES), str(SECONDS + 1.0)]
        sends = ("send", self.side.broker, "sends", PER_SECOND, SECONDS)
        alone = figures_of(run(*sends)["samples"])
        before = self.side.cost().cpu_seconds
        with subprocess.Popen(slave, stdout=subprocess.PIPE, text=True) as process:
            time.sleep(0.5)
            with client(*sends) as sender:
                beside = figures_of(outcome(sender)["samples"])
            taken = outcome(process)
        cpu_seconds = self.side.cost().cpu_seconds - before
        self._turns.append(
            {
                "alone_p99_ms": alone["p99_ms"],
                "p50_ms": beside["p50_ms"],
                "p99_ms": beside["p99_ms"],
                "mb_per_second": taken["bytes"] / 1e6 / taken["seconds"],
                "cpu_per_gb": cpu_seconds / (taken["bytes"] / 1e9),
            }
        )

    def medians(self) -> Figures:
        """Return the median of each figure."""
        return {
            name: round(statistics.median(turn[name] for turn in self._turns), 3)
            for name in self._turns[0]
        }


def main(arguments: Sequence[str]) -> int:
    """Measure each side in turns, and print what came out."""
    if arguments[:1] == ["slave"]:
        address, log_bytes, seconds = arguments[1:]
        print(json.dumps(take_log(address, int(log_bytes), float(seconds))))
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside_slaves",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--turns", type=int, default=TURNS_COUNT, metavar="N")
    options = parser.parse_args(arguments)
    kinds: list[type[Side]] = [Wakelog]
    if options.against is not None:
        kinds.append(other_side(options.against))
    with (
        tempfile.TemporaryDirectory(prefix="wakelog-beside-slaves-") as name,
        ExitStack() as stack,
    ):
        measured = []
        for kind in kinds:
            side = kind(Path(name) / kind.name, SETTINGS)
            stack.callback(side.stop)
            measured.append(Measured(side))
        for number in range(options.turns):
            for one in measured if number % 2 else reversed(measured):
                one.take_turn()
        for one in measured:
            print(json.dumps({"side": one.side.name, **one.medians()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
