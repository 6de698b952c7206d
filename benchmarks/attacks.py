"""What attackers cost the others: a steady sender beside each attack, by the clock.

    python -m benchmarks.attacks [--side NAME] [--part attacks|codes] [--after-minutes N]
    python -m benchmarks.attacks --scene TEXT [--side NAME]

A sender of 50 messages a second and a client that asks for routes as often run beside all scenes
(``attack_scenes``). Each sample belongs to the scene during which it was sent, or to the pauses
between scenes, which are the baseline of the same minutes.

Memory is of the processes that grew most: before the first scene, at most, and one or more minutes
after the last scene, with a message a second. Before it, ordinary messages and a TLS handshake have
loaded all code. Part of what stays are tables that clients made and that the store keeps: what a
side that is started again over this store has more than before.
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import msgspec

from benchmarks.attack_floods import floods, large_message_clients
from benchmarks.attack_scenes import (
    Scene,
    Target,
    at_name_servers,
    begin_handshakes,
    beside_connections,
    connect,
    fifty_attackers,
    known,
    many_connections,
    of_every_code,
)
from benchmarks.cost import role_of
from benchmarks.kept import RESULTS, keep, read_kept
from benchmarks.loop import client, figures_of, outcome
from benchmarks.loop import run as run_client
from benchmarks.rows import BODY_BYTES
from benchmarks.sides import OWN_NAME, LocalWakelog, RocketMQ, Side, Wakelog

JSON_NAME = "attacks.json"
PAGE_NAME = "attacks.md"
PARTS = ("attacks", "codes")
PER_SECOND = 50.0
WARM_MESSAGES = 30_000
WARM_SECONDS = 8.0

MEMORY_FACTOR_MAX = 1.2
RUN_SECONDS_MAX = 1_800.0
QUIET_SECONDS = 8.0
PAUSE_SECONDS = 0.6
SETTLE_SECONDS = 0.2
"""Of a pause, what still belongs to the attack before."""

SCENE_SECONDS_MIN = 1.0
MINUTE_SECONDS = 60.0
P99_MORE_MS_MAX = 50.0
MAX_MS = 200.0
CONNECTIONS_FACTOR_MAX = 1.5
"""Of the p99 beside thousands of connections to that of the pauses."""

OTHERS_FACTOR_MAX = 2.0
"""Of the p99 beside many attackers to that of 4.9.3 beside them."""

DESCRIPTORS = 15_000
METRICS_CONNECTIONS = 16
METRICS_SECONDS_MAX = 2.0
KIB = 1 << 10
SIDES: dict[str, type[Side]] = {side.name: side for side in (Wakelog, LocalWakelog, RocketMQ)}
SETTINGS = {
    "mappedFileSizeCommitLog": str(256 << 20),
    "enablePropertyFilter": "true",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
}


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What a client saw during one scene, or in the pauses."""

    side: str
    number: int
    scene: str
    count: int
    p99_ms: float
    max_ms: float

    @property
    def key(self) -> tuple[str, int]:
        """What it is the only one of."""
        return self.side, self.number


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Resident MiB of one process: before, at most, and some minutes after.

    tables_mib: of the last, what the store keeps of the attacks; None if that was not measured.
    """

    role: str
    before_mib: int
    peak_mib: int
    after_mib: int
    tables_mib: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether more stays than a fifth and the tables."""
        return self.after_mib > self.before_mib * MEMORY_FACTOR_MAX + (self.tables_mib or 0)


class Attacked(msgspec.Struct, frozen=True, kw_only=True):
    """One side's run of one part of the scenes."""

    side: str
    part: str = PARTS[0]
    measured: str
    watched: list[Watched]
    memory: list[Memory]
    died: list[str]
    metrics_served: bool | None
    load_average: float
    after_minutes: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        """What it is the only one of."""
        return (self.side, self.part)


def scenes_of(side: str, part: str) -> list[Scene]:
    """Return what a side is put through; RocketMQ what it is compared in."""
    compared = [large_message_clients(), fifty_attackers(), *many_connections()]
    if part == "codes":
        return [] if side == RocketMQ.name else [*of_every_code()]
    if side == RocketMQ.name:
        return compared
    return [*known(), *floods(), *at_name_servers(), *compared]


def scenes_named(texts: Sequence[str]) -> list[Scene]:
    """Return the scenes of every part whose name has one of the texts."""
    return [
        scene
        for part in PARTS
        for scene in scenes_of(OWN_NAME, part)
        if any(text in scene.name for text in texts)
    ]


Moments = list[tuple[float, float]]
"""Of each scene, when it began and ended by the monotonic clock."""


def play(scenes: Sequence[Scene], target: Target) -> Moments:
    """Play scene after scene, with pauses."""
    moments: Moments = []
    for scene in scenes:
        attack = scene.prepare()
        time.sleep(PAUSE_SECONDS)
        began = time.monotonic()
        with suppress(OSError):
            attack(target)
        time.sleep(max(0.0, began + SCENE_SECONDS_MIN - time.monotonic()))
        moments.append((began, time.monotonic() + SETTLE_SECONDS))
        print(f"  {moments[-1][1] - began:5.1f} s {scene.name}", flush=True)
    return moments


def split(samples: Sequence[Sequence[float]], moments: Moments) -> tuple[list[Any], list[Any]]:
    """Return the samples of each scene, and those of no scene."""
    during: list[list[Sequence[float]]] = [[] for _ in moments]
    quiet: list[Sequence[float]] = []
    for sample in samples:
        places = [at for at, (began, end) in enumerate(moments) if began <= sample[0] < end]
        (during[places[0]] if places else quiet).append(sample)
    return during, quiet


@contextmanager
def probe(mode: str, address: str, topic: str) -> Iterator["Popen[str]"]:
    """Run a steady client."""
    with client(mode, address, topic, PER_SECOND, RUN_SECONDS_MAX) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def watch(name: str, folder: Path, scenes: Sequence[Scene]) -> list[Watched]:
    """Start a side, put it through scenes, and stop it."""
    side = SIDES[name](folder / name, SETTINGS)
    try:
        target = Target(side.broker, side.name_server)
        warm_up(target)
        with probes(target) as (sender, asker):
            time.sleep(QUIET_SECONDS)
            return watched_by(name, scenes, play(scenes, target), sender, asker)
    finally:
        side.stop()


@contextmanager
def probes(target: Target) -> Iterator[tuple["Popen[str]", "Popen[str]"]]:
    """Run the client that sends, and the one that asks for routes."""
    with (
        probe("send", target.broker, "probed") as sender,
        probe("route", target.name_server, "TBW102") as asker,
    ):
        yield sender, asker


def watched_by(
    side: str,
    scenes: Sequence[Scene],
    moments: Moments,
    sender: "Popen[str]",
    asker: "Popen[str]",
) -> list[Watched]:
    """End both clients, and return what they saw in the pauses and in each scene."""
    for process in (sender, asker):
        process.send_signal(signal.SIGTERM)
    sent, asked = (split(outcome(one)["samples"], moments) for one in (sender, asker))
    watched = [_watched(side, 0, "pauses, sends", sent[1])]
    watched.append(_watched(side, 1, "pauses, routes", asked[1]))
    for at, scene in enumerate(scenes):
        samples = (asked if scene.at_name_server else sent)[0][at]
        watched.append(_watched(side, at + 2, scene.name, samples))
    return watched


def measure(name: str, folder: Path, part: str, after_minutes: int) -> Attacked:
    """Start a side, put it through its scenes, stop it, and start it again over its store."""
    side = SIDES[name](folder / name, SETTINGS)
    try:
        target = Target(side.broker, side.name_server)
        scenes = scenes_of(name, part)
        warm_up(target)
        with probes(target) as (sender, asker):
            time.sleep(QUIET_SECONDS)
            before = resident(side, "VmRSS", forget_peak=True)
            watched = watched_by(name, scenes, play(scenes, target), sender, asker)
        peak = resident(side, "VmHWM")
        served = metrics_served(folder / name / "up.out") if name != RocketMQ.name else None
        load_average = os.getloadavg()[0]
        after = resident_after(side, after_minutes)
    finally:
        side.stop(in_order=True)
    again = resident_again(name, folder)
    return Attacked(
        side=name,
        part=part,
        measured=time.strftime("%Y-%m-%d"),
        watched=watched,
        memory=_largest(before, peak, after, again),
        died=[role for pid, (role, _) in before.items() if pid not in after],
        metrics_served=served,
        load_average=round(load_average, 1),
        after_minutes=after_minutes,
    )


def resident_after(side: Side, minutes: int) -> "Resident":
    """Return the MiB of each process so many minutes later, and print those of each minute."""
    seconds = MINUTE_SECONDS * (minutes + 1)
    with client("send", side.broker, "probed", 1.0, seconds) as sender:
        for minute in range(1, minutes + 1):
            time.sleep(MINUTE_SECONDS)
            after = resident(side, "VmRSS")
            largest = sorted(after.values(), key=lambda one: -one[1])[:3]
            print(f"  {minute} min:", *(f"{role} {mib} MiB" for role, mib in largest), flush=True)
        sender.send_signal(signal.SIGTERM)
        outcome(sender)
    return after


def warm_up(target: Target) -> None:
    """Send so many messages that every process has loaded its code, and begin with TLS once."""
    run_client("fill", target.broker, "warm", BODY_BYTES, WARM_MESSAGES)
    begin_handshakes(1)(target)
    time.sleep(WARM_SECONDS)


def resident_again(name: str, folder: Path) -> dict[str, int]:
    """Start a side over the store that it left; return the MiB of each of its processes."""
    kept = folder / "kept"
    (folder / name / "store").rename(kept)

    def put_back(store: Path) -> None:
        store.rmdir()
        kept.rename(store)

    side = SIDES[name](folder / name, SETTINGS, put_back)
    try:
        warm_up(Target(side.broker, side.name_server))
        return dict(resident(side, "VmRSS").values())
    finally:
        side.stop()


def _watched(side: str, number: int, scene: str, samples: Sequence[Sequence[float]]) -> Watched:
    figures = figures_of(samples)
    count, p99_ms, max_ms = (figures.get(name, 0) for name in ("count", "p99_ms", "max_ms"))
    return Watched(side=side, number=number, scene=scene, count=count, p99_ms=p99_ms, max_ms=max_ms)


Resident = dict[str, tuple[str, int]]
"""By process id: the role, and MiB."""


def resident(side: Side, field: str, *, forget_peak: bool = False) -> Resident:
    """Read a line of each process's status; `forget_peak` lets VmHWM begin again."""
    found: Resident = {}
    for folder in side.processes():
        with suppress(OSError):
            lines = (folder / "status").read_text().splitlines()
            kib = next((int(one.split()[1]) for one in lines if one.startswith(field)), 0)
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            found[folder.name] = role_of(command), kib // KIB
            if forget_peak:
                (folder / "clear_refs").write_text("5")
    return found


def _largest(
    before: Resident, peak: Resident, after: Resident, again: Mapping[str, int]
) -> list[Memory]:
    grown = [
        Memory(
            role=role,
            before_mib=mib,
            peak_mib=peak[pid][1],
            after_mib=after[pid][1],
            tables_mib=max(0, again[role] - mib) if role in again else None,
        )
        for pid, (role, mib) in before.items()
        if pid in peak and pid in after
    ]
    return sorted(grown, key=lambda one: one.before_mib - one.peak_mib)[:3]


def metrics_served(output: Path) -> bool:
    """Tell whether /metrics answers in time beside connections that send nothing or half a line."""
    words = output.read_text().split()
    url = next(word for word in words if word.endswith("/metrics"))
    address = url.split("/")[2]
    held = [connect(address) for _ in range(METRICS_CONNECTIONS)]
    for connection in held[::2]:
        connection.sendall(b"GET /met")
    try:
        with urllib.request.urlopen(url, timeout=METRICS_SECONDS_MAX) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
    finally:
        for connection in held:
            connection.close()


def over_limit(run: Attacked) -> list[Watched]:
    """Return the scenes in which a client waited longer than it may."""
    sends, routes = run.watched[:2]
    p99_ms = max(sends.p99_ms, routes.p99_ms) + P99_MORE_MS_MAX
    most_ms = {beside_connections().name: min(p99_ms, sends.p99_ms * CONNECTIONS_FACTOR_MAX)}
    return [
        one
        for one in run.watched[2:]
        if one.p99_ms > most_ms.get(one.scene, p99_ms) or one.max_ms > MAX_MS
    ]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What a client of one side waited beside many attackers, and what one of 4.9.3 did."""

    side: str
    p99_ms: float
    others_p99_ms: float

    @property
    def factor(self) -> float:
        """How many times as long as with 4.9.3."""
        return self.p99_ms / self.others_p99_ms

    @property
    def is_over(self) -> bool:
        """Whether it is more than it may be."""
        return self.factor > OTHERS_FACTOR_MAX


def compare(runs: Sequence[Attacked]) -> list[Compared]:
    """Compare each side with 4.9.3 beside the same attackers, if both were measured."""
    name = fifty_attackers().name
    p99_ms = {
        run.side: one.p99_ms
        for run in runs
        if run.part == PARTS[0]
        for one in run.watched
        if one.scene == name
    }
    others_p99_ms = p99_ms.pop(RocketMQ.name, None)
    if others_p99_ms is None:
        return []
    return [
        Compared(side=side, p99_ms=own_ms, others_p99_ms=others_p99_ms)
        for side, own_ms in p99_ms.items()
    ]


def render_page(runs: Sequence[Attacked]) -> str:
    """Return the page of what is kept."""
    lines = ["# What attackers cost the others", ""]
    lines += ["Made by `python -m benchmarks.attacks`: milliseconds that a client waited, which"]
    lines += ["sends 50 messages a second beside each attack (at a name server: asks for routes)."]
    lines += ["A scene has some 50 samples a second, so that its p99 is nearly its greatest."]
    lines += ["Tables are what a side has more than before when it starts again over the store."]
    lines += ["Beside 5,000 connections the p99 may be 1.5 times that of the pauses."]
    for compared in compare(runs):
        lines += ["", f"Beside {fifty_attackers().name} a client of {compared.side} has a p99 of"]
        lines += [f"{compared.p99_ms:.1f} ms, which is {compared.factor:.2f} times 4.9.3's."]
    for run in runs:
        over = {one.scene for one in over_limit(run)}
        lines += ["", f"## {run.side}: {run.part}", ""]
        lines += [f"Measured {run.measured}; load of the machine at the end {run.load_average}."]
        lines += [f"Processes that died: {', '.join(run.died) or 'none'}."]
        if run.metrics_served is not None:
            said = "served" if run.metrics_served else "not served"
            lines += [f"/metrics beside {METRICS_CONNECTIONS} silent connections: {said}."]
        lines += _memory_lines(run.memory, run.after_minutes)
        lines += ["", "| beside | samples | p99 ms | max ms | over the limit |"]
        lines += ["| --- | ---: | ---: | ---: | --- |"]
        for one in run.watched:
            mark = "yes" if one.scene in over else ""
            lines += [
                f"| {one.scene} | {one.count} | {one.p99_ms:.1f} | {one.max_ms:.1f} | {mark} |"
            ]
    return "\n".join(lines) + "\n"


def _memory_lines(memory: Sequence[Memory], after_minutes: int) -> list[str]:
    if not memory:
        return []
    after = "a minute" if after_minutes == 1 else f"{after_minutes} minutes"
    head = (
        f"| process | before MiB | peak MiB | {after} after MiB | of it tables | over the limit |"
    )
    lines = ["", head, "| --- | ---: | ---: | ---: | ---: | --- |"]
    for one in memory:
        tables = "" if one.tables_mib is None else str(one.tables_mib)
        mib = f"{one.before_mib} | {one.peak_mib} | {one.after_mib} | {tables}"
        lines += [f"| {one.role} | {mib} | {'yes' if one.is_over else ''} |"]
    return lines


def show(sides: Iterable[str], scenes: Sequence[Scene]) -> int:
    """Print what a client saw in some scenes; 1 if there are none."""
    for name in sides:
        print(name, flush=True)
        with tempfile.TemporaryDirectory(prefix="wakelog-attacks-") as folder:
            for one in watch(name, Path(folder), scenes):
                print(f"  p99 {one.p99_ms:.1f} max {one.max_ms:.1f} ms: {one.scene}", flush=True)
    return int(not scenes)


def main(arguments: Sequence[str]) -> int:
    """Measure, keep and draw; 1 if a limit was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument("--side", choices=list(SIDES), action="append")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--after-minutes", type=int, default=1, metavar="N")
    parser.add_argument("--scene", action="append", metavar="TEXT")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.after_minutes < 1:
        parser.error("--after-minutes: at least 1")
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    if options.scene:
        return show(options.side or SIDES, scenes_named(options.scene))
    missed = False
    wanted = [(name, part) for name in options.side or SIDES for part in options.part or PARTS]
    for name, part in wanted:
        if not scenes_of(name, part):
            continue
        print(name, part, flush=True)
        with tempfile.TemporaryDirectory(prefix="wakelog-attacks-") as folder:
            run = measure(name, Path(folder), part, options.after_minutes)
        keep(options.results / JSON_NAME, run)
        runs = read_kept(options.results / JSON_NAME, Attacked)
        over: list[msgspec.Struct] = [*over_limit(run), *(one for one in run.memory if one.is_over)]
        over += [one for one in compare(runs) if one.side == name and one.is_over]
        missed = missed or bool(run.died or (name != RocketMQ.name and over))
        page = render_page(runs)
        (options.results / PAGE_NAME).write_text(page, encoding="utf-8")
        print(json.dumps(msgspec.to_builtins(over)), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
