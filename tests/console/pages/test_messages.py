"""Pages of messages: searches in the URL, the life of one, its body, exports, and the tail."""

import http.client
import json
import threading
from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.receipts import Receipt
from wakelog.client.sync import Producer
from wakelog.testing.embedded_broker import EmbeddedBroker

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT}\x1b[31m\u202eexe".encode() + b"\xff\xfe"
TOPIC = "messages-sought"


@pytest.fixture(scope="module")
def receipts(console_broker: EmbeddedBroker) -> Iterator[list[Receipt]]:
    with Producer(console_broker.name_server, group="writers") as producer:
        sent = [
            producer.send(TOPIC, b'{"n": 1}', tags="paid", keys=["order-1"]),
            producer.send(
                TOPIC, HOSTILE, tags="open", keys=["order-1"], properties={"<b>": SCRIPT}
            ),
        ]
    console_broker.wait_for_messages(TOPIC, count=2)
    yield sent


@pytest.mark.parametrize(
    ("query", "has_first", "has_second"),
    [
        ("", True, True),
        ("?tag=paid", True, False),
        ("?text=ALERT", False, True),
        ("?sql=" + quote("TAGS = 'paid'"), True, False),
        ("?key=order-1", True, True),
        ("?from=1h&to=30m", False, False),
        ("?order=oldest", True, True),
    ],
)
def test_messages_of_a_topic_are_found_by_the_url(
    browser: Browser, receipts: list[Receipt], query: str, has_first: bool, has_second: bool
) -> None:
    answer = browser.get(f"/topics/{TOPIC}/messages{query}")
    assert answer.status == 200
    first, second = (f"/messages/{each.offset_message_id}" in answer.html for each in receipts)
    assert (first, second) == (has_first, has_second)
    assert SCRIPT not in answer.html


def test_a_message_is_found_by_each_id_and_by_its_place(
    browser: Browser, receipts: list[Receipt]
) -> None:
    first = receipts[0]
    place = f"broker=broker-a&queue={first.queue_id}&offset={first.queue_offset}"
    for query in (
        f"id={first.offset_message_id}",
        f"id={first.message_id}&topic={TOPIC}",
        f"topic={TOPIC}&{place}",
    ):
        answer = browser.get(f"/messages?{query}")
        assert f"/messages/{first.offset_message_id}" in answer.html, query


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("topic=absent", 404, "no name server knows topic absent"),
        (f"topic={TOPIC}&from=soon", 422, "'soon' is no time"),
        (f"topic={TOPIC}&sql=a+%3E", 422, "is no expression"),
        (f"topic={TOPIC}&queue=0", 422, "no broker is named"),
        ("id=absent", 200, "No topic has a message with this id or key"),
    ],
)
def test_what_cannot_be_found_is_said_with_a_remedy(
    browser: Browser, receipts: list[Receipt], query: str, status: int, said: str
) -> None:
    answer = browser.get(f"/messages?{query}")
    assert (answer.status, said in answer.text) == (status, True)
    assert "<form" in answer.html


def test_the_life_of_a_message_is_shown(browser: Browser, receipts: list[Receipt]) -> None:
    answer = browser.get(f"/messages/{receipts[0].offset_message_id}")
    assert answer.status == 200
    for word in ("born", "stored", "dispatched", '"n": 1', "Others with one of its keys"):
        assert word in answer.text
    assert '<svg class="life"' in answer.html
    by_producer = browser.get(f"/messages/{receipts[0].message_id}?topic={TOPIC}")
    assert by_producer.status == 200
    assert browser.get(f"/messages/absent?topic={TOPIC}").status == 404


@pytest.mark.parametrize("tab", ["", "text", "json", "hex", "stored"])
def test_a_hostile_message_is_text_in_every_form(
    browser: Browser, receipts: list[Receipt], tab: str
) -> None:
    answer = browser.get(f"/messages/{receipts[1].offset_message_id}?body={tab}")
    assert answer.status == 200
    assert SCRIPT not in answer.html and "<b>" not in answer.html
    assert "\x1b" not in answer.html and "\u202e" not in answer.html
    assert SCRIPT in answer.text or "&lt;script&gt;" in answer.html


def test_a_body_is_a_file_to_keep(browser: Browser, receipts: list[Receipt]) -> None:
    connection = http.client.HTTPConnection(browser.address, timeout=30)
    connection.request("GET", f"/messages/{receipts[1].offset_message_id}/body")
    response = connection.getresponse()
    assert response.read() == HOSTILE
    assert response.getheader("content-disposition", "").startswith("attachment")
    assert response.getheader("content-type") == "application/octet-stream"
    connection.close()


def test_an_export_has_one_message_a_line(browser: Browser, receipts: list[Receipt]) -> None:
    answer = browser.get(f"/topics/{TOPIC}/messages/export?order=oldest")
    assert answer.headers["content-disposition"].startswith("attachment")
    ids = {json.loads(line)["offsetMessageId"] for line in answer.html.splitlines()}
    assert ids == {each.offset_message_id for each in receipts}
    assert browser.get("/topics/absent/messages/export").status == 404


def test_a_tail_sends_new_rows_as_text(console: Serving, console_broker: EmbeddedBroker) -> None:
    connection = http.client.HTTPConnection(Browser(console.url).address, timeout=30)
    stopped = threading.Event()
    with Producer(console_broker.name_server, group="writers") as producer:
        producer.send("tailed", b"old")

        def send() -> None:
            while not stopped.wait(0.1):
                for word in ("stale", "fresh"):
                    producer.send("tailed", f"{word} {SCRIPT}".encode())

        thread = threading.Thread(target=send)
        thread.start()
        try:
            connection.request("GET", "/topics/tailed/tail?text=FRESH")
            response = connection.getresponse()
            assert response.getheader("content-type", "").startswith("text/event-stream")
            lines = iter(response.readline, b"")
            with_rows = (x for x in lines if x.startswith(b"data:") and b"<tr" in x)
            for data in islice(with_rows, 3):
                rows = json.loads(data.removeprefix(b"data:"))
                assert "fresh" in rows
                assert not [x for x in (SCRIPT, "stale", "old") if x in rows]
        finally:
            stopped.set()
            thread.join()
            connection.close()


def test_a_tail_that_cannot_be_is_refused(browser: Browser) -> None:
    assert browser.get("/topics/tailed/tail?sql=a+%3E").status == 422


def test_following_works_without_script(browser: Browser, receipts: list[Receipt]) -> None:
    answer = browser.get(f"/topics/{TOPIC}/messages?live=1&tag=paid")
    assert f"wakelog tail {TOPIC} --follow" in answer.text
    assert f'data-url="/topics/{TOPIC}/tail?tag=paid"' in answer.html
