"""Pages of topics, over a broker."""

import html
import re
from dataclasses import replace

import pytest

from tests.console.site import Browser, Serving, console_of
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.sync import Producer
from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.protocol.bodies import TopicConfig
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


def test_a_topic_says_when_its_oldest_message_was_stored(browser: Browser, topic: str) -> None:
    page = browser.get(f"/topics/{topic}").html
    assert "<time" in page.partition("oldest</dt>")[2].partition("</dd>")[0]


def test_a_topic_is_changed_by_a_form_that_has_what_it_is(
    browser: Browser, console: Serving, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("to-change", queues=2)
    console.read()
    page = browser.get("/topics/to-change").html
    [link] = re.findall(r'href="(/do/change-topic[^"]*)"', page)
    assert "its queues and permission stay at 1 broker" in browser.get(html.unescape(link)).text
    fields = {"topic": "to-change", "cluster": "DefaultCluster", "read": "3", "write": "3"}
    assert browser.submit("/do/change-topic", **fields, perm="4").status == 200
    console.read()
    text = browser.get("/topics/to-change?tab=configuration").text
    assert "3 3 read no" in text
    opened = {"topic": "to-change", "cluster": "DefaultCluster", "perm": "6"}
    assert browser.submit("/do/change-permission", **opened).status == 200
    console.read()
    assert "3 3 read and write no" in browser.get("/topics/to-change?tab=configuration").text


def test_a_message_is_sent_and_leads_to_its_page(
    browser: Browser, console_broker: EmbeddedBroker
) -> None:
    console_broker.create_topic("typed-into", queues=1)
    page = browser.get("/do/send-message?topic=typed-into")
    assert "it goes to one of 1 queue at 1 broker" in page.text
    assert 'role="alert"' not in page.html, page.text
    token = browser.token("/do/send-message?topic=typed-into")
    fields = {"token": token, "topic": "typed-into", "body": "two\r\nlines", "tags": "paid"}
    fields |= {"keys": "4711", "properties": "colour=red", "delay": ""}
    sent = browser.post("/do/send-message", fields)
    assert sent.status == 200, sent.text
    [message] = console_broker.wait_for_messages("typed-into", count=1)
    assert (message.body, message.tags, message.keys) == (b"two\nlines", "paid", ["4711"])
    assert message.properties["colour"] == "red"
    [link] = re.findall(r'href="(/messages/[^"]*)"', sent.html)
    assert "4711" in browser.get(html.unescape(link)).text
    wrong = browser.post("/do/send-message", {**fields, "body": ""})
    assert wrong.status == 422 and "Body is needed" in wrong.text


def test_brokers_that_disagree_about_a_topic_are_named(
    browser: Browser, console: Serving, topic: str
) -> None:
    console.read()
    shown = console.console.reader.shown
    [reading] = shown.brokers
    other = replace(reading, name="broker-z", topics={topic: TopicConfig(topic, 5, 2)})
    shown.brokers.append(other)
    text = browser.get(f"/topics/{topic}").text
    assert "Its brokers disagree on read queues: 2 at broker-a; 5 at broker-z." in text
    console.read()


@pytest.mark.parametrize("is_away", [True, False])
def test_no_list_is_said_to_be_empty_while_a_broker_has_not_answered(
    is_away: bool, console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = ClientError("broker-a does not answer within 3 s", "See whether it runs")
    broker = BrokerReading("c", "a", 0, "a:1", failure=failure if is_away else None)

    async def read(_: Admin, now_ms: int, before: ClusterReading) -> ClusterReading:
        return ClusterReading(now_ms, brokers=[broker])

    monkeypatch.setattr("wakelog.console.reader.read_cluster", read)
    with console_of(console_broker.name_server) as console:
        pages = {
            path: console.browser.get(path).text for path in ("/topics", "/groups", "/dead-letters")
        }
        first = console.browser.get("/").text
    said = "Not known now: broker-a does not answer within 3 s. See whether it runs."
    assert [said in text for text in pages.values()] == [is_away] * 3
    assert ("There are no topics yet" in pages["/topics"]) is not is_away
    assert ("Send a first message" in first) is not is_away


def test_the_number_of_groups_leads_to_them(browser: Browser, topic: str) -> None:
    link = f'href="/topics/{topic}?tab=groups"'
    row = browser.get("/topics").html.partition(f'id="t-{topic}"')[2].partition("</tr>")[0]
    assert link in row
    assert link in browser.get(f"/topics/{topic}").html.partition("groups</dt>")[2][:200]
