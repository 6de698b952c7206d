"""A search from any page."""

from tests.console.site import Browser, Serving
from wakelog.client.sync import Producer
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
    text = browser.get("/search?q=nothing-like-it").text
    assert "has “nothing-like-it” in its name" in text
    assert "no message has it as its key or id" in text
    assert "Give a part of the name" in browser.get("/search").text


def test_a_message_is_found_by_its_key_or_id_in_any_topic(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    with Producer(console_broker.name_server, group="p") as producer:
        sent = producer.send("keyed-one", b"one", keys=["order-1", "shared-key"])
        producer.send("keyed-two", b"two", keys=["shared-key"])
    console_broker.wait_for_messages("keyed-two", count=1)
    console.read()
    for name in ("order-1", sent.message_id, sent.offset_message_id):
        answer = browser.get(f"/search?q={name}")
        assert (answer.status, answer.headers["location"]) == (
            303, f"/messages/{sent.offset_message_id}"
        ), answer.text  # fmt: skip
    both = browser.get("/search?q=shared-key").text
    assert "Messages with this key or id" in both and "keyed-one" in both and "keyed-two" in both
    for query in ("key=order-1", f"id={sent.message_id}"):
        page = browser.get(f"/messages?{query}").text
        assert "keyed-one" in page and "1 message" in page
    missing = browser.get("/messages?key=nothing-like-it").text
    assert "No topic has a message with this id or key" in missing
