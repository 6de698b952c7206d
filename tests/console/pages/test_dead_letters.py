"""Dead letters: three of them are found, ticked and sent again."""

import html
import re

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.message_search import SearchBounds
from wakelog.client.sync import Consumer, Producer
from wakelog.console.pages import dead_letters
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC, GROUP, COUNT = "given-up", "group-with-letters", 4


def give_up(broker: EmbeddedBroker) -> None:
    """Have the group give up what the topic has."""
    with Producer(broker.name_server, group="p") as producer:
        for number in range(COUNT):
            producer.send(TOPIC, b"letter <b>%d</b>" % number, keys=f"key-{number}")
    with Consumer(
        broker.name_server, group=GROUP, topics=TOPIC, start="first", max_retries=0
    ) as consumer:
        for _, message in zip(range(COUNT), consumer, strict=False):
            message.nack()


def test_three_dead_letters_are_sent_again(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    give_up(console_broker)
    console_broker.wait_for_messages(f"%DLQ%{GROUP}", count=COUNT)
    console.read()
    assert GROUP in browser.get("/dead-letters").text
    page = browser.get(f"/dead-letters/{GROUP}")
    ids = re.findall(r'type="checkbox" name="id" value="(\w+)"', page.html)
    links = re.findall(r'<th scope="row"><a href="([^"]+)"', page.html)
    assert "gave it up" in browser.get(links[0]).text or TOPIC in browser.get(links[0]).text
    assert len(set(ids)) == COUNT
    [export] = re.findall(r'href="([^"]*/export)"', page.html)
    assert len(browser.get(export).html.splitlines()) == COUNT
    assert "<b>" not in page.html and "letter &lt;b&gt;0" in page.html

    many = "&".join(f"id={n:064}" for n in range(100))  # as many as a page shows
    assert "consumes 100 dead" in browser.get(f"/do/resend-dead-letters?group={GROUP}&{many}").text
    none = browser.get(f"/do/resend-dead-letters?group={GROUP}").text
    assert "no dead letter is ticked" in none and "--all" not in none
    [to_all] = re.findall(r'href="(/do/resend-dead-letters[^"]*)"', page.html)
    assert f"consumes {COUNT} dead letters" in browser.get(html.unescape(to_all)).text

    chosen = " ".join(ids[:3])
    ticked = "&".join(f"id={each}" for each in ids[:3])
    preview = browser.get(f"/do/resend-dead-letters?group={GROUP}&{ticked}")
    assert f"{GROUP} consumes 3 dead letters again" in preview.text
    answer = browser.submit("/do/resend-dead-letters", group=GROUP, id=chosen)
    assert answer.status == 200, answer.text
    assert f"sent 3 to group {GROUP} again" in answer.text


def test_a_group_without_dead_letters_says_so(browser: Browser) -> None:
    answer = browser.get("/dead-letters/no-such-group")
    assert answer.status == 404 and "No broker knows the group no-such-group" in answer.text


def test_the_letters_of_a_page_are_bounded_by_their_bytes(
    browser: Browser, console: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.read()
    assert "Not all" not in browser.get(f"/dead-letters/{GROUP}").text
    monkeypatch.setattr(dead_letters, "LIMITS", SearchBounds(rows=100, body_bytes=20))
    page = browser.get(f"/dead-letters/{GROUP}")
    assert page.html.count('type="checkbox"') < COUNT and "Not all: bodies of" in page.text
