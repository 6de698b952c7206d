"""Members, settings and producers in the console, at 4.9.3's broker and ours, with Java clients."""

import html
import os
import re
import signal
import time
from urllib.parse import quote, urlencode

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.console.site import Browser, Serving, console_of

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("real")]

CONSUMED_MS_MAX = 60_000
PAUSED_MS = 2_000
PAGE_SECONDS_MAX = 4.0
"""What a page of a member that hangs may take: 3 s, and this machine's own time."""


def send(driver: JavaDriver, topic: str, *texts: str) -> None:
    sent = [message(topic, text.encode()) for text in texts]
    driver("send", group=f"producers_{topic}", messages=sent)


def member_of(console: Serving, group: str) -> str:
    """Return the path of the page of a group's one member, once it is online."""

    def found() -> list[str]:
        console.read()
        reading = console.console.reader.shown.groups.get(group)
        clients = reading.clients.connection_set if reading and reading.clients else []
        return [client.client_id for client in clients]

    wait_until(lambda: len(found()) == 1, what="online")
    [client] = found()
    return f"/groups/{group}/members/{quote(client, safe='')}"


def test_a_member_shows_what_it_does_and_its_java_stacks(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    group = f"group_{topic}"
    send(driver, topic, *"abcde")
    driver("consume", name=topic, group=group, topics=[topic])
    driver("consumed", name=topic, count=5, timeoutMs=CONSUMED_MS_MAX)
    with console_of(cluster.name_server) as console:
        browser, page = console.browser, member_of(console, group)
        wait_until(lambda: f'id="q-{topic}-' in browser.get(page).html, what="has queues")
        answer = browser.get(page)
        assert answer.html.count(f'id="q-{topic}-') == 4
        assert f"{topic} * TAG alike" in answer.text
        assert "JAVA" in answer.text and "4.9.3" in answer.text
        assert "PROP_CONSUME_TYPE CONSUME_PASSIVELY" in answer.text
        assert f"{topic} " in answer.text.partition("Rates")[2].partition("Stacks")[0]
        stacks = browser.get(f"{page}?stacks=1").text.partition("Stacks")[2]
        assert stacks.strip().startswith("ConsumeMessageThread")
        assert "java.util.concurrent" in stacks and "WAITING" in stacks
        assert "ok 1 client" in browser.get(f"/groups/{group}?tab=why").text
    driver("stopConsuming", name=topic)


def test_a_member_that_hangs_is_said_within_three_seconds(cluster: Cluster, topic: str) -> None:
    group = f"group_{topic}"
    with JavaDriver(cluster.name_server) as other, console_of(cluster.name_server) as console:
        other("consume", name=topic, group=group, topics=[topic])
        page = member_of(console, group)
        os.kill(other.process_id, signal.SIGSTOP)
        try:
            began = time.monotonic()
            answer = console.browser.get(page)
            taken_seconds = time.monotonic() - began
        finally:
            os.kill(other.process_id, signal.SIGCONT)
        assert "has not answered within 3 s" in answer.text
        assert taken_seconds < PAGE_SECONDS_MAX


def test_a_group_is_paused_resumed_changed_cloned_and_deleted(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    group = f"group_{topic}"
    send(driver, topic, "a")
    driver("consume", name=topic, group=group, topics=[topic])
    driver("consumed", name=topic, count=1, timeoutMs=CONSUMED_MS_MAX)
    with console_of(cluster.name_server) as console:
        browser = console.browser
        member_of(console, group)
        done(browser, "pause-group", group=group)
        send(driver, topic, "b", "c")
        held = driver("consumed", name=topic, count=3, timeoutMs=PAUSED_MS)
        assert bodies(held) == [b"a"]
        console.read()
        assert "consumeEnable=false" in browser.get(f"/groups/{group}?tab=why").text
        done(browser, "resume-group", group=group)
        came = driver("consumed", name=topic, count=3, timeoutMs=CONSUMED_MS_MAX)
        assert sorted(bodies(came)) == [b"a", b"b", b"c"]
        driver("stopConsuming", name=topic)
        wait_until(lambda: is_even(console, group, topic), what="is kept at the broker")
        page = browser.get(f"/groups/{group}").html
        [link] = re.findall(r'href="(/do/change-group[^"]*)"', page)
        assert "nothing changes at 1 broker" in browser.get(html.unescape(link)).text
        fields = {"group": group, "cluster": cluster_of(console), "consume": "true"}
        numbers = {"retries": "3", "retry-queues": "2", "broker-id": "0", "slow-broker-id": "1"}
        done(browser, "change-group", **fields, **numbers)
        console.read()
        settings = browser.get(f"/groups/{group}?tab=configuration").text
        assert "no 3 2 0 1" in settings
        made = {**fields, "group": f"clone_{topic}"}
        done(browser, "create-group", **made, **numbers)
        clone = {"source": group, "group": f"clone_{topic}", "topic": topic}
        would = browser.get(f"/do/clone-offsets?{urlencode(clone)}").text
        assert f"of topics {topic}" in would
        done(browser, "clone-offsets", **clone)
        assert is_even(console, made["group"], topic)
        whole = {"group": group, "cluster": cluster_of(console), "offsets": "true"}
        done(browser, "delete-group", **whole, typed=group)
        console.read()
        assert browser.get(f"/groups/{group}").status == 404


def test_a_topic_is_changed_and_gets_a_message(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    with console_of(cluster.name_server) as console:
        browser = console.browser
        console.read()
        of = {"topic": topic, "cluster": cluster_of(console)}
        done(browser, "change-topic", **of, read="6", write="6", perm="6")
        done(browser, "change-permission", **of, perm="4")
        console.read()
        assert "6 6 read no" in browser.get(f"/topics/{topic}?tab=configuration").text
        done(browser, "change-permission", **of, perm="6")
        wait_until(lambda: "to one of 6" in sending(browser, topic), what="routed")
        token = browser.token(f"/do/send-message?topic={topic}")
        typed = {"topic": topic, "body": "typed", "tags": "paid", "properties": "a=1"}
        sent = browser.post("/do/send-message", {"token": token, **typed})
        assert sent.status == 200, sent.text
        [link] = re.findall(r'href="(/messages/[^"]*)"', sent.html)
        assert "typed" in browser.get(html.unescape(link)).text
        page = f"/topics/{topic}"
        wait_until(lambda: oldest_of(browser, page).startswith("<time"), what="has an oldest")


def test_producers_are_shown_as_far_as_a_broker_says(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    send(driver, topic, "a")
    group = f"producers_{topic}"
    with console_of(cluster.name_server) as console:
        browser = console.browser
        wait_until(
            lambda: "JAVA" in browser.get(f"/producers?group={group}&topic={topic}").text,
            what="known to its broker",
        )
        console.read()
        [reading] = console.console.reader.shown.brokers
        assert reading.failure is None
        text = browser.get(f"/topics/{topic}?tab=producers").text
        listed = reading.producers is not None
        assert (group in text, "does not list its producers" in text) == (listed, not listed)


def cluster_of(console: Serving) -> str:
    [reading] = console.console.reader.shown.brokers
    return reading.cluster


def is_even(console: Serving, group: str, topic: str) -> bool:
    """Return whether the broker knows that a group has consumed all of a topic."""
    console.read()
    progress = console.console.reader.shown.groups[group].progress
    offsets = [one for queue, one in progress.offset_table.items() if queue.topic == topic]
    return bool(offsets) and all(one.broker_offset == one.consumer_offset for one in offsets)


def done(browser: Browser, action: str, **fields: str) -> None:
    """Do what an action does."""
    answer = browser.submit(f"/do/{action}", **fields)
    assert answer.status == 200, answer.text


def sending(browser: Browser, topic: str) -> str:
    return browser.get(f"/do/send-message?topic={topic}").text


def oldest_of(browser: Browser, page: str) -> str:
    part = browser.get(page).html.partition("oldest</dt><dd>")[2]
    return part.partition("</dd>")[0]
