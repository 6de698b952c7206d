"""The page of delayed messages, over a broker that has some."""

import re
from datetime import timedelta

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer, Producer
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC, GROUP = "sent-later", "group-that-retries"
COUNT = 11


def test_what_waits_is_shown_by_level_with_the_next_messages(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console.read()
    assert "No delayed message has been sent" in browser.get("/delayed").text
    with Producer(console_broker.name_server, group="p") as producer:
        for number in range(COUNT):
            producer.send(TOPIC, b"later", keys=f"key-{number}", delay=timedelta(hours=2))
        producer.send(TOPIC, b"now")
    with Consumer(console_broker.name_server, group=GROUP, topics=TOPIC, start="first") as consumer:
        next(iter(consumer)).nack()
    console_broker.wait_for_messages("SCHEDULE_TOPIC_XXXX", count=COUNT + 1)
    console.read()
    page = browser.get("/delayed")
    assert f"{COUNT + 1} delayed messages wait; the next is due in" in page.text
    row = page.html.partition('-18">')[2].partition("</tr>")[0]
    assert f'title="{COUNT}"' in row and '<span class="kind">2 h</span>' in row
    assert "in 2 h" in row or "in 1 h 59 min" in row
    assert page.html.count('<tr id="d-') == 8 + 1  # some of each level
    assert "key-0" in page.text and f"retry of {GROUP}" in page.text
    assert "RocketMQ's own broker" not in page.text
    assert browser.get("/delayed?q=another").text.count("No broker has") == 1
    message = page.html.partition('<tr id="d-')[2].partition('"')[0]
    assert browser.get(f"/messages/{message}").status == 200


def test_what_waits_is_linked_from_its_broker(browser: Browser, console: Serving) -> None:
    console.read()
    [broker] = console.console.reader.shown.brokers
    page = browser.get(f"/brokers/{broker.name}")
    assert f'href="/delayed?q={broker.name}"' in page.html and 'href="/transactions"' in page.html


def test_what_a_full_disk_holds_up_is_overdue_until_it_is_delivered(
    console: Serving, console_broker: EmbeddedBroker
) -> None:
    with Producer(console_broker.name_server, group="p") as producer:
        producer.send("held-up", b"late", delay=timedelta(minutes=1))
    with console_broker.full_disk():
        console_broker.advance(timedelta(minutes=3))
        console.read()
        page = console.browser.get("/delayed")
        row = page.html.partition('-5">')[2].partition("</tr>")[0]
        assert "1 min" in row and "overdue</time>" in row, row
        message = page.html.partition('<tr id="d-')[2].partition("</tr>")[0]
        assert "overdue</time>" in message, message
        first = console.browser.get("/")
        assert re.search(r"delayed messages? (is|are) overdue, the first by \d", first.text)
        assert 'href="/delayed">Delayed messages' in first.html
    console_broker.wait_for_messages("held-up", count=1, seconds_max=30)
    console.read()
    assert "delayed overdue" not in [each.rule for each in console.console.reader.findings]
