"""Pages of topics, over a broker."""

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.sync import Producer
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC = "shown-topic"


@pytest.fixture(scope="module")
def topic(console_broker: EmbeddedBroker, console: Serving) -> str:
    console_broker.create_topic(TOPIC, queues=2)
    with Producer(console_broker.name_server, group="p") as producer:
        for number in range(3):
            producer.send(TOPIC, b"%d" % number)
    console_broker.wait_for_messages(TOPIC, count=3)
    console.console.reader.read_soon()  # what was read of topics is old
    console.read()
    return TOPIC


def test_the_list_is_filtered_by_its_url(browser: Browser, topic: str) -> None:
    assert topic in browser.get("/topics?q=SHOWN").text
    answer = browser.get("/topics?q=no-such-thing")
    assert "No topic has “no-such-thing” in its name" in answer.text


def test_rocketmq_s_own_topics_are_shown_when_asked_for(browser: Browser, topic: str) -> None:
    assert "TBW102" not in browser.get("/topics").text
    assert "TBW102 RocketMQ's" in browser.get("/topics?all=1").text


def test_a_topic_shows_its_queues_and_messages(browser: Browser, topic: str) -> None:
    answer = browser.get(f"/topics/{topic}")
    assert answer.status == 200
    assert answer.html.count('id="q-') == 2
    assert 'title="3"' in answer.html.partition("messages</dt>")[2][:80]


def test_a_topic_without_groups_shows_how_to_consume_it(browser: Browser, topic: str) -> None:
    answer = browser.get(f"/topics/{topic}?tab=groups")
    assert "Nobody consumes this topic" in answer.text and f'topics="{topic}"' in answer.text


def test_a_topic_shows_what_each_broker_knows_of_it(browser: Browser, topic: str) -> None:
    answer = browser.get(f"/topics/{topic}?tab=configuration")
    assert answer.html.count('data-head="Write queues">2<') == 1


def test_a_topic_that_no_broker_knows_is_not_found(browser: Browser) -> None:
    for name in ("nowhere", "%3Cscript%3E"):
        answer = browser.get(f"/topics/{name}")
        assert answer.status == 404 and "No broker knows the topic" in answer.text
        assert "<script>" not in answer.html.partition("<main")[2]
