"""The page of consumers that are online."""

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_a_consumer_is_shown_while_it_is_online(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("seen")
    with Consumer(console_broker.name_server, group="seen-group", topics="seen"):
        console.read()
        text = browser.get("/clients?q=seen-group").text
    assert "127.0.0.1" in text and "seen-group" in text.partition("Groups")[2]
    console.read()
    assert "No consumer has “seen-group”" in browser.get("/clients?q=seen-group").text
