"""The console's pages of messages over 4.9.3's broker and ours, with hostile messages."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, message, wait_until
from tests.console.site import Browser, Serving, console_of
from wakelog import client as aio
from wakelog.client.admin import open_admin
from wakelog.client.sync import Producer
from wakelog.console.tails import TailOf, Tails

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("real")]

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT}\x1b[31m\u202eexe".encode() + b"\xed\xa0\x80\xff\x00"
CONSUMED_MS_MAX = 60_000
TAIL_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def site(cluster: Cluster) -> Iterator[Serving]:
    with console_of(cluster.name_server) as serving:
        yield serving


def has(browser: Browser, path: str, text: str) -> bool:
    return text in browser.get(path).html


def test_hostile_messages_are_found_and_shown_as_text(
    site: Serving, cluster: Cluster, topic: str
) -> None:
    browser = site.browser
    properties = {"<img src=x>": SCRIPT, "\x1b]0;title\x07": "\u202e"}
    with Producer(cluster.name_server, group="hostile") as producer:
        sent = producer.send(topic, HOSTILE, tags=SCRIPT, keys=["<b>"], properties=properties)
    link = f"/messages/{sent.offset_message_id}"
    wait_until(partial(has, browser, f"/topics/{topic}/messages", link), what="found by time")
    wait_until(
        partial(has, browser, f"/messages?topic={topic}&key=%3Cb%3E", link), what="found by key"
    )
    for path in (
        f"/messages?id={sent.message_id}&topic={topic}",
        f"/messages?id={sent.offset_message_id}",
        f"/messages?topic={topic}&broker=broker-a&queue={sent.queue_id}&offset={sent.queue_offset}",
        f"/topics/{topic}/messages?from=1h&text=alert",
        link,
        *(f"{link}?topic={topic}&body={tab}" for tab in ("text", "json", "hex", "stored")),
    ):
        answer = browser.get(path)
        assert (answer.status, link in answer.html) == (200, True), path
        for raw in (SCRIPT, "<img", "<b>", "\x1b", "\u202e"):
            assert raw not in answer.html, (path, raw)
    [line] = browser.get(f"/topics/{topic}/messages/export").html.splitlines()
    assert json.loads(line)["properties"]["<img src=x>"] == SCRIPT


def test_a_life_names_the_group_and_a_client_consumes_once_more(
    site: Serving, cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    browser, group = site.browser, f"group_{topic}"
    [sent] = driver("send", group="senders", messages=[message(topic, b"once")])
    driver("consume", name=topic, group=group, topics=[topic])
    driver("consumed", name=topic, count=1, timeoutMs=CONSUMED_MS_MAX)
    link = f"/messages/{sent['offsetMsgId']}"
    wait_until(partial(has, browser, link, "consumed</th>"), what="consumed")
    site.read()
    [client] = site.console.reader.shown.groups[group].clients.connection_set  # type: ignore[union-attr]
    fields = {"id": sent["offsetMsgId"], "topic": topic, "group": group}
    answer = browser.submit("/do/consume-message", **fields, client=client.client_id)
    assert answer.status == 200 and "CR_SUCCESS" in answer.text
    driver("consumed", name=topic, count=2, timeoutMs=CONSUMED_MS_MAX)
    assert browser.submit("/do/send-message-again", id=sent["offsetMsgId"]).status == 200
    driver("consumed", name=topic, count=3, timeoutMs=CONSUMED_MS_MAX)
    driver("stopConsuming", name=topic)


def test_a_tail_with_an_expression_is_filtered_by_the_broker(cluster: Cluster, topic: str) -> None:
    async def main() -> tuple[bytes, str]:
        async with (
            open_admin(cluster.name_server) as admin,
            aio.Producer(cluster.name_server, group="tailed") as producer,
            Tails(admin).watch(TailOf(topic, sql="amount > 5")) as viewer,
            asyncio.timeout(TAIL_SECONDS_MAX),
        ):
            while True:
                for amount in ("1", "9"):
                    await producer.send(topic, amount.encode(), properties={"amount": amount})
                if came := await viewer.next(0.5):
                    return came[0].body, viewer.said

    assert asyncio.run(main()) == (b"9", "")
