"""One workload and its crashes: run it once, then recover what each crash may have left of it.

At every operation of the journal a few of the images that are legal there are drawn, each new one
is recovered and checked, and some live on: their recovery is crashed in turn, after messages of the
same length as before were put and acknowledged. That is the second generation, in which ghosts and
names that were never synced show.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import NamedTuple

import msgspec

from tests.simulation.client import ClientView
from tests.simulation.disk import Image, SimulatedDisk
from tests.simulation.images import Model, Platter, Torn, digest
from tests.simulation.journal import Mark
from tests.simulation.kept_aside import Cut
from tests.simulation.machine import BEGIN_MS, Machine
from tests.simulation.oracle import (
    Violation,
    check_image,
    check_kept,
    check_machine,
    cut_by,
)
from tests.simulation.workloads import apply
from wakelog.storage.config import StoreConfig

AFTERLIFE_ONE_IN = 10
AFTERLIVES_MAX = 8
"""Of one workload, so that a long one does not take the time of many."""
GENERATIONS_MAX = 2
IMAGES_PER_OPERATION = {1: 6, 2: 3}
"""By generation: nothing and everything that is pending first, then others."""
RECOVERED_LATER_MS = 60_000
CHECKED_MAX = 1_000_000
"""Then what was checked is forgotten: to check some of it again costs less than the memory."""
AFTERLIFE_STEPS = ("put", "flush", "dispatch", "derive", "put")


@dataclass
class Tally:
    """What was tried: images by digest, so that none counts twice, and how often each had lived.

    `checked` has images together with what clients knew and the configuration: the same with the
    same is checked once.
    """

    seen: dict[bytes, int] = field(default_factory=dict)
    checked: set[bytes] = field(default_factory=set)
    attempts_count: int = 0
    checks_count: int = 0
    workloads_count: int = 0

    @property
    def images_count(self) -> int:
        """How many images differ from each other."""
        return len(self.seen)

    @property
    def generations(self) -> Counter[int]:
        """How many images came up in each generation first."""
        return Counter(self.seen.values())


class Crash(NamedTuple):
    """One crash: what of the pending is there, and when; `whole` if only the process died."""

    platter: Platter
    chosen: frozenset[int]
    torn: Torn | None
    now_ms: int
    generation: int
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
        machine_type: type[Machine] = Machine,
    ) -> None:
        self._config = config
        self._config_bytes = msgspec.json.encode(config)
        self._model = model
        self._rng = Random(seed)
        self._tally = tally
        self._afterlives_count = 0
        self._machine_type = machine_type

    def run(self, steps: tuple[str, ...]) -> None:
        """Run a workload and crash it everywhere. Raises: Violation."""
        disk = SimulatedDisk()
        machine = self._machine_type(disk, self._config, BEGIN_MS)
        for step in steps:
            before = machine
            machine = self._step(machine, step)
            if machine is not before:
                machine.dispatch_step()
                check_machine(machine, disk.view, whole=True)
        now_ms = machine.now_ms + RECOVERED_LATER_MS
        machine.abandon()
        self._tally.workloads_count += 1
        self._crash(Platter(disk.origin, self._model), disk, ClientView(), now_ms, generation=1)

    def crash(self, disk: SimulatedDisk, view: ClientView, now_ms: int, *, lives_on: bool) -> None:
        """Crash everywhere what was done to a disk that began with an image. Raises: Violation.

        view: what the clients knew then.
        lives_on: crash some of the recoveries as well.
        """
        platter = Platter(disk.origin, self._model)
        self._crash(platter, disk, view, now_ms, generation=1 if lives_on else GENERATIONS_MAX)

    def _step(self, machine: Machine, step: str) -> Machine:
        try:
            return apply(machine, step, self._config)
        except Violation:
            raise
        except Exception as error:
            raise Violation("I9", f"{step}: {type(error).__name__}: {error}") from error

    def _crash(
        self,
        platter: Platter,
        disk: SimulatedDisk,
        view: ClientView,
        now_ms: int,
        generation: int,
        cuts: Sequence[Cut] = (),
    ) -> None:
        """Crash everywhere; `cuts` is what the recovery at the beginning has cut."""
        for operation in disk.journal:
            platter.take(operation)
            if isinstance(operation, Mark):
                view.take(operation.event)
                continue
            self._crash_here(platter, view, now_ms, generation, cuts)
        # After the last mark nothing happens any more, but the clients know more.
        self._crash_here(platter, view, now_ms, generation, cuts)

    def _crash_here(
        self,
        platter: Platter,
        view: ClientView,
        now_ms: int,
        generation: int,
        cuts: Sequence[Cut],
    ) -> None:
        for chosen, torn in self._draws(platter, IMAGES_PER_OPERATION[generation]):
            self._tally.attempts_count += 1
            whole = torn is None and chosen == platter.whole
            crash = Crash(platter, chosen, torn, now_ms, generation, whole)
            image = platter.image(chosen, torn)
            check_kept(image, cuts, self._config)
            self._check(crash, image, view)

    def _draws(self, platter: Platter, count_max: int) -> list[tuple[frozenset[int], Torn | None]]:
        drawn: list[tuple[frozenset[int], Torn | None]] = [
            (chosen, None) for chosen in platter.candidates(self._rng)
        ]
        if len(drawn) > count_max:
            drawn = drawn[:2] + self._rng.sample(drawn[2:], count_max - 2)
        torn = platter.torn(self._rng)
        if torn is not None:
            drawn.append((platter.whole, torn))
        return drawn

    def _check(self, crash: Crash, image: Image, view: ClientView) -> None:
        key = digest(image)
        tally = self._tally
        tally.seen.setdefault(key, crash.generation)
        known = view.fingerprint() + bytes((crash.whole, crash.generation)) + self._config_bytes
        seen_with = blake2b(key + known, digest_size=16).digest()
        if seen_with in tally.checked:
            return
        if len(tally.checked) > CHECKED_MAX:
            tally.checked.clear()
        tally.checked.add(seen_with)
        tally.checks_count += 1
        one_in = AFTERLIFE_ONE_IN if crash.generation < GENERATIONS_MAX else 0
        lives_on = one_in > 0 and self._rng.randrange(one_in) == 0
        lives_on = lives_on and self._afterlives_count < AFTERLIVES_MAX
        self._afterlives_count += lives_on
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
            try:
                machine.settle()
            finally:
                machine.abandon()

    def _live_on(self, machine: Machine, view: ClientView, crash: Crash) -> None:
        disk, cuts = machine.disk, cut_by(machine)
        recovered = disk.image()
        for step in AFTERLIFE_STEPS:
            machine = self._step(machine, step)
        now_ms = machine.now_ms + RECOVERED_LATER_MS
        machine.abandon()
        self._recover_again(recovered, view, now_ms)
        if crash.whole:
            # Only a process died: what was pending still is.
            platter = crash.platter.fork()
        else:
            view.lose_cache(synchronous=self._config.synchronous_flush)
            platter = Platter(disk.origin, self._model)
        self._crash(platter, disk, view, now_ms, crash.generation + 1, cuts)

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
