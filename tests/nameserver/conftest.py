"""A name server for each test; its invariants are asserted when the test is over."""

from collections.abc import Callable, Iterator

import pytest

from tests.nameserver.harness import Harness


@pytest.fixture
def make_harness() -> Iterator[Callable[..., Harness]]:
    """Make name servers with 4.9.3's keys, and validate each at the end."""
    made: list[Harness] = []

    def make(**keys: str) -> Harness:
        made.append(Harness(**keys))
        return made[-1]

    yield make
    for harness in made:
        harness.core.validate()


@pytest.fixture
def harness(make_harness: Callable[..., Harness]) -> Harness:
    """Return a name server with the default settings."""
    return make_harness()
