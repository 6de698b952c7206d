"""One cluster, one console and one Chromium for all tests of this folder."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium

from tests.compat.clusters import real_cluster
from tests.console.browser.addresses import Addresses, addresses_of
from tests.console.browser.window import Window, chromium_in
from tests.console.demonstration import Demonstration, demonstration_of
from wakelog.testing.embedded_broker import EmbeddedBroker

SETTINGS = {"traceTopicEnable": "true", "enablePropertyFilter": "true"}


@pytest.fixture(
    scope="package",
    params=["wakelog", pytest.param("real", marks=[pytest.mark.java, pytest.mark.long])],
)
def name_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the name server of a cluster: ours, and in the long runs 4.9.3's."""
    if request.param == "real":
        with real_cluster(tmp_path_factory.mktemp("real"), settings=SETTINGS) as cluster:
            yield cluster.name_server
    else:
        with EmbeddedBroker(settings=SETTINGS) as broker:
            yield broker.name_server


@pytest.fixture(scope="package")
def demonstration(name_server: str) -> Iterator[Demonstration]:
    with demonstration_of(name_server) as made:
        yield made


@pytest.fixture(scope="package")
def addresses(demonstration: Demonstration) -> Addresses:
    return addresses_of(demonstration.console.browser)


@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium_in(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="package")
def windows(
    chromium: Chromium, demonstration: Demonstration, addresses: Addresses
) -> Iterator[tuple[Window, Window]]:
    """Yield a window with script and one without, for all tests: each takes a while to open.

    The addresses are found before, while no test has changed anything.
    """
    opened = (
        Window(chromium, demonstration.console.url),
        Window(chromium, demonstration.console.url, has_script=False),
    )
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def window(windows: tuple[Window, Window]) -> Window:
    windows[0].begin()
    return windows[0]


@pytest.fixture
def window_without_script(windows: tuple[Window, Window]) -> Window:
    windows[1].begin()
    return windows[1]


@pytest.fixture(params=["window", "window_without_script"])
def either(request: pytest.FixtureRequest, windows: tuple[Window, Window]) -> Window:
    window: Window = request.getfixturevalue(request.param)
    return window
