"""Answers that stay open: bounded for each host and session, and for pages that are kept new."""

import http.client
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from tests.console.site import Browser, Serving
from wakelog.console.defence.places import Places
from wakelog.console.pages.app import PAGES
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC = "streamed"


@pytest.fixture(scope="module", autouse=True)
def topic(console_broker: EmbeddedBroker) -> None:
    console_broker.create_topic(TOPIC, queues=1)


@pytest.fixture(params=["/live?of=/topics", f"/topics/{TOPIC}/tail"])
def stream(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def places(console: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """Few places, for pages that are kept new and for topics that are followed."""
    few = Places(4, host=2, session=3)
    monkeypatch.setattr(console.console, "viewers", few)
    monkeypatch.setattr(console.console, "followers", few)
    yield few


def open_stream(stack: ExitStack, console: Serving, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(Browser(console.url).address, timeout=30)
    stack.callback(connection.close)
    connection.request("GET", path)
    response = connection.getresponse()
    stack.callback(response.close)
    return response


def test_one_host_cannot_take_all_places(console: Serving, places: Places, stream: str) -> None:
    with ExitStack() as stack:
        assert [open_stream(stack, console, stream).status for _ in range(2)] == [200, 200]
        refused = open_stream(stack, console, stream)
        assert refused.status == 429
        assert b"Too many pages are open from here" in refused.read()
        assert places.count == 2


def test_all_places_are_bounded(console: Serving, places: Places, stream: str) -> None:
    for number in range(4):
        places.take(host=f"10.0.0.{number}", session=f"{number}")
    with ExitStack() as stack:
        refused = open_stream(stack, console, stream)
        assert refused.status == 503
        assert b"Too many pages are open at this console" in refused.read()


def test_one_session_cannot_take_all_places(console: Serving, places: Places, stream: str) -> None:
    for number in range(3):
        places.take(host=f"10.0.0.{number}", session="")
    with ExitStack() as stack:
        refused = open_stream(stack, console, stream)
        assert refused.status == 429
        assert b"You have too many pages open" in refused.read()


def test_what_ends_frees_its_place(console: Serving, places: Places) -> None:
    with ExitStack() as stack:
        open_stream(stack, console, "/live?of=/topics")
        assert places.count == 1
    for _ in range(100):
        console.read()  # what is sent to a closed connection ends it
        if not places.count:
            break
    assert places.count == 0


@pytest.mark.parametrize(
    "of",
    [
        "/messages",
        "/do/create-topic",
        "/login",
        "/search?q=x",
        "/no/such",
        "/live?of=/",
        f"/topics/{TOPIC}/tail",
        f"/topics/{TOPIC}/messages",
        f"/topics/{TOPIC}/messages/export",
        "/topics/none",
        "//evil.example/topics",
    ],
)
def test_only_pages_that_are_kept_new_are(console: Serving, places: Places, of: str) -> None:
    with ExitStack() as stack:
        answer = open_stream(stack, console, "/live?of=" + quote(of, safe=""))
        assert (answer.status == 404) == (of != "//evil.example/topics"), of
    if of != "//evil.example/topics":
        assert places.count == 0


def test_a_page_says_that_it_is_kept_new_just_if_it_is(browser: Browser, console: Serving) -> None:
    for row in PAGES:
        if "{" in row.path or row.path == "/logout":
            continue
        says = "data-live=" in browser.get(row.path).html
        with ExitStack() as stack:
            status = open_stream(stack, console, f"/live?of={row.path}").status
        assert (status == 200) == says, row.path
