"""One workload and its crashes: run it once, then recover what each crash may have left of it.

At every operation of the journal a few of the images that are legal there are drawn, each new one
is recovered and checked, and some live on: their recovery is crashed in turn, after messages of the
same length as before were put and acknowledged. That is the second generation, in which ghosts and
names that were never synced show.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tests.simulation.client import ClientView
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.images import Model, Platter, Torn, digest
from tests.simulation.journal import Mark
from tests.simulation.machine import BEGIN_MS, Machine
from tests.simulation.oracle import Violation, check_image, check_machine
from tests.simulation.workloads import apply
from wakelog.storage.config import StoreConfig

AFTERLIFE_ONE_IN = 10
GENERATIONS_MAX = 2
RECOVERED_LATER_MS = 60_000
AFTERLIFE_STEPS = ("put", "flush", "dispatch", "derive", "put")


@dataclass
class Tally:
    """What was tried: images by digest, so that none counts twice."""

    seen: set[bytes] = field(default_factory=set)
    checked: set[tuple[bytes, int, int]] = field(default_factory=set)
    journals_count: int = 0
    attempts_count: int = 0
    checks_count: int = 0
    workloads_count: int = 0
    generations: Counter[int] = field(default_factory=Counter)

    @property
    def images_count(self) -> int:
        """How many images differ from each other."""
        return len(self.seen)


class Crash(NamedTuple):
    """One crash: what of the pending is there, and when; `whole` if only the process died."""

    platter: Platter
    chosen: frozenset[int]
    torn: Torn | None
    now_ms: int
    generation: int
    journal: int
    whole: bool


class Trial:
    """Crashes of one seeded run."""

    def __init__(
        self,
        config: StoreConfig,
        model: Model,
        seed: int,
        tally: Tally,
        *,
        images_per_operation: int = 6,
        machine_type: type[Machine] = Machine,
    ) -> None:
        self._config = config
        self._model = model
        self._rng = Random(seed)
        self._tally = tally
        self._images_per_operation = images_per_operation
        self._machine_type = machine_type

    def run(self, steps: tuple[str, ...]) -> None:
        """Run a workload and crash it everywhere. Raises: Violation."""
        disk = SimulatedDisk()
        machine = self._machine_type(disk, self._config, BEGIN_MS)
        for step in steps:
            before = machine
            machine = apply(machine, step, self._config)
            if machine is not before:
                machine.dispatch_step()
                check_machine(machine, disk.view, whole=True)
        now_ms = machine.now_ms + RECOVERED_LATER_MS
        machine.abandon()
        self._tally.workloads_count += 1
        self._crash(Platter(disk.origin, self._model), disk, ClientView(), now_ms, generation=1)

    def _crash(
        self,
        platter: Platter,
        disk: SimulatedDisk,
        view: ClientView,
        now_ms: int,
        generation: int,
    ) -> None:
        self._tally.journals_count += 1
        journal = self._tally.journals_count
        for operation in disk.journal:
            platter.take(operation)
            if isinstance(operation, Mark):
                view.take(operation.event)
                continue
            for chosen, torn in self._draws(platter):
                self._tally.attempts_count += 1
                whole = torn is None and chosen == platter.whole
                crash = Crash(platter, chosen, torn, now_ms, generation, journal, whole)
                self._check(crash, view)

    def _draws(self, platter: Platter) -> list[tuple[frozenset[int], Torn | None]]:
        drawn: list[tuple[frozenset[int], Torn | None]] = [
            (chosen, None) for chosen in platter.candidates(self._rng)
        ]
        if len(drawn) > self._images_per_operation:
            drawn = drawn[:2] + self._rng.sample(drawn[2:], self._images_per_operation - 2)
        torn = platter.torn(self._rng)
        if torn is not None:
            drawn.append((platter.whole, torn))
        return drawn

    def _check(self, crash: Crash, view: ClientView) -> None:
        image = crash.platter.image(crash.chosen, crash.torn)
        key = digest(image)
        tally = self._tally
        if key not in tally.seen:
            tally.seen.add(key)
            tally.generations[crash.generation] += 1
        seen_with = (key, crash.journal, 2 * view.version + crash.whole)
        if seen_with in tally.checked:
            return
        tally.checked.add(seen_with)
        tally.checks_count += 1
        one_in = AFTERLIFE_ONE_IN if crash.generation < GENERATIONS_MAX else 0
        lives_on = one_in > 0 and self._rng.randrange(one_in) == 0
        machine = check_image(
            image,
            view,
            self._config,
            crash.now_ms,
            whole=crash.whole,
            records=lives_on,
            numbers=crash.platter.cached_inodes() if crash.whole else None,
            machine_type=self._machine_type,
        )
        if lives_on:
            self._live_on(machine, view.copy(), crash)
        else:
            machine.abandon()

    def _live_on(self, machine: Machine, view: ClientView, crash: Crash) -> None:
        disk = machine.disk
        recovered = disk.image()
        for step in AFTERLIFE_STEPS:
            machine = apply(machine, step, self._config)
        now_ms = machine.now_ms + RECOVERED_LATER_MS
        machine.abandon()
        self._recover_again(recovered, view, now_ms)
        if crash.whole:
            # Only a process died: what was pending still is.
            platter = crash.platter.fork()
        else:
            view.lose_cache(synchronous=self._config.synchronous_flush)
            platter = Platter(disk.origin, self._model)
        self._crash(platter, disk, view, now_ms, crash.generation + 1)

    def _recover_again(self, recovered: Image, view: ClientView, now_ms: int) -> None:
        """Check I7: what a recovery left is not changed by another."""
        machine = check_image(
            recovered, view, self._config, now_ms, whole=False, machine_type=self._machine_type
        )
        again = machine.disk.image()
        machine.abandon()
        for path, data in recovered.files.items():
            compared = "/commitlog/" in path or "/consumequeue/" in path
            if compared and again.files.get(path) != data:
                raise Violation("I7", f"a second recovery changed {path}")
