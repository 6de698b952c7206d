"""The application: the routes of all pages, their live parts, forms, and what is said of errors.

A live part is rendered after every reading, by the same handler as the page, and sent if it
changed. Viewers of one page get what one rendering made.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib import resources
from typing import Final
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, compile_path
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from wakelog.client.errors import ClientError
from wakelog.console.accounts import NO_ONE, ConsoleRole, Login
from wakelog.console.audit_log import Entry
from wakelog.console.cluster_reading import ClusterReading
from wakelog.console.pages import (
    access,
    audit,
    brokers,
    clients,
    cluster_accounts,
    dead_letters,
    delayed,
    forms,
    groups,
    members,
    messages,
    name_servers,
    overview,
    search,
    topics,
    trace,
    transactions,
)
from wakelog.console.pages.guard import (
    FORM_BYTES_MAX,
    STRANGERS_FORM_BYTES_MAX,
    bound_form,
    is_foreign,
    may,
)
from wakelog.console.pages.sessions import Sessions, cookie_of, new_cookie, set_cookie
from wakelog.console.pages.site import LIVE_BEGIN, LIVE_END, Console, Page, PageRoute, path
from wakelog.console.pages.streams import HeldResponse, hold

_FAMILIES: Final = (
    overview, messages, topics, members, groups, dead_letters, delayed, transactions, brokers,
    name_servers, clients, access, cluster_accounts, trace, audit, search, forms,
)  # fmt: skip
PAGES: Final[Sequence[PageRoute]] = tuple(row for family in _FAMILIES for row in family.PAGES)
"""Every page of the console. The first that fits answers: a name may have `/` in it."""

_PATTERNS: Final = [(compile_path(row.path)[0], row) for row in PAGES]

TOKEN_FIELD: Final = "token"
CHECK_SECONDS: Final = 2.0
"""How soon a page that is kept new ends with its session."""
QUIET_CHECKS_MAX: Final = 7
"""After so many without news a viewer gets an empty line, so that a lost one is noticed."""

NAVIGATION: Final = (
    ("overview", "Overview", "/"),
    ("topics", "Topics", "/topics"),
    ("groups", "Groups", "/groups"),
    ("messages", "Messages", "/messages"),
    ("dead_letters", "Dead letters", "/dead-letters"),
    ("delayed", "Delayed", "/delayed"),
    ("transactions", "Transactions", "/transactions"),
    ("brokers", "Brokers", "/brokers"),
    ("clients", "Clients", "/clients"),
    ("access", "Access", "/access"),
    ("trace", "Trace", "/trace"),
    ("audit", "Audit", "/audit"),
)
"""Part, what the link says, and its path."""


logger = logging.getLogger("wakelog.console")


class Site:
    """The endpoints over a console's pages."""

    def __init__(self, console: Console) -> None:
        """Show nothing yet."""
        self._console = console
        self._sessions = Sessions(console.accounts, lambda: console.reader.now_ms)
        self._routes = [
            Route(
                each.path,
                self._endpoint(each),
                methods=["GET", "POST"] if each.posts else ["GET"],
                name=each.path,
            )
            for each in PAGES
        ]

    def routes(self) -> list[Route]:
        """Return the routes of the application."""
        return [Route("/live", self._live), *self._routes]

    def _endpoint(self, row: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            account = self._sessions.account_of(request)
            if account is None and row.role is not ConsoleRole.NONE:
                return RedirectResponse(path("login", to=_address(request)), 303)
            if account is None:
                bound_form(request, STRANGERS_FORM_BYTES_MAX)
            account = account or NO_ONE
            if not may(account, row.role):
                self._log_refused(request, account, "this account may look alone")
                raise HTTPException(403, f"{account.name} may look, and change nothing")
            request.state.account = account
            request.state.sessions = self._sessions
            if request.method == "POST":
                await self._check_form(request, account)
            if account.role > ConsoleRole.NONE:
                await self._console.reader.viewed()
            return self.respond(request, await row.handler(self._console, request))

        return answer

    def _log_refused(self, request: Request, account: Login, why: str) -> None:
        """Write down that somebody asked for what is not done."""
        console, host = self._console, request.client.host if request.client else ""
        asked = f"{request.method} {request.url.path}"
        entry = Entry(console.reader.now_ms, account.name, host, asked, f"refused: {why}")
        console.audit.add_refused(entry)

    async def _check_form(self, request: Request, account: Login) -> None:
        """Raises: HTTPException for a form that no page of this console made."""
        if is_foreign(request):
            raise HTTPException(403, "This form comes from the page of another site")
        try:
            form = await request.form(max_fields=1_000, max_part_size=FORM_BYTES_MAX)
        except ClientDisconnect:
            raise HTTPException(400, "The form did not come whole") from None
        token = form.get(TOKEN_FIELD)
        if not isinstance(token, str) or not self._sessions.is_own_form(request, token):
            self._log_refused(request, account, "no form of this console, or an old one")
            raise HTTPException(403, "This form is too old. Open the page again, and repeat it")

    def respond(self, request: Request, page: Page | Response) -> Response:
        """Return the answer with a page in it."""
        if isinstance(page, Response):
            return page
        cookie = cookie_of(request) or new_cookie()
        text = self._render(request, page, cookie)
        response = Response(text, page.status, media_type="text/html; charset=utf-8")
        if cookie != cookie_of(request):
            set_cookie(request, response, cookie)
        return response

    def _values(self, request: Request, page: Page, cookie: str) -> dict[str, object]:
        console, reader = self._console, self._console.reader
        account: Login = getattr(request.state, "account", NO_ONE)
        is_known = account.role > ConsoleRole.NONE
        return {
            **page.values,
            "page": page,
            "here": page.here,
            "navigation": NAVIGATION if is_known else (),
            "cluster": _cluster_text(reader.shown) if is_known else "wakelog",
            "name_server": console.name_server,
            "version": console.version,
            "now_ms": reader.now_ms,
            "reader": reader,
            "account": account,
            "may_change": account.role >= ConsoleRole.OPERATOR,
            "logs_in": console.accounts.are_asked_for,
            "accounts_failure": console.accounts.failure if is_known else "",
            "token": self._sessions.token(cookie),
            "address": _address(request),
        }

    def _render(self, request: Request, page: Page, cookie: str) -> str:
        template = self._console.templates.get_template(page.template)
        return template.render(self._values(request, page, cookie))

    def _render_live(self, request: Request, page: Page) -> str:
        text = self._render(request, page, cookie_of(request))
        return text.partition(LIVE_BEGIN)[2].partition(LIVE_END)[0]

    async def _live(self, request: Request) -> Response:
        """Send the live part of a page, again after each reading in which it changed."""
        account = self._sessions.account_of(request, is_use=False)
        if account is None:
            raise HTTPException(401, "Log in again")
        try:
            wanted = urlsplit(request.query_params.get("of", "/"))
        except ValueError:
            raise HTTPException(404, "There is no such page") from None
        row, parts = page_at(unquote(wanted.path))
        if row is None or not may(account, row.role):
            raise HTTPException(404, "There is no such page")
        scope = {
            **request.scope,
            "path": unquote(wanted.path),
            "path_params": parts,
            "query_string": wanted.query.encode(),
            "method": "GET",
        }
        watched = Request(scope)
        watched.state.account = account
        watched.state.sessions = self._sessions
        release = hold(self._console.viewers, request)
        try:
            await self._live_page(row, watched)
        except BaseException:
            release()
            raise
        news = self._news(row, watched)
        return HeldResponse(news, release, media_type="text/event-stream")

    async def _live_page(self, row: PageRoute, request: Request) -> Page:
        """Return a page that is kept new. Raises: ClientError, HTTPException for another."""
        page = await row.handler(self._console, request)
        if isinstance(page, HeldResponse):
            page.release()
        if not isinstance(page, Page) or not page.is_live:
            raise HTTPException(404, "This page is not kept new")
        return page

    async def _news(self, row: PageRoute, request: Request) -> AsyncIterator[str]:
        reader, sessions = self._console.reader, self._sessions
        number, shown, quiet = reader.number, "", 0
        while True:
            reader.on_viewer()
            is_quiet = False
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    number = await reader.next(number)
            except TimeoutError:
                is_quiet = True
            account = sessions.account_of(request, is_use=False)
            if reader.has_ended or account is None or not may(account, row.role):
                return
            request.state.account = account
            quiet = quiet + 1 if is_quiet else 0
            if quiet >= QUIET_CHECKS_MAX:
                quiet = 0
                yield ":\n\n"
            if is_quiet:
                continue
            try:
                page = await self._live_page(row, request)
            except (ClientError, HTTPException):
                continue
            text = self._render_live(request, page)
            if text != shown:
                shown = text
                yield f"event: live\ndata: {json.dumps(text)}\n\n"

    async def failed(self, request: Request, error: Exception) -> Response:
        """Return the page of an error: what happened, and what to do."""
        if isinstance(error, HTTPException):
            status, cause = error.status_code, error.detail
            remedy = "Go back, or search for it" if status == 404 else ""
        elif isinstance(error, ClientError):
            status, cause, remedy = 502, error.cause, error.remedy
        else:
            status, cause = 500, "this page failed"
            logger.error("page failed", exc_info=error)
            remedy = "This is an error of wakelog's own: report it, with the log of the console"
        values = {"cause": cause, "remedy": remedy, "status": status}
        page = Page("error.html", "Not shown", values, status=status, is_live=False)
        return self.respond(request, page)


def _cluster_text(cluster: ClusterReading) -> str:
    return ", ".join(sorted(cluster.info.cluster_addr_table)) or "no cluster yet"


def _address(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def page_at(path: str) -> tuple[PageRoute | None, dict[str, str]]:
    """Return the page of a decoded path and the parts of the path that it names; None for none."""
    for pattern, row in _PATTERNS:
        if found := pattern.fullmatch(path):
            return row, found.groupdict()
    return None, {}


def make_app(console: Console) -> ASGIApp:
    """Return the application, which a `Guard` goes around: also unexpected errors have headers."""
    site = Site(console)
    app = Starlette(
        routes=site.routes(),
        exception_handlers={
            HTTPException: site.failed,
            ClientError: site.failed,
            Exception: site.failed,
        },
    )
    folder = resources.files("wakelog.console") / "static"
    app.mount("/static", StaticFiles(directory=str(folder)))
    return app
