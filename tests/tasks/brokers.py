"""An embedded broker for the tests of one module, and what they ask of it."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from wakelog.testing import EmbeddedBroker

SECONDS_MAX = 10.0

Found = TypeVar("Found")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def wait_for(check: Callable[[], Found]) -> Found:
    """Return the first result that is true."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := check()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)
    return found
