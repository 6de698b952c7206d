"""The nth call of a kind fails, for every n: nothing acknowledged is lost, nothing else breaks."""

from __future__ import annotations

import pytest

from tests.simulation.fault_trial import (
    FAULTS,
    NTH_MAX,
    Fault,
    run_failed_lowering,
    run_fault,
)
from tests.simulation.images import Model
from tests.simulation.machine import simulated_config
from tests.simulation.trial import Tally

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


def _name(fault: Fault) -> str:
    failure = fault.failure
    return f"{fault.call}-{failure.number}-{failure.is_short:d}-{failure.sync_failure.name}"


@pytest.mark.parametrize("fault", FAULTS, ids=_name)
def test_every_call_may_fail(fault: Fault) -> None:
    struck_count = 0
    tally = Tally()
    for nth in range(1, NTH_MAX):
        model = list(Model)[nth % 2]
        if not run_fault(fault, nth, simulated_config(), model, tally):
            break
        struck_count += 1
    assert 0 < struck_count < NTH_MAX - 1


@pytest.mark.parametrize("index", [False, True])
def test_what_is_lowered_is_lowered_on_the_disk_before_the_log_grows_again(
    index: bool, request: pytest.FixtureRequest
) -> None:
    config = simulated_config(synchronous=False, message_index_enable=index)
    is_long = request.config.getoption("--long")
    tally = Tally()
    for nth in range(1, NTH_MAX):
        models = list(Model) if is_long else [list(Model)[nth % 2]]
        struck = [
            run_failed_lowering(nth, config, model, tally, lives_on=is_long) for model in models
        ]
        if not any(struck):
            break
    assert 10 < nth < NTH_MAX - 1, "the start has few syncs, or no end of them"
