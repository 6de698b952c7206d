"""A console that serves in this process, and a browser without script: what tests of pages need."""

import asyncio
import html
import http.client
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from wakelog.cli.cluster.console import commands_at
from wakelog.client.admin import open_admin
from wakelog.console.accounts import Accounts
from wakelog.console.pages.site import Console
from wakelog.console.reader import Clock, ClusterReader
from wakelog.console.serve import Listen, make_console, serving
from wakelog.network.signing import Credentials

START_SECONDS_MAX = 20.0


class Answer:
    """What a browser got. text: without the tags; html: as it came."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.html = response.read().decode()

    @property
    def text(self) -> str:
        words = html.unescape(re.sub(r"<[^>]*>", " ", self.html))
        return " ".join(words.split())


class NoForm(Exception):
    """A page says why it has no form."""


class Browser:
    """Asks a console for pages and sends its forms, with the cookie that it gave."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc
        self._cookies: dict[str, str] = {}

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self._ask("GET", path, None, headers or {})

    def post(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self._ask("POST", path, urlencode(fields), headers or {})

    def send(self, path: str, body: str, kind: str = "application/x-www-form-urlencoded") -> Answer:
        """Send a form as it is, of a kind."""
        return self._ask("POST", path, body, {"content-type": kind})

    def status(self, path: str) -> int:
        """Return how a page answers, also one that stays open."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        cookies = "; ".join(f"{x}={y}" for x, y in self._cookies.items())
        try:
            connection.request("GET", path, headers={"cookie": cookies})
            response = connection.getresponse()
            response.close()
            return response.status
        finally:
            connection.close()

    def submit(self, path: str, **fields: str) -> Answer:
        """Look at the form of an action with these fields, and confirm it."""
        token = self.token(f"{path}?{urlencode(fields)}")
        return self.post(path, {"token": token, **fields})

    def token(self, path: str) -> str:
        """Return what the forms of a page carry. Raises: NoForm."""
        page = self.get(path)
        found = re.search(r'name="token" value="([^"]+)"', page.html)
        if not found:
            raise NoForm(page.text)
        return found[1]

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            sent = {"cookie": "; ".join(f"{x}={y}" for x, y in self._cookies.items())}
            if body is not None:
                sent["content-type"] = "application/x-www-form-urlencoded"
            sent |= headers
            connection.request(method, path, body, sent)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        for cookie in answer.headers.get_all("set-cookie", ()):
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        return answer


class Serving:
    """A console in a thread. run: does something on its loop."""

    def __init__(self, url: str, console: Console, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.console = console
        self._loop = loop

    def read(self) -> None:
        """Have the cluster read once more, now."""
        asyncio.run_coroutine_threadsafe(self.console.reader.read(), self._loop).result(30)

    @property
    def browser(self) -> Browser:
        return Browser(self.url)


@contextmanager
def console_of(
    name_server: str,
    accounts: Accounts | None = None,
    listen: Listen | None = None,
    *,
    clock: Clock | None = None,
    credentials: Credentials | None = None,
) -> Iterator[Serving]:
    """Yield a console of a cluster, which ends with the block.

    clock: None for the machine's. credentials: that it signs with.
    """
    started = threading.Event()
    found: list[Serving] = []
    ends: list[asyncio.Event] = []

    async def main() -> None:
        access_key, secret_key, _ = credentials or Credentials()
        async with open_admin(name_server, access_key=access_key, secret_key=secret_key) as admin:
            console = make_console(admin, commands_at(admin), accounts or Accounts(), "test")
            if clock is not None:
                console.reader = ClusterReader(admin, clock)
            async with serving(console, listen or Listen()) as url:
                ends.append(asyncio.Event())
                found.append(Serving(url, console, asyncio.get_running_loop()))
                started.set()
                await ends[0].wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert started.wait(START_SECONDS_MAX)
        yield found[0]
    finally:
        if found:
            found[0]._loop.call_soon_threadsafe(ends[0].set)
        thread.join(START_SECONDS_MAX)
        assert not thread.is_alive()
