"""Pages of groups and their actions, over a broker with a consumer."""

from collections.abc import Iterator

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer, Producer
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC, GROUP, COUNT = "grouped", "group-of-pages", 12


@pytest.fixture(scope="module")
def group(console_broker: EmbeddedBroker, console: Serving) -> Iterator[str]:
    """A group that has consumed twelve messages, and has a client."""
    name_server = console_broker.name_server
    with Producer(name_server, group="p") as producer:
        for number in range(COUNT):
            producer.send(TOPIC, b"%d" % number)
    consume_all(console_broker, GROUP)
    with Consumer(name_server, group=GROUP, topics=TOPIC):
        console.read()
        yield GROUP


def consume_all(broker: EmbeddedBroker, group: str) -> None:
    """Consume what the topic has, and commit at the end."""
    with Consumer(broker.name_server, group=group, topics=TOPIC, start="first") as consumer:
        for _, message in zip(range(COUNT), consumer, strict=False):
            message.ack()


def test_the_list_says_how_a_group_stands(browser: Browser, group: str) -> None:
    answer = browser.get("/groups")
    row = answer.html.partition(f'id="{group}"')[2].partition("</tr>")[0]
    assert "consuming" in row
    assert "TOOLS_CONSUMER" not in answer.html


def test_a_group_shows_its_queues_members_and_subscriptions(browser: Browser, group: str) -> None:
    queues = browser.get(f"/groups/{group}")
    assert queues.html.count('id="q-grouped-') >= 1 and "consumes grouped" in queues.text
    assert "127.0.0.1" in browser.get(f"/groups/{group}?tab=members").text
    assert TOPIC in browser.get(f"/groups/{group}?tab=subscriptions").text
    assert "retries at most 16" in browser.get(f"/groups/{group}?tab=configuration").text


def test_a_topic_names_its_groups(browser: Browser, group: str) -> None:
    assert group in browser.get(f"/topics/{TOPIC}?tab=groups").text


def test_a_group_that_no_broker_knows_is_not_found(browser: Browser) -> None:
    assert browser.get("/groups/nobody").status == 404


def test_a_reset_says_first_how_many_messages_come_again(
    console_broker: EmbeddedBroker, browser: Browser, console: Serving
) -> None:
    gone = "group-to-reset"
    consume_all(console_broker, gone)
    fields = {"group": gone, "topic": TOPIC, "to": "beginning"}
    page = browser.get("/do/reset-offsets?group=group-to-reset&topic=grouped&to=beginning")
    assert f"gives {COUNT} messages again, skips 0" in page.text
    answer = browser.submit("/do/reset-offsets", **fields)
    assert answer.status == 200, answer.text
    assert f"wakelog reset {gone} {TOPIC} --to beginning --yes" in answer.text
    console.read()
    row = browser.get("/groups").html.partition(f'id="{gone}"')[2].partition("</tr>")[0]
    assert f'title="{COUNT}"' in row and "nobody, messages wait" in row
    skipped = browser.submit("/do/skip-messages", group=gone, topic=TOPIC, typed=gone)
    assert skipped.status == 200, skipped.text
    console.read()
    row = browser.get("/groups").html.partition(f'id="{gone}"')[2].partition("</tr>")[0]
    assert 'title="0"' in row


def test_a_group_is_deleted_after_its_name_was_typed(
    console_broker: EmbeddedBroker, browser: Browser, console: Serving
) -> None:
    doomed = "doomed-group"
    consume_all(console_broker, doomed)
    console.read()
    assert doomed in browser.get("/groups").text
    fields = {"group": doomed, "cluster": "DefaultCluster"}
    assert browser.submit("/do/delete-group", **fields).status == 422
    assert browser.submit("/do/delete-group", **fields, typed=doomed).status == 200
    console.read()
    assert doomed not in browser.get("/groups").text
