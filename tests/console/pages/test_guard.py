"""Hosts, sessions, tokens: what guards the pages."""

import pytest
from starlette.requests import Request

from tests.console.site import Browser, Serving
from wakelog.console.accounts import Account, Accounts, Role
from wakelog.console.pages.guard import (
    COOKIE,
    FORM_BYTES_MAX,
    SESSION_MS_MAX,
    SESSIONS_MAX,
    Sessions,
)

OPS = Account("ops", "secret", Role.OPERATOR)


def request(cookie: str) -> Request:
    return Request({"type": "http", "headers": [(b"cookie", f"{COOKIE}={cookie}".encode())]})


def test_a_session_ends_by_time_by_logout_and_when_there_are_too_many() -> None:
    now = [1_000]
    sessions = Sessions(Accounts({"ops": OPS}), lambda: now[0])
    assert sessions.account_of(request("made-up")) is None
    first, second = sessions.begin(OPS), sessions.begin(OPS)
    assert sessions.account_of(request(first)) == OPS
    sessions.end(request(second))
    assert sessions.account_of(request(second)) is None
    for _ in range(SESSIONS_MAX):
        last = sessions.begin(OPS)
    assert sessions.account_of(request(first)) is None
    now[0] += SESSION_MS_MAX
    assert sessions.account_of(request(last)) is None


def test_the_sessions_of_one_account_end_no_other_s() -> None:
    guest = Account("guest", "secret", Role.READER)
    sessions = Sessions(Accounts({"ops": OPS, "guest": guest}), lambda: 0)
    of_operator, of_guest = sessions.begin(OPS), sessions.begin(guest)
    for _ in range(SESSIONS_MAX):
        sessions.begin(guest)
    assert sessions.account_of(request(of_operator)) == OPS
    assert sessions.account_of(request(of_guest)) is None


def test_a_token_fits_its_own_cookie_alone() -> None:
    sessions = Sessions(Accounts(), lambda: 0)
    others = Sessions(Accounts(), lambda: 0)
    assert sessions.is_own_form(request("one"), sessions.token("one"))
    assert not sessions.is_own_form(request("two"), sessions.token("one"))
    assert not sessions.is_own_form(request(""), sessions.token(""))
    assert not sessions.is_own_form(request("one"), others.token("one"))


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
