"""One broker for the tests of this folder, and a recording for each test."""

from collections.abc import Iterator

import pytest

from tests.otel.recording import Recording, recorded
from wakelog.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Start a broker."""
    with EmbeddedBroker() as started:
        yield started


@pytest.fixture
def recording() -> Iterator[Recording]:
    """Instrument the client for one test."""
    with recorded() as found:
        yield found
