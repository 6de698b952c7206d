"""When a message is consumed again, and when not any more."""

from datetime import timedelta
from typing import Any

import pytest

from wakelog.client import InvalidArgument, RetryPolicy


def delays(policy: RetryPolicy, count: int) -> list[float | None]:
    found = [policy.delay_after(KeyError(), n) for n in range(count)]
    return [None if delay is None else delay.total_seconds() for delay in found]


def test_delays_grow_up_to_the_longest_and_end() -> None:
    policy = RetryPolicy(
        first=timedelta(seconds=1), factor=3, longest=timedelta(seconds=5), attempts_max=5
    )
    assert delays(policy, 6) == [1, 3, 5, 5, None, None]
    assert delays(RetryPolicy(factor=1, attempts_max=3), 3) == [10, 10, None]
    assert delays(RetryPolicy(attempts_max=1), 1) == [None]
    assert delays(RetryPolicy(attempts_max=9_999), 9_000)[-1] == 7_200


def test_a_fatal_error_has_no_further_attempt() -> None:
    policy = RetryPolicy(fatal=(LookupError,))
    assert policy.delay_after(KeyError(), 0) is None
    assert policy.delay_after(ValueError(), 0) == timedelta(seconds=10)


@pytest.mark.parametrize(
    "given",
    [
        {"first": timedelta(0)},
        {"first": 3},
        {"longest": timedelta(seconds=-1)},
        {"factor": 0.999},
        {"factor": 1e6},
        {"factor": "2"},
        {"factor": float("nan")},
        {"attempts_max": 0},
        {"fatal": KeyError},
        {"fatal": (KeyError(),)},
        {"fatal": (KeyboardInterrupt,)},
    ],
)
def test_values_that_mean_nothing_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        RetryPolicy(**given)
