"""The nth call of a kind fails, for every n: nothing acknowledged is lost, nothing else breaks."""

import errno

import pytest

from tests.simulation.disk import SimulatedDisk, SimulatedFileSystem
from tests.simulation.fault_trial import (
    FAULTS,
    NTH_MAX,
    Fault,
    run_failed_lowering,
    run_failed_name,
    run_fault,
)
from tests.simulation.faults import Failure, SyncFailure
from tests.simulation.images import Model
from tests.simulation.machine import simulated_config
from tests.simulation.trial import Tally
from wakelog.storage.durability.marks import FAILED_SYNC_NAME

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


CALLS_APART = 21
"""Every such call fails in a daily run, each in a long one. Odd, for both models."""


def _name(fault: Fault) -> str:
    failure = fault.failure
    return f"{fault.call}-{failure.number}-{failure.is_short:d}-{failure.sync_failure.name}"


@pytest.mark.parametrize("fault", FAULTS, ids=_name)
def test_every_call_may_fail(fault: Fault, request: pytest.FixtureRequest) -> None:
    struck_count = 0
    tally = Tally()
    numbers = range(1, NTH_MAX, 1 if request.config.getoption("--long") else CALLS_APART)
    for nth in numbers:
        model = list(Model)[nth % 2]
        if not run_fault(fault, nth, simulated_config(), model, tally):
            break
        struck_count += 1
    assert 0 < struck_count < len(numbers)


class _Unmarkable(SimulatedFileSystem):
    """Has no room for the mark of a failed sync."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        if create and path.endswith(FAILED_SYNC_NAME):
            raise OSError(errno.ENOSPC, "no room", path)
        return super().open(path, create=create, read_only=read_only)


class _UnmarkableDisk(SimulatedDisk):
    def process(self) -> SimulatedFileSystem:
        return _Unmarkable(self)


def test_a_failed_sync_is_not_forgotten_where_its_mark_cannot_be_made(
    request: pytest.FixtureRequest,
) -> None:
    fault = Fault("datasync", Failure(sync_failure=SyncFailure.CLEAN_NEW))
    is_long = request.config.getoption("--long")
    for nth in range(1, NTH_MAX, 1 if is_long else 3):
        for model in list(Model) if is_long else [list(Model)[nth % 2]]:
            struck = run_fault(
                fault, nth, simulated_config(), model, Tally(), disk_type=_UnmarkableDisk
            )
        if not struck:
            break
    assert 10 < nth < NTH_MAX - 1


def test_a_name_whose_sync_failed_is_not_taken_for_durable(
    request: pytest.FixtureRequest,
) -> None:
    is_long = request.config.getoption("--long")
    for nth in range(1, NTH_MAX):
        models = list(Model) if is_long else [list(Model)[nth % 2]]
        struck = [run_failed_name(nth, simulated_config(), model, Tally()) for model in models]
        if not any(struck):
            break
    assert 5 < nth < NTH_MAX - 1


@pytest.mark.parametrize("index", [False, True])
def test_positions_are_lowered_on_the_disk_before_the_log_grows_again(
    index: bool, request: pytest.FixtureRequest
) -> None:
    config = simulated_config(synchronous=False, message_index_enable=index)
    is_long = request.config.getoption("--long")
    tally = Tally()
    for nth in range(1, NTH_MAX, 1 if is_long else 3):
        models = list(Model) if is_long else [list(Model)[nth % 2]]
        struck = [
            run_failed_lowering(nth, config, model, tally, lives_on=is_long) for model in models
        ]
        if not any(struck):
            break
    assert 10 < nth < NTH_MAX - 1, "the start has few syncs, or no end of them"
