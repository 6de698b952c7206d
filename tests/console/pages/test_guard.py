"""Hosts, proxies, forms: what guards the pages."""

import asyncio
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.console.site import Browser, Serving, console_of
from wakelog.console.accounts import read_accounts
from wakelog.console.defence.proxies import Proxies
from wakelog.console.pages.guard import (
    FORM_BYTES_MAX,
    STRANGERS_FORM_BYTES_MAX,
    Guard,
    is_foreign,
)
from wakelog.console.serve import Listen
from wakelog.testing.embedded_broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[3]
ACCOUNTS = "accounts: [{accessKey: ops, secretKey: secret-of-ops, admin: true}]"
FORWARDED = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}


TLS = "https://"


def asked(headers: Mapping[str, str]) -> Request:
    pairs = [(x.encode(), y.encode()) for x, y in headers.items()]
    return Request({"type": "http", "headers": pairs})


@pytest.mark.parametrize(
    ("headers", "is_from_elsewhere"),
    [
        ({}, False),
        ({"origin": "http://127.0.0.1:8080"}, False),
        ({"origin": "http://127.0.0.1:8081"}, True),
        ({"origin": TLS + "evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://[::1"}, True),
        ({"origin": ""}, True),
        ({"origin": TLS + "console.example:8443", "host": "console.example"}, False),
        ({"origin": TLS + "evil.example:8443", "host": "console.example"}, True),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8080"}, True),
    ],
)
def test_a_form_of_another_site_is_seen(headers: dict[str, str], is_from_elsewhere: bool) -> None:
    assert is_foreign(asked({"host": "127.0.0.1:8080", **headers})) == is_from_elsewhere


def guarded(guard_options: dict[str, Any], address: str, headers: Mapping[str, str]) -> list[Any]:
    """Return status, client and scheme of a request through a guard; status alone if refused."""
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope["client"][0], scope["scheme"]))
        await PlainTextResponse("")(scope, receive, send)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            seen.insert(0, message["status"])

    async def receive() -> Any:
        return {"type": "http.request"}

    pairs = [(x.encode(), y.encode()) for x, y in {"host": "console.example", **headers}.items()]
    scope = {"type": "http", "client": (address, 9), "scheme": "http", "headers": pairs}
    asyncio.run(Guard(app, ["console.example"], **guard_options)(scope, receive, send))
    return seen


def test_headers_of_a_proxy_count_from_a_trusted_one_alone() -> None:
    trusted = {"proxies": Proxies(["10.0.0.2"])}
    assert guarded(trusted, "10.0.0.2", FORWARDED) == [200, "203.0.113.9", "https"]
    assert guarded(trusted, "10.0.0.3", FORWARDED) == [200, "10.0.0.3", "http"]
    assert guarded({}, "10.0.0.2", FORWARDED) == [200, "10.0.0.2", "http"]
    assert guarded({}, "127.0.0.1", FORWARDED) == [200, "127.0.0.1", "http"]


def test_a_port_without_tls_answers_its_proxy_and_this_host_alone() -> None:
    alone = {"proxies": Proxies(["10.0.0.2"]), "answers_proxies_alone": True}
    assert guarded(alone, "10.0.0.2", FORWARDED)[0] == 200
    assert guarded(alone, "127.0.0.1", {}) == [200, "127.0.0.1", "http"]
    assert guarded(alone, "10.0.0.3", FORWARDED) == [403]


@pytest.fixture(scope="module")
def behind_proxy(console_broker: EmbeddedBroker) -> Iterator[Serving]:
    listen = Listen(proxies=("127.0.0.1",))
    with console_of(console_broker.name_server, read_accounts(ACCOUNTS), listen) as serving:
        yield serving


def test_cookies_and_entries_follow_what_a_trusted_proxy_says(
    behind_proxy: Serving, console: Serving
) -> None:
    answer = behind_proxy.browser.get("/login", FORWARDED)
    assert "secure" in answer.headers["set-cookie"].lower()
    assert "secure" not in behind_proxy.browser.get("/login").headers["set-cookie"].lower()
    assert "secure" not in console.browser.get("/", FORWARDED).headers["set-cookie"].lower()
    browser = behind_proxy.browser
    fields = {"token": browser.token("/login"), "name": "ops", "password": "wrong"}
    browser.post("/login", fields, FORWARDED)
    assert behind_proxy.console.audit.entries[0].address == "203.0.113.9"


def test_the_documented_proxy_works(console_broker: EmbeddedBroker) -> None:
    """Send what nginx sends by the example, to a console with the options beside it."""
    text = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
    [options] = re.findall(r"wakelog console (.*--behind-proxy.*)", text)
    words = shlex.split(options)
    given = dict(zip(words[::2], words[1::2], strict=True))
    [server_name] = re.findall(r"server_name (\S+);", example)
    assert server_name == given["--host"]
    variables = {
        "$host": server_name,
        "$proxy_add_x_forwarded_for": "6.6.6.6, 203.0.113.9",  # a client forges one more
        "$scheme": "https",
    }
    sent = {
        name.lower(): variables[value]
        for name, value in re.findall(r"proxy_set_header (\S+) (\S+);", example)
    }
    listen = Listen(hosts=(given["--host"],), proxies=(given["--behind-proxy"],))
    with console_of(console_broker.name_server, read_accounts(ACCOUNTS), listen) as console:
        browser = console.browser
        page = browser.get("/login?to=/topics", sent)
        [token] = re.findall(r'name="token" value="([^"]+)"', page.html)
        fields = {"token": token, "name": "ops", "password": "secret-of-ops"}
        from_page = {**sent, "origin": TLS + server_name, "sec-fetch-site": "same-origin"}
        answer = browser.post("/login?to=/topics", fields, from_page)
        assert (answer.status, answer.headers["location"]) == (303, "/topics")
        assert all("secure" in x.lower() for x in answer.headers.get_all("set-cookie", ()))
        assert browser.get("/topics", sent).status == 200
        assert console.console.audit.entries[0].address == "203.0.113.9"


def test_the_form_of_a_stranger_is_small(behind_proxy: Serving) -> None:
    browser = behind_proxy.browser
    token = browser.token("/login")
    fields = {"token": token, "name": "ops", "password": "x" * STRANGERS_FORM_BYTES_MAX}
    assert browser.post("/login", fields).status == 413


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_of_very_many_fields_is_refused_soon(browser: Browser, kind: str) -> None:
    browser.get("/")
    boundary = "; boundary=b" if "multipart" in kind else ""
    one = '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n\r\n' if boundary else "a&"
    answer = browser.send("/do/create-topic", one * 5_000, kind + boundary)
    assert answer.status in (400, 413)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8080", "127.0.0.1:1"]
)
def test_loopback_has_its_names(browser: Browser, host: str) -> None:
    assert browser.get("/", {"host": host}).status == 200


@pytest.mark.parametrize("host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_other_names_are_refused(browser: Browser, host: str) -> None:
    assert browser.get("/", {"host": host}).status == 421


def test_a_form_that_is_too_large_is_refused(browser: Browser, console: Serving) -> None:
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=1")
    fields = {"token": token, "topic": "x", "cluster": "c" * FORM_BYTES_MAX, "queues": "1"}
    assert browser.post("/do/create-topic", fields).status == 413


def test_a_token_of_any_characters_is_no_error(browser: Browser) -> None:
    browser.get("/")
    assert browser.post("/do/create-topic", {"token": "\u00e9"}).status == 403


@pytest.mark.parametrize("path", ["/live?of=//[", "/login?to=//["])
def test_an_address_that_is_none_is_no_error(browser: Browser, path: str) -> None:
    assert browser.get(path).status in (200, 404)


def test_an_unexpected_error_has_the_headers_that_guard(
    console: Serving, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakelog.console.views.verdict.summary", lambda _: 1 // 0)
    answer = browser.get("/")
    assert answer.status == 500
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
