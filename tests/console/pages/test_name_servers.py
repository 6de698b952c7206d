"""The page of the name servers, over one that runs and one that is away."""

from tests.compat.processes import free_port
from tests.console.site import Browser, Serving, console_of
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_a_name_server_that_is_alone_is_shown(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console.read()
    answer = browser.get("/name-servers")
    assert f"{console_broker.name_server} answers" in answer.text
    assert "There is one name server" in answer.text


def test_settings_are_shown_with_where_they_come_from(browser: Browser, console: Serving) -> None:
    console.read()
    answer = browser.get("/name-servers?tab=settings")
    assert "orderMessageEnable false by default" in answer.text
    assert "key=orderMessageEnable" in answer.html and "key=kvConfigPath" not in answer.html
    filtered = browser.get("/name-servers?tab=settings&q=ORDER").html
    assert 'id="k-orderMessageEnable"' in filtered and 'id="k-listenPort"' not in filtered


def test_a_namespace_without_values_says_how_to_find_one(browser: Browser) -> None:
    text = browser.get("/name-servers?tab=values&namespace=<b>").text
    assert "The namespace <b> has no values" in text and "do not list their namespaces" in text


def test_what_the_page_asks_for_itself_is_not_asked_again_and_again(
    browser: Browser, console: Serving
) -> None:
    console.read()
    [reading] = console.console.reader.shown.brokers
    pages = "/name-servers?tab=", f"/brokers/{reading.name}?tab="
    for page, tab, is_live in (
        (pages[0], "values", False),
        (pages[0], "settings", True),
        (pages[1], "configuration", False),
        (pages[1], "state", True),
    ):
        assert ("data-live=" in browser.get(page + tab).html) is is_live, tab


def test_one_of_several_that_is_away_is_shown(console_broker: EmbeddedBroker) -> None:
    away = f"127.0.0.1:{free_port()}"
    with console_of(f"{console_broker.name_server};{away}") as serving:
        serving.read()
        browser = serving.browser
        text = browser.get("/name-servers").text
        assert f"{away} no answer" in text and "Too few answer" in text
