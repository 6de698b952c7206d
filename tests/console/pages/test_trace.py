"""The page of traces, by id and by key."""

from functools import partial

from tests.compat.driver import wait_until
from tests.console.site import Browser
from wakelog.client.sync import Producer
from wakelog.testing.embedded_broker import EmbeddedBroker


def is_shown(browser: Browser, path: str) -> bool:
    return "sent" in browser.get(path).text


def test_the_trace_of_a_message_is_found_by_id_and_key(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    with Producer(console_broker.name_server, group="traced", trace=True) as producer:
        receipt = producer.send("traced", b"x", keys=["traced-key"])
    for query in (f"id={receipt.message_id}", "key=traced-key"):
        wait_until(partial(is_shown, browser, f"/trace?{query}"), what="the trace")
        answer = browser.get(f"/trace?{query}")
        assert "traced at 127.0.0.1" in answer.text
        assert '<svg class="life"' in answer.html


def test_without_a_trace_it_says_how_to_get_one(browser: Browser) -> None:
    assert "trace=True" in browser.get("/trace").text
    answer = browser.get("/trace?id=<b>absent")
    assert "No client has recorded <b>absent" in answer.text
    assert "<b>absent" not in answer.html
    assert browser.get("/trace?id=x&topic=absent").status == 404
