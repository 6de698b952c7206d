"""Pages of groups and their actions, over a broker with a consumer."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.sync import Consumer, Producer
from wakelog.testing.embedded_broker import EmbeddedBroker

TOPIC, GROUP, COUNT = "grouped", "group-of-pages", 12
NUMBERS = {"retries": "16", "retry-queues": "1", "broker-id": "0", "slow-broker-id": "1"}


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
    row = answer.html.partition(f'id="g-{group}"')[2].partition("</tr>")[0]
    assert "consuming" in row
    assert "TOOLS_CONSUMER" not in answer.html


def test_a_group_shows_its_queues_members_and_subscriptions(browser: Browser, group: str) -> None:
    queues = browser.get(f"/groups/{group}")
    assert queues.html.count('id="q-grouped-') >= 1 and "consumes grouped" in queues.text
    assert "127.0.0.1" in browser.get(f"/groups/{group}?tab=members").text
    assert TOPIC in browser.get(f"/groups/{group}?tab=subscriptions").text
    settings = browser.get(f"/groups/{group}?tab=configuration").text
    assert "Retries at most" in settings and "yes 16 1 0 1" in settings


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
    row = browser.get("/groups").html.partition(f'id="g-{gone}"')[2].partition("</tr>")[0]
    assert f'title="{COUNT}"' in row and "nobody, messages wait" in row
    skipped = browser.submit("/do/skip-messages", group=gone, topic=TOPIC, typed=gone)
    assert skipped.status == 200, skipped.text
    console.read()
    row = browser.get("/groups").html.partition(f'id="g-{gone}"')[2].partition("</tr>")[0]
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


def test_a_group_says_why_it_does_not_consume(browser: Browser, group: str) -> None:
    answer = browser.get(f"/groups/{group}?tab=why")
    assert "Nothing stands in its way ● ok 1 client is online ● ok lags by 0" in answer.text
    assert f"wakelog doctor --group {group}" in answer.text


def test_a_group_is_paused_and_resumed_and_keeps_its_settings(
    browser: Browser, console: Serving, group: str
) -> None:
    assert (
        "1 broker of 1 will be asked to pause it"
        in browser.get(f"/do/pause-group?group={group}").text
    )
    paused = browser.submit("/do/pause-group", group=group)
    assert paused.status == 200 and f"wakelog pause {group} --yes" in paused.text
    console.read()
    page = browser.get(f"/groups/{group}")
    assert "may not consume" in page.text and "Why is it not consuming?" in page.text
    assert f"/do/resume-group?group={group}" in page.html
    held = browser.get(f"/groups/{group}?tab=why").text
    assert "What stands in its way" in held and "consumeEnable=false" in held
    assert browser.submit("/do/resume-group", group=group).status == 200
    console.read()
    assert "may not consume" not in browser.get(f"/groups/{group}").text
    assert "yes 16 1 0 1" in browser.get(f"/groups/{group}?tab=configuration").text


def test_a_group_is_made_and_changed(browser: Browser, console: Serving) -> None:
    fields = {"group": "made-group", "cluster": "DefaultCluster", "consume": "true"}
    made = browser.submit("/do/create-group", **fields, **NUMBERS)
    assert made.status == 200, made.text
    console.read()
    page = browser.get("/groups/made-group").html
    [link] = re.findall(r'href="(/do/change-group[^"]*)"', page)
    assert "nothing changes at 1 broker" in browser.get(html.unescape(link)).text
    settings = browser.get("/groups/made-group?tab=configuration").html
    [_, one] = re.findall(r'href="(/do/change-group[^"]*)"', settings)
    [reading] = console.console.reader.shown.brokers
    here = browser.get(html.unescape(one)).text
    assert f"updateSubGroup -b {reading.address}" in here and "nothing changes" in here
    changed = {**fields, **NUMBERS, "retries": "3"}
    assert (
        "retries at most is 16, and will be 3"
        in browser.get(f"/do/change-group?{urlencode(changed)}").text
    )
    assert browser.submit("/do/change-group", **changed).status == 200
    console.read()
    assert "no 3 1 0 1" in browser.get("/groups/made-group?tab=configuration").text


def test_a_group_gets_the_offsets_of_another(
    browser: Browser, console: Serving, group: str
) -> None:
    made = {"group": "cloned-group", "cluster": "DefaultCluster", "consume": "true"}
    assert browser.submit("/do/create-group", **made, **NUMBERS).status == 200
    fields = {"source": group, "group": "cloned-group", "topic": TOPIC}
    would = browser.get(f"/do/clone-offsets?{urlencode(fields)}")
    assert "it gets the offsets of" in would.text and f"of topics {TOPIC}" in would.text
    assert browser.submit("/do/clone-offsets", **fields).status == 200
    console.read()
    places = console.console.reader.shown.groups["cloned-group"].progress
    assert places.total_diff() == 0 and len(places.offset_table) >= 1


def test_a_group_that_has_consumed_nothing_is_deleted(browser: Browser, console: Serving) -> None:
    fields = {"group": "idle-group", "cluster": "DefaultCluster"}
    browser.submit("/do/create-group", **fields, **NUMBERS)
    fields["offsets"] = "true"
    page = browser.get(f"/do/delete-group?{urlencode(fields)}")
    assert "its offsets of 0 queues are forgotten" in page.text
    assert browser.submit("/do/delete-group", **fields, typed="idle-group").status == 200
    console.read()
    assert "idle-group" not in browser.get("/groups").text
