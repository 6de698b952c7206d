"""One broker, and one console of it, for the tests of pages."""

from collections.abc import Iterator

import pytest

from tests.console.site import Browser, Serving, console_of
from wakelog.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def console_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def console(console_broker: EmbeddedBroker) -> Iterator[Serving]:
    with console_of(console_broker.name_server) as serving:
        yield serving


@pytest.fixture
def browser(console: Serving) -> Browser:
    return console.browser
