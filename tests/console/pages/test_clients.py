"""The pages of consumers that are online, and of producers."""

import asyncio

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer, Producer
from wakelog.console.pages import clients
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_a_consumer_is_shown_while_it_is_online(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("seen")
    with Consumer(console_broker.name_server, group="seen-group", topics="seen"):
        console.read()
        text = browser.get("/clients?q=seen-group").text
    assert "127.0.0.1" in text and "seen-group" in text.partition("Groups")[2]
    assert "PYTHON 4.9.3" in text
    console.read()
    assert "No consumer has “seen-group”" in browser.get("/clients?q=seen-group").text


def test_a_producer_is_shown_by_its_group_at_its_topic_and_by_both(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("sent")
    with Producer(console_broker.name_server, group="senders") as producer:
        producer.send("sent", b"x")
        console.read()
        for page in ("/producers?q=senders", "/topics/sent?tab=producers"):
            text = browser.get(page).text
            assert "senders" in text.partition("Last heartbeat")[2], text
            assert "PYTHON 4.9.3" in text
        found = browser.get("/producers?group=senders&topic=sent")
        assert "PYTHON 4.9.3" in found.text and "data-live" not in found.html
        assert "wakelog admin producerConnection -g senders -t sent" in found.text


def test_a_group_without_producers_is_said_with_what_helps(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("unsent")
    answer = browser.get("/producers?group=none&topic=unsent")
    assert answer.status == 200 and "the producer group[none] not exist" in answer.text
    assert "Give the group and a topic" in browser.get("/producers?topic=unsent").text


def test_brokers_that_list_no_producers_are_named(browser: Browser, console: Serving) -> None:
    console.read()
    [reading] = console.console.reader.shown.brokers
    reading.producers = None
    assert "broker-a does not list its producers" in browser.get("/producers").text


def test_a_broker_that_hangs_is_said(
    browser: Browser, console: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(group: str, topic: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(clients, "PRODUCERS_SECONDS_MAX", 0.05)
    monkeypatch.setattr(console.console.admin, "producers", hang)
    assert "no broker of t has answered" in browser.get("/producers?group=g&topic=t").text
