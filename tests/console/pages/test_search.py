"""A search from any page."""

from tests.console.site import Browser, Serving
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_an_exact_name_leads_to_its_page(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    for name in ("sought", "sought-too"):
        console_broker.create_topic(name)
    console.read()
    answer = browser.get("/search?q=sought")
    assert (answer.status, answer.headers["location"]) == (303, "/topics/sought")
    assert "sought sought-too" in " ".join(
        browser.get("/search?q=sough").text.partition("Address")[2].split(" topic ")
    )


def test_what_is_not_found_and_what_is_not_given_say_so(browser: Browser) -> None:
    assert "has “nothing-like-it” in its name" in browser.get("/search?q=nothing-like-it").text
    assert "Give a part of the name" in browser.get("/search").text
