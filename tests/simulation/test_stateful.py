"""Long lives drawn by hypothesis: steps, kills and power losses in any order, shrunk when wrong."""

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.simulation.disk import SimulatedDisk
from tests.simulation.images import Model, Platter
from tests.simulation.journal import Mark
from tests.simulation.machine import BEGIN_MS, Machine, simulated_config
from tests.simulation.oracle import check_image, check_machine
from tests.simulation.workloads import STEPS, apply

SECONDS_OFF_MS = 60_000


class Life(RuleBasedStateMachine):
    """One store through many brokers; its view goes on over every crash."""

    def __init__(self) -> None:
        super().__init__()
        self.config = simulated_config()
        self.machine = Machine(SimulatedDisk(), self.config, BEGIN_MS)

    @rule(step=st.sampled_from(STEPS))
    def do(self, step: str) -> None:
        before = self.machine
        self.machine = apply(before, step, self.config)
        if self.machine is not before:
            self.machine.dispatch_step()
            check_machine(self.machine, self.machine.disk.view, whole=True)
        self.machine.validate()

    @rule(model=st.sampled_from(Model), seed=st.integers(0, 1 << 16))
    def lose_power(self, model: Model, seed: int) -> None:
        machine = self.machine
        machine.abandon()
        platter = Platter(machine.disk.origin, model)
        for operation in machine.disk.journal:
            if not isinstance(operation, Mark):
                platter.take(operation)
        rng = Random(seed)
        image = platter.image(rng.choice(list(platter.candidates(rng))), platter.torn(rng))
        view = machine.disk.view.copy()
        view.lose_cache(synchronous=True)
        now_ms = machine.now_ms + SECONDS_OFF_MS
        self.machine = check_image(image, view, self.config, now_ms, whole=False, records=True)

    def teardown(self) -> None:
        self.machine.abandon()


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=10,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestLife = pytest.mark.simulation(pytest.mark.slow(TestLife))
