"""Logging in, and what each role may do: every page and every action is gone through."""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.routing import Route

from tests.console.site import Browser, Serving, console_of
from wakelog.console.accounts import Accounts, ConsoleRole, open_accounts, read_accounts
from wakelog.console.actions.table import ACTIONS
from wakelog.console.defence.attempts import PLACE_FAILURES_MAX
from wakelog.console.defence.passwords import hashed
from wakelog.console.pages.app import PAGES, Site
from wakelog.console.pages.site import LOGINS_MAX, LOGINS_OF_PLACE_MAX, PageRoute
from wakelog.testing.embedded_broker import EmbeddedBroker

TEXT = """
accounts:
- {accessKey: ops, secretKey: secret-of-ops, admin: true}
- {accessKey: guest, secretKey: secret-of-guest}
"""
FOREIGN = {"origin": "https://" + "evil.example"}


def paths_of(row: PageRoute) -> list[str]:
    """Return paths of a page: of each action, and of something that need not be there."""
    if row.path == "/do/{name}":
        return [f"/do/{name}" for name in ACTIONS]
    return [re.sub(r"\{[^}]+\}", "x", row.path)]


EVERY = [(row, each) for row in PAGES for each in paths_of(row)]


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


def test_the_matrix_has_every_route(guarded: Serving) -> None:
    routes = {each.path for each in Site(guarded.console).routes() if isinstance(each, Route)}
    assert routes - {"/live"} == {row.path for row in PAGES} == {row.path for row, _ in EVERY}
    assert any("{" in path for path in routes)
    assert not any("{" in path for _, path in EVERY)


def test_every_page_and_action_asks_for_its_role(guarded: Serving) -> None:
    reader, operator, stranger = (
        logged_in(guarded, "guest"), logged_in(guarded, "ops"), guarded.browser,
    )  # fmt: skip
    for row, path in EVERY:
        if row.role is ConsoleRole.NONE:
            continue
        answer = stranger.get(path)
        assert (answer.status, answer.headers["location"][:6]) == (303, "/login"), path
        live = stranger.get(f"/live?of={path}")
        assert live.status == 401, path
        for browser, role in ((reader, ConsoleRole.READER), (operator, ConsoleRole.OPERATOR)):
            status = browser.status(path)
            assert (status == 403) == (role < row.role), path
            assert status < 500 and status not in (401, 303), path
    assert reader.get("/live?of=/do/create-topic").status == 404


def test_every_form_asks_for_role_token_and_origin(guarded: Serving) -> None:
    reader, operator, stranger = (
        logged_in(guarded, "guest"), logged_in(guarded, "ops"), guarded.browser,
    )  # fmt: skip
    stranger.get("/login")
    posted = [(row, path) for row, path in EVERY if row.posts]
    assert {row.role for row, _ in posted} == {ConsoleRole.NONE, ConsoleRole.OPERATOR}
    for row, path in posted:
        logging = row.role is ConsoleRole.NONE
        asked = stranger if logging else operator
        token = asked.token("/login" if logging else "/topics")
        for given in ({}, {"token": ""}, {"token": "0" * 64}):
            assert asked.post(path, given).status == 403, path
        assert asked.post(path, {"token": token}, FOREIGN).status == 403, path
        assert asked.post(path, {"token": token}, {"origin": "null"}).status == 403, path
        if not logging:
            own_token = reader.token("/topics")
            assert reader.post(path, {"token": own_token}).status == 403, path
            assert reader.post(path, {"token": token}).status == 403, path
            assert stranger.post(path, {"token": token}).status == 303, path
    for row, path in EVERY:
        if not row.posts:
            assert operator.post(path, {"token": operator.token("/topics")}).status == 405, path


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


def test_attempts_are_bounded_and_bar_no_other_account_and_no_known_browser(
    guarded: Serving,
) -> None:
    known = logged_in(guarded, "ops")
    for _ in range(PLACE_FAILURES_MAX):
        assert log_in(guarded.browser, "ops", "wrong")[0] == 403
    assert log_in(guarded.browser, "ops", "secret-of-ops")[0] == 429
    logged_in(guarded, "guest")
    known.post("/logout", {"token": known.token("/topics")})
    assert known.get("/topics").status == 303
    assert log_in(known, "ops", "secret-of-ops")[0] == 303


def test_attempts_beside_each_other_pass_no_bound(console_broker: EmbeddedBroker) -> None:
    kept = TEXT.replace("secret-of-ops", hashed("secret-of-ops"))
    with console_of(console_broker.name_server, read_accounts(kept)) as console:
        browsers = [console.browser for _ in range(3 * PLACE_FAILURES_MAX)]
        tokens = [each.token("/login") for each in browsers]

        def guess(number: int) -> int:
            fields = {"token": tokens[number], "name": "ops", "password": f"wrong-{number}"}
            return browsers[number].post("/login", fields).status

        with ThreadPoolExecutor(len(browsers)) as pool:
            statuses = list(pool.map(guess, range(len(browsers))))
        assert statuses.count(403) <= PLACE_FAILURES_MAX
        assert set(statuses) <= {403, 429, 503}
        assert console.console.logins.count == 0


def test_passwords_that_wait_are_bounded_for_each_address(guarded: Serving) -> None:
    logins = guarded.console.logins
    for _ in range(LOGINS_OF_PLACE_MAX):
        assert logins.take(place="127.0.0.1") == ""
    assert log_in(guarded.browser, "ops", "secret-of-ops")[0] == 503
    logins.free(place="127.0.0.1")
    for _ in range(PLACE_FAILURES_MAX):  # what was not compared is no failure
        assert log_in(guarded.browser, "ops", "secret-of-ops")[0] == 303
    assert logins.count == LOGINS_OF_PLACE_MAX - 1 < LOGINS_MAX


def test_a_password_is_compared_off_the_loop(
    guarded: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    log_in_plainly = Accounts.log_in

    def compare(self: Accounts, name: str, password: str) -> object:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        threads.append(threading.current_thread().name)
        return log_in_plainly(self, name, password)

    monkeypatch.setattr(Accounts, "log_in", compare)
    logged_in(guarded, "ops")
    assert len(threads) == 1


def test_a_file_that_changes_ends_and_changes_sessions(
    console_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    path = tmp_path / "accounts.yml"
    path.write_text(TEXT)
    with console_of(console_broker.name_server, open_accounts(str(path))) as console:
        accounts = console.console.accounts
        reader, operator = logged_in(console, "guest"), logged_in(console, "ops")
        path.write_text(TEXT.replace("secret-of-guest}", "secret-of-guest, admin: true}"))
        accounts.read_again()
        assert reader.get("/do/create-topic").status == 200
        path.write_text("accounts: [{accessKey: guest, secretKey: [1")
        accounts.read_again()
        assert "The accounts of before hold" in reader.get("/topics").text
        assert "accounts of before" not in console.browser.get("/login").text
        path.write_text(TEXT.replace("secret-of-guest", "another"))
        accounts.read_again()
        assert "accounts of before" not in operator.get("/topics").text
        assert (reader.get("/topics").status, operator.get("/topics").status) == (303, 200)
        path.write_text("accounts: [{accessKey: guest, secretKey: another}]")
        accounts.read_again()
        assert operator.get("/topics").status == 303


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
