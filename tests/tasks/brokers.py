"""A broker for the tests of one module, and what they ask of it.

It is an embedded one, and in `./dev long` a real 4.9.3 as well.
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.compat.real_as_embedded import RealAsEmbedded
from wakelog.testing import EmbeddedBroker

SECONDS_MAX = 10.0

Found = TypeVar("Found")


BROKERS = [
    pytest.param(EmbeddedBroker, id="embedded"),
    pytest.param(RealAsEmbedded, id="real", marks=[pytest.mark.java, pytest.mark.long]),
]

AT_EMBEDDED = pytest.mark.parametrize("broker", [EmbeddedBroker], indirect=True, ids=["embedded"])
"""Of a test that sets the broker's clock, or a fault of it."""


@pytest.fixture(scope="module", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with request.param() as started:
        yield started


def wait_for(check: Callable[[], Found]) -> Found:
    """Return the first result that is true."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := check()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)
    return found
