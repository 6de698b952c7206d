"""Logging in, and what each role may do: every page and every action is gone through."""

from collections.abc import Iterator

import pytest

from tests.console.site import Browser, Serving, console_of
from wakelog.console.accounts import ATTEMPTS_MAX, Accounts, Role, read_accounts
from wakelog.console.actions.table import ACTIONS
from wakelog.console.pages.app import PAGES
from wakelog.testing.embedded_broker import EmbeddedBroker

TEXT = """
accounts:
- {accessKey: ops, secretKey: secret-of-ops, admin: true}
- {accessKey: guest, secretKey: secret-of-guest}
"""
PLAIN = [row for row in PAGES if "{" not in row.path]


@pytest.fixture
def guarded(console_broker: EmbeddedBroker) -> Iterator[Serving]:
    with console_of(console_broker.name_server, read_accounts(TEXT)) as console:
        yield console


def logged_in(console: Serving, name: str) -> Browser:
    browser = console.browser
    answer = log_in(browser, name, f"secret-of-{name}")
    assert answer == (303, "/topics")
    return browser


def log_in(browser: Browser, name: str, password: str) -> tuple[int, str | None]:
    token = browser.token("/login?to=/topics")
    fields = {"token": token, "name": name, "password": password}
    answer = browser.post("/login?to=/topics", fields)
    return answer.status, answer.headers["location"]


def test_every_page_and_action_asks_for_its_role(guarded: Serving) -> None:
    reader, operator, stranger = (
        logged_in(guarded, "guest"), logged_in(guarded, "ops"), guarded.browser,
    )  # fmt: skip
    for row in PLAIN:
        if row.role is Role.NONE:
            continue
        answer = stranger.get(row.path)
        assert (answer.status, answer.headers["location"][:6]) == (303, "/login"), row.path
        for browser, role in ((reader, Role.READER), (operator, Role.OPERATOR)):
            assert (browser.get(row.path).status == 403) == (role < row.role), row.path
    for name in ACTIONS:
        assert stranger.get(f"/do/{name}").status == 303
        assert reader.get(f"/do/{name}").status == 403
        assert operator.get(f"/do/{name}").status == 200
        assert stranger.post(f"/do/{name}", {}).status == 303
        assert reader.post(f"/do/{name}", {}).status == 403
        assert operator.post(f"/do/{name}", {}).status == 403  # without the token of a form
    assert stranger.get("/live?of=/").status == 401
    assert reader.get("/live?of=/do/create-topic").status == 404


def test_a_reader_sees_no_buttons_that_change_things(guarded: Serving) -> None:
    assert "/do/" not in logged_in(guarded, "guest").get("/topics").html
    assert "/do/" in logged_in(guarded, "ops").get("/topics").html


def test_a_stranger_learns_nothing_of_the_cluster(guarded: Serving) -> None:
    page = guarded.browser.get("/login").html
    assert "DefaultCluster" not in page and guarded.console.name_server not in page
    missing = guarded.browser.get("/no/such/page").html
    assert "DefaultCluster" not in missing


def test_a_wrong_password_is_refused_and_noted(guarded: Serving) -> None:
    for name in ("ops", "nobody"):
        assert log_in(guarded.browser, name, "wrong")[0] == 403
    results = [each.result for each in guarded.console.audit.entries]
    assert results == ["failed: another name or password"] * 2
    assert "wrong" not in repr(guarded.console.audit.entries[0].command)


def test_what_a_role_may_not_do_is_noted(guarded: Serving) -> None:
    logged_in(guarded, "guest").get("/do/delete-topic")
    assert guarded.console.audit.entries[0][1:] == (
        "guest", "127.0.0.1", "GET /do/delete-topic", "refused: this account may look alone",
    )  # fmt: skip


def test_attempts_are_bounded(guarded: Serving) -> None:
    for _ in range(ATTEMPTS_MAX):
        assert log_in(guarded.browser, "ops", "wrong")[0] == 403
    assert log_in(guarded.browser, "ops", "secret-of-ops")[0] == 429


def test_failures_are_forgotten_after_a_minute() -> None:
    accounts = Accounts()
    for _ in range(ATTEMPTS_MAX):
        accounts.note_failure("10.0.0.7", 1_000)
    assert accounts.is_barred("10.0.0.7", 60_999) and not accounts.is_barred("10.0.0.8", 1_000)
    assert not accounts.is_barred("10.0.0.7", 61_000)
    accounts.note_failure("10.0.0.7", 61_000)
    assert not accounts.is_barred("10.0.0.7", 61_000)


def test_logging_out_ends_the_session(guarded: Serving) -> None:
    browser = logged_in(guarded, "ops")
    token = browser.token("/topics")
    assert browser.post("/logout", {"token": token}).status == 303
    assert browser.get("/topics").status == 303


@pytest.mark.parametrize(
    "to", ["//localhost:1", "https://localhost:1/x", "/\\evil.example", "evil"]
)
def test_a_login_leads_to_a_page_of_this_console(guarded: Serving, to: str) -> None:
    browser = guarded.browser
    token = browser.token("/login")
    fields = {"token": token, "name": "ops", "password": "secret-of-ops"}
    answer = browser.post(f"/login?to={to}", fields)
    assert (answer.status, answer.headers["location"]) == (303, "/")
