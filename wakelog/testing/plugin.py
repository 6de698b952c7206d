"""The pytest plug-in: fixtures that give a test a broker of its own.

Invariants: a session whose tests take no fixture of these imports no broker.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wakelog.testing.embedded_broker import AsyncEmbeddedBroker, EmbeddedBroker


@pytest.fixture
def wakelog_settings() -> dict[str, str]:
    """Override this fixture to start the broker with keys of broker.conf."""
    return {}


@pytest.fixture
def wakelog_broker(wakelog_settings: dict[str, str]) -> "Iterator[EmbeddedBroker]":
    """Yield a running broker, which is gone with its store after the test."""
    from wakelog.testing.embedded_broker import EmbeddedBroker

    with EmbeddedBroker(settings=wakelog_settings) as broker:
        yield broker


@pytest.fixture
def async_wakelog_broker(wakelog_broker: "EmbeddedBroker") -> "AsyncEmbeddedBroker":
    """Return the same broker for a test that is a coroutine."""
    from wakelog.testing.embedded_broker import AsyncEmbeddedBroker

    return AsyncEmbeddedBroker(wakelog_broker)
