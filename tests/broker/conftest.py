"""A broker for each test; its invariants are asserted when the test is over."""

from collections.abc import Callable, Iterator

import pytest

from tests.broker.harness import Harness


@pytest.fixture
def make_harness() -> Iterator[Callable[..., Harness]]:
    """Make brokers with 4.9.3's keys, and validate each at the end."""
    made: list[Harness] = []

    def make(**keys: str) -> Harness:
        made.append(Harness(**keys))
        return made[-1]

    yield make
    for harness in made:
        harness.validate()


@pytest.fixture
def harness(make_harness: Callable[..., Harness]) -> Harness:
    """Return a broker with the default settings."""
    return make_harness()
