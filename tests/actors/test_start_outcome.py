"""Why a start failed comes back whole, with what to do about it."""

import errno

import pytest

from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.start_outcome import describe_failure, raise_failure, started
from wakelog.network.errors import PortUnavailable, TlsRefused
from wakelog.storage.errors import (
    DamagedStore,
    StoreFailed,
    StoreFull,
    StoreLocked,
    WrongStore,
)

ERRORS = [
    (PortUnavailable("127.0.0.1", 10911, OSError(errno.EADDRINUSE, "x")), "10911", "another port"),
    (TlsRefused("a.key is missing; give it"), "a.key is missing", "Give it."),
    (TlsRefused("a.key cannot be read"), "a.key cannot be read", "Name readable PEM files"),
    (StoreLocked("/store/lock", 17), "process 17", "Stop it first"),
    (DamagedStore("/store/commitlog/0", "it is short", "remove it"), "it is short", "Remove it."),
    (WrongStore("/store", "it is of b"), "it is of b", "Give the --store of this broker"),
    (StoreFull("/store", "allocate", OSError(errno.ENOSPC, "x")), "allocate", "Free some space"),
    (StoreFailed("/store", "write", OSError(errno.EIO, "I/O")), "write", "Look at the disk"),
]


@pytest.mark.parametrize(("error", "cause", "remedy"), ERRORS)
def test_a_failure_says_the_cause_and_the_remedy(error: Exception, cause: str, remedy: str) -> None:
    outcome = describe_failure(error)
    with pytest.raises(DeploymentFailed) as raised:
        raise_failure(outcome)
    assert cause in raised.value.cause and remedy in raised.value.remedy


def test_a_start_that_went_well_raises_nothing() -> None:
    raise_failure(started(store_id="x"))
    assert started(store_id="x")["process_id"] > 0
