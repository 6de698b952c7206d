"""Dead letters: three of them are found, ticked and sent again."""

import re

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer, Producer
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
    assert len(set(ids)) == COUNT
    [export] = re.findall(r'href="([^"]*/export)"', page.html)
    assert len(browser.get(export).html.splitlines()) == COUNT
    assert "<b>" not in page.html and "letter &lt;b&gt;0" in page.html

    chosen = " ".join(ids[:3])
    ticked = "&".join(f"id={each}" for each in ids[:3])
    preview = browser.get(f"/do/resend-dead-letters?group={GROUP}&{ticked}")
    assert f"{GROUP} consumes 3 dead letters again" in preview.text
    answer = browser.submit("/do/resend-dead-letters", group=GROUP, id=chosen)
    assert answer.status == 200, answer.text
    assert f"sent 3 to group {GROUP} again" in answer.text


def test_a_group_without_dead_letters_says_so(browser: Browser) -> None:
    answer = browser.get("/dead-letters/no-such-group")
    assert answer.status == 404 and "no broker knows group no-such-group" in answer.text
