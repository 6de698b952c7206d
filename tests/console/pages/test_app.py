"""Every page: who may see it, what guards it, and that its live part is kept new."""

import http.client
import json
from urllib.parse import quote

import pytest

from tests.console.site import Browser, Serving
from wakelog.client.sync import Producer
from wakelog.console.pages.app import PAGES
from wakelog.testing.embedded_broker import EmbeddedBroker

PLAIN_PATHS = sorted(row.path for row in PAGES if "{" not in row.path and row.path != "/logout")


@pytest.mark.parametrize("path", PLAIN_PATHS)
def test_a_page_is_shown_with_the_headers_that_guard_it(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status == 200
    assert "<main" in answer.html
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "style=" not in answer.html and "<script>" not in answer.html
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie


@pytest.mark.parametrize("path", PLAIN_PATHS)
def test_no_page_answers_a_host_of_another_name(browser: Browser, path: str) -> None:
    answer = browser.get(path, {"host": "evil.example"})
    assert answer.status == 421
    assert "--host" in answer.text


def test_a_page_that_is_not_there_says_so(browser: Browser) -> None:
    answer = browser.get("/no/such/page")
    assert answer.status == 404
    assert "search" in answer.text


def test_a_form_without_the_token_of_a_page_changes_nothing(
    browser: Browser, console_broker: EmbeddedBroker, console: Serving
) -> None:
    fields = {"topic": "forged", "cluster": "DefaultCluster", "queues": "4"}
    for token in ("", "0" * 64):
        assert browser.post("/do/create-topic", {**fields, "token": token}).status == 403
        entry = console.console.audit.entries[0]
        assert entry.command == "POST /do/create-topic"
        assert entry.result == "refused: no form of this console, or an old one"
    assert browser.get("/do/create-topic?topic=forged&cluster=DefaultCluster").status == 200
    assert "forged" not in browser.get("/topics").html


def test_a_form_says_what_it_will_do_and_then_does_it(browser: Browser, console: Serving) -> None:
    path = "/do/create-topic?topic=made&cluster=DefaultCluster&queues=4"
    assert "4 queues at each of 1 broker" in browser.get(path).text
    answer = browser.submit("/do/create-topic", topic="made", cluster="DefaultCluster", queues="4")
    assert answer.status == 200
    assert "wakelog admin updateTopic -c DefaultCluster -t made -r 4 -w 4" in answer.text
    console.read()
    assert "made" in browser.get("/topics").text
    [entry] = [x for x in console.console.audit.entries if " made " in x.command]
    assert (entry.result, entry.address) == ("done", "127.0.0.1")


def test_what_destroys_wants_the_name_typed(browser: Browser, console: Serving) -> None:
    fields = {"topic": "doomed", "cluster": "DefaultCluster"}
    browser.submit("/do/create-topic", **fields, queues="1")
    assert browser.submit("/do/delete-topic", **fields).status == 422
    assert console.console.audit.entries[0].result == "refused: not confirmed"
    console.read()
    assert "doomed" in browser.get("/topics").text
    assert browser.submit("/do/delete-topic", **fields, typed="doomed").status == 200
    console.read()
    assert "doomed" not in browser.get("/topics").text


def test_what_a_command_refuses_is_said_with_its_remedy(browser: Browser) -> None:
    answer = browser.get("/do/create-topic?topic=x&cluster=nowhere&queues=4")
    assert "there is no cluster nowhere. The name server knows: DefaultCluster" in answer.text
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=4")
    answer = browser.post(
        "/do/create-topic", {"token": token, "topic": "x", "cluster": "nowhere", "queues": "4"}
    )
    assert answer.status == 409
    assert "nowhere" in answer.text and "Done" not in answer.text


def test_names_are_shown_as_text(browser: Browser) -> None:
    script = "<script>alert(1)</script>"
    answer = browser.get(f"/do/create-topic?topic={quote(script)}&cluster=c&queues=1")
    assert script not in answer.html
    assert "does not fit" in answer.text


def test_the_live_part_follows_each_reading(
    console: Serving, console_broker: EmbeddedBroker
) -> None:
    connection = http.client.HTTPConnection(Browser(console.url).address, timeout=30)
    try:
        connection.request("GET", "/live?of=" + quote("/topics"))
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        with Producer(console_broker.name_server, group="live") as producer:
            producer.send("followed", b"x")
        console.read()
        lines = iter(response.readline, b"")
        data = next(line for line in lines if line.startswith(b"data:") and b"followed" in line)
        assert json.loads(data.removeprefix(b"data:")).count("<table>") == 1
    finally:
        connection.close()
