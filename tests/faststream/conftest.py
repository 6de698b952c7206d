"""A broker in this process for each module, and names that no other test uses."""

import uuid
from collections.abc import Iterator

import pytest

from tests.tasks.brokers import BROKERS
from wakelog.testing import EmbeddedBroker


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with request.param(settings={"enablePropertyFilter": "true"}) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"
