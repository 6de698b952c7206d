"""Sessions, cookies and the token of forms."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.console.site import Browser, Serving, console_of
from wakelog.console.accounts import Accounts, ConsoleRole, Login
from wakelog.console.pages.sessions import (
    BROWSER_COOKIE,
    COOKIE,
    IDLE_MS_MAX,
    SESSION_MS_MAX,
    SESSIONS_MAX,
    Sessions,
)
from wakelog.testing.embedded_broker import EmbeddedBroker

OPS = Login("ops", "secret", ConsoleRole.OPERATOR)


def request(cookie: str, name: str = COOKIE, port: int | None = None) -> Request:
    headers = [(b"cookie", f"{name}={cookie}".encode())]
    scope = {"type": "http", "headers": headers, "scheme": "https", "path": "/"}
    return Request(scope | {"server": ("127.0.0.1", port)})


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
    for _ in range(SESSION_MS_MAX // IDLE_MS_MAX * 2 - 1):
        now[0] += IDLE_MS_MAX // 2
        assert sessions.account_of(request(last)) == OPS
    now[0] += IDLE_MS_MAX // 2
    assert sessions.account_of(request(last)) is None


def test_a_session_without_use_ends_and_a_page_that_is_kept_new_is_no_use() -> None:
    now = [1_000]
    sessions = Sessions(Accounts({"ops": OPS}), lambda: now[0])
    cookie = request(sessions.begin(OPS))
    now[0] += IDLE_MS_MAX - 1
    assert sessions.account_of(cookie, is_use=False) == OPS
    assert sessions.account_of(cookie) == OPS
    now[0] += IDLE_MS_MAX - 1
    assert sessions.account_of(cookie, is_use=False) == OPS
    now[0] += 1
    assert sessions.account_of(cookie, is_use=False) is None
    now[0] -= IDLE_MS_MAX
    assert sessions.account_of(cookie) is None


def test_a_session_goes_by_its_account_as_it_is_now() -> None:
    accounts = Accounts({"ops": OPS})
    sessions = Sessions(accounts, lambda: 0)
    cookie = request(sessions.begin(OPS))
    for role in (ConsoleRole.READER, ConsoleRole.OPERATOR):
        now = OPS._replace(role=role)
        accounts._accounts = {"ops": now}
        assert sessions.account_of(cookie) == now
    accounts._accounts = {"ops": OPS._replace(password="another")}
    assert sessions.account_of(cookie) is None
    accounts._accounts = {"ops": OPS}
    assert sessions.account_of(cookie) is None
    cookie = request(sessions.begin(OPS))
    accounts._accounts = {"guest": OPS._replace(name="guest")}
    assert sessions.account_of(cookie) is None


def test_the_sessions_of_one_account_end_no_other_s() -> None:
    guest = Login("guest", "secret", ConsoleRole.READER)
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


def browser_cookie(sessions: Sessions, name: str) -> str:
    response = Response()
    sessions.remember_browser(request(""), response, name)
    text = response.headers["set-cookie"]
    assert "HttpOnly" in text and "SameSite=strict" in text and "Secure" in text
    return text.partition(";")[0].partition("=")[2]


def test_a_browser_is_known_to_its_account_alone() -> None:
    sessions = Sessions(Accounts(), lambda: 0)
    cookie = browser_cookie(sessions, "ops")
    assert sessions.known_browser(request(cookie, BROWSER_COOKIE), "ops")
    assert not sessions.known_browser(request(cookie, BROWSER_COOKIE), "guest")
    assert not sessions.known_browser(request(f"x{cookie}", BROWSER_COOKIE), "ops")
    assert not sessions.known_browser(request("", BROWSER_COOKIE), "ops")
    assert not sessions.known_browser(request(".", BROWSER_COOKIE), "ops")
    assert not Sessions(Accounts(), lambda: 0).known_browser(request(cookie, BROWSER_COOKIE), "ops")


def test_a_token_of_a_form_makes_no_browser_known() -> None:
    sessions = Sessions(Accounts(), lambda: 0)
    made = f"b.{sessions.token(chr(0).join(('b', 'ops')))}"
    assert not sessions.known_browser(request(made, BROWSER_COOKIE), "ops")


def test_consoles_of_one_host_have_cookies_of_their_own(
    console: Serving, console_broker: EmbeddedBroker
) -> None:
    with console_of(console_broker.name_server) as other:
        one, two = console.browser, other.browser
        one.get("/")
        two.get("/")
        assert len({*one._cookies, *two._cookies}) == 2
        together = {**one._cookies, **two._cookies}
        one._cookies = dict(together)
        fields = {"topic": "x", "cluster": "DefaultCluster", "queues": "1"}
        assert one.submit("/do/create-topic", **fields).status == 200
        assert one._cookies == together


@pytest.mark.parametrize("cookie", ["", "a", "=", "\u00fc"])
def test_a_cookie_of_any_form_is_no_error(browser: Browser, cookie: str) -> None:
    port = browser.address.rpartition(":")[2]
    text = f"{COOKIE}_{port}={cookie}; {BROWSER_COOKIE}_{port}={cookie}"
    assert browser.get("/", {"cookie": text}).status == 200
