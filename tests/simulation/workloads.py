"""What is done to a simulated broker: steps, all short sequences of them, and seeded long ones.

A workload is a list of step names; `apply` does one step to a machine and returns the machine that
runs afterwards. Bodies are numbered, so that no two records are alike, but of equal length, so
that a left-over record fits exactly after a new one.
"""

import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from tests.simulation.machine import SEGMENT_BYTES, TOPICS, Machine
from wakelog.storage.config import StoreConfig

STEP_MS: Final = 2_000
"""The clock between steps: two steps are more than the checkpoint's margin of three seconds."""

STEPS: Final = (
    "put",
    "batch",
    "roll",
    "flush",
    "dispatch",
    "derive",
    "commit",
    "trim",
    "stop",
    "kill",
)

UNSYNCED: Final = (
    *("batch", "batch", "batch", "flush", "dispatch", "kill_reput", "dispatch"),
    *("put", "flush", "dispatch", "derive"),
)
"""The last record's queue is synced by its own writer; others have what the killed one left."""

REPUT_KILLED: Final = (
    ("put", "batch", "flush", "dispatch", "kill_reput"),
    ("put", "batch", "flush", "dispatch", "kill_reput", "derive", "put", "flush"),
    ("put", "flush", "dispatch", "derive", "batch", "batch", "flush", "dispatch", "kill_reput"),
    ("put", "batch", "flush", "dispatch", "kill_reput", "kill_reput", "put", "flush", "dispatch"),
    ("batch", "batch", "batch", "flush", "dispatch", "kill_reput", "roll", "flush", "derive"),
    UNSYNCED,
)
"""Reput's process dies alone and another follows. Not among the steps, whose seeds would change."""

MADE_AHEAD: Final = (
    ("make_ahead", "put", "batch", "flush", "dispatch", "kill_reput", "put", "flush", "dispatch"),
    ("make_ahead", "put", "put", "flush", "dispatch", "derive", "make_ahead", "batch", "batch"),
    ("make_ahead", "kill", "put", "make_ahead", "put", "flush", "dispatch", "derive", "stop"),
)
"""Files of queues and of the index are made before their first message. Not among the steps,
whose seeds would change."""

SUMMED: Final = (
    ("put", "batch", "flush", "sum", "put", "batch", "flush", "sum", "put", "flush"),
    ("batch", "roll", "flush", "sum", "put", "flush", "trim", "sum", "kill", "put", "flush", "sum"),
)
"""Sums of the log are kept beside. Not among the steps, whose seeds would change."""

INDEX_CUT: Final = (
    ("put", "put", "flush", "put", "put", "dispatch", "derive"),
    ("put", "put", "flush", "dispatch", "derive", "put", "put", "dispatch", "derive"),
)
"""Queues and index are durable before the log, which an asynchronous flush allows. Where a crash
ends the log lower, the index is cut, and then that cut is crashed."""

BESIDE_QUEUES: Final = (
    ("light", "put", "flush", "dispatch", "derive", "light", "light", "flush", "dispatch"),
    ("light", "batch", "flush", "dispatch", "kill_reput", "put", "light", "flush", "dispatch"),
    ("light", "roll", "flush", "dispatch", "derive", "roll", "light", "flush", "trim", "derive"),
    UNSYNCED,
)
"""Messages that light queues have as well, and extension units of the queues' entries. Few units
fit into a file. They are not among the steps, whose seeds would change."""

DELETED: Final = (("put", "batch", "delete", "put", "put", "kill", "delete"),)
DELETED_LONG: Final = (
    ("put", "put", "flush", "delete", "put", "flush", "dispatch"),
    ("put", "put", "flush", "dispatch", "delete", "put", "put", "flush", "dispatch", "derive"),
    ("put", "batch", "delete", "put", "kill_reput", "put", "flush", "delete", "put", "dispatch"),
    ("put", "put", "roll", "flush", "dispatch", "delete", "trim", "put", "batch", "kill", "put"),
    ("batch", "put", "flush", "delete", "stop", "put", "put", "flush", "dispatch", "delete"),
)
"""A topic is deleted, and its name used again. Not among the steps, whose seeds would change."""

TRANSACTIONS: Final = (("half", "half", "end", "check", "commit", "answer"),)
TRANSACTIONS_LONG: Final = (
    ("half", "check", "commit", "kill", "check", "answer"),
    ("half", "half", "end", "check", "answer", "commit", "half", "end", "flush", "check"),
    ("half", "half", "half", "end", "flush", "check", "commit", "answer", "check", "commit"),
    ("half", "check", "commit", "kill", "check", "answer", "half", "end", "check", "kill", "check"),
    ("half", "put", "half", "check", "answer", "dispatch", "kill_reput", "check", "commit", "stop"),
)
"""Half messages, their ends, rounds of the check with its questions, and positions that are saved.
Not among the steps, whose seeds would change."""

CLOCK_JUMPS_MS: Final = {
    "a second back": -1_000,
    "a second ahead": 1_000,
    "an hour back": -3_600_000,
    "an hour ahead": 3_600_000,
    "a year back": -31_536_000_000,
    "a year ahead": 31_536_000_000,
}
"""Steps in which the machine's clock is set. Not among the steps, whose seeds would change."""

CLOCK_JUMP_SHARE: Final = 0.5

LIGHT_QUEUES: Final = ("%LMQ%one", "%LMQ%two")

BODY_BYTES: Final = 40
ROLLING_BYTES: Final = SEGMENT_BYTES - 300
BATCH_COUNT: Final = 3


def short_workloads(length_max: int) -> Iterator[tuple[str, ...]]:
    """Yield every sequence of up to so many steps, after a put that gives them something to do."""
    for length in range(1, length_max + 1):
        for steps in itertools.product(STEPS, repeat=length):
            yield ("put", *steps)


def long_workload(rng: Random, length: int) -> tuple[str, ...]:
    """Draw a workload in which puts and flushes prevail."""
    weights = [6, 2, 2, 5, 5, 2, 2, 1, 1, 1]
    return tuple(rng.choices(STEPS, weights, k=length))


def jumping_workload(rng: Random, length: int) -> tuple[str, ...]:
    """Draw a workload of so many steps, before each of which the clock may be set."""
    jumps = tuple(CLOCK_JUMPS_MS)
    jumped: list[str] = []
    for step in long_workload(rng, length):
        if rng.random() < CLOCK_JUMP_SHARE:
            jumped.append(rng.choice(jumps))
        jumped.append(step)
    return tuple(jumped)


def apply(machine: Machine, step: str, config: StoreConfig) -> Machine:
    """Do one step; return the machine that runs then. Raises: StoreError."""
    if step in CLOCK_JUMPS_MS:
        machine.now_ms += CLOCK_JUMPS_MS[step]
        return machine
    machine.now_ms += STEP_MS
    if step in ("stop", "kill"):
        machine.stop() if step == "stop" else machine.abandon()
        return type(machine)(machine.disk, config, machine.now_ms)
    if step in _PUTS:
        number = len(machine.disk.view.sent) + machine.disk.view.version
        _PUTS[step](machine, TOPICS[number % len(TOPICS)], number % 3 // 2, number)
    elif step in _CALLS:
        _CALLS[step](machine)
    else:
        machine.further_steps[step]()
    return machine


def _put(machine: Machine, topic: str, queue_id: int, number: int) -> None:
    body = b"%d" % number
    machine.put(topic, queue_id, body.ljust(BODY_BYTES, b"."), keys=f"k{number}", tag="t")


def _put_light(machine: Machine, topic: str, queue_id: int, number: int) -> None:
    body = b"%d" % number
    names = LIGHT_QUEUES[number % 2 :]
    machine.put_light(topic, queue_id, body.ljust(BODY_BYTES, b"."), names)


def _put_batch(machine: Machine, topic: str, queue_id: int, number: int) -> None:
    bodies = [b"%d/%d" % (number, i) for i in range(BATCH_COUNT)]
    machine.put_batch(topic, queue_id, [body.ljust(BODY_BYTES, b".") for body in bodies])


def _roll(machine: Machine, topic: str, queue_id: int, number: int) -> None:
    machine.put(topic, queue_id, (b"%d" % number).ljust(ROLLING_BYTES, b"#"))


_PUTS: Final[dict[str, Callable[[Machine, str, int, int], None]]] = {
    "put": _put,
    "batch": _put_batch,
    "roll": _roll,
    "light": _put_light,
}
_CALLS: Final[dict[str, Callable[[Machine], object]]] = {
    "flush": lambda machine: machine.flush(),
    "dispatch": lambda machine: machine.dispatch_step(),
    "derive": lambda machine: machine.flush_derived(),
    "commit": lambda machine: machine.commit_offsets(),
    "trim": lambda machine: machine.trim(),
    "kill_reput": lambda machine: machine.kill_reput(),
    "sum": lambda machine: machine.sum_durable(),
    "make_ahead": lambda machine: machine.dispatch.make_ahead(),
}
