"""What every page has: the parts of the console, a page, and how it becomes HTML.

A page is a value: a template and what it says. The same page is shown whole, or its live part
alone, which is sent to a browser that watches.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response

from wakelog.client.admin import Admin
from wakelog.console import charts, quantities
from wakelog.console.accounts import Accounts, ConsoleRole
from wakelog.console.actions.action import Action, Commands
from wakelog.console.audit_log import AuditLog
from wakelog.console.defence.attempts import LoginAttempts
from wakelog.console.defence.places import Places
from wakelog.console.oldest import OldestMessages
from wakelog.console.reader import ClusterReader
from wakelog.console.tails import TAILS_MAX, Tails
from wakelog.console.views.messages import visible

LIVE_BEGIN: Final = "<!--live-->"
LIVE_END: Final = "<!--/live-->"
"""What stands around the live part in the template of every page. Values are escaped."""

VIEWERS_MAX: Final = 256
"""Browsers that watch a page at a time."""
FOLLOWERS_MAX: Final = 128
"""Browsers that follow a topic at a time; one host cannot have all tails."""
VIEWERS_OF_HOST_MAX: Final = 64
VIEWERS_OF_SESSION_MAX: Final = 32
LOGINS_MAX: Final = 32
LOGINS_OF_PLACE_MAX: Final = 4
"""Passwords that wait to be compared."""
COMPARED_AT_ONCE_MAX: Final = 1
"""Passwords that are compared beside each other: each takes a core for 0.2 s, and 16 MiB."""
SEARCHES_MAX: Final = 4
"""Searches for messages that go on at once: each may hold 64 MiB of bodies."""


@dataclass
class Console:
    """What pages work with. actions: by their names.

    logins: passwords that wait. viewers: of pages that are kept new. followers: of topics.
    """

    reader: ClusterReader
    admin: Admin
    commands: Commands
    accounts: Accounts
    audit: AuditLog
    actions: Mapping[str, Action]
    name_server: str
    version: str
    templates: Environment = field(default_factory=lambda: make_templates())
    tails: Tails = field(init=False)
    oldest: OldestMessages = field(init=False)
    attempts: LoginAttempts = field(default_factory=LoginAttempts)
    logins: Places = field(default_factory=lambda: Places(LOGINS_MAX, place=LOGINS_OF_PLACE_MAX))
    comparing: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(COMPARED_AT_ONCE_MAX, "password")
    )
    searching: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SEARCHES_MAX))
    viewers: Places = field(
        default_factory=lambda: Places(
            VIEWERS_MAX, host=VIEWERS_OF_HOST_MAX, session=VIEWERS_OF_SESSION_MAX
        )
    )
    followers: Places = field(
        default_factory=lambda: Places(FOLLOWERS_MAX, host=TAILS_MAX // 2, session=TAILS_MAX // 4)
    )

    def __post_init__(self) -> None:
        """Have tails and oldest messages, which ask nothing until there is a viewer."""
        self.tails = Tails(self.admin)
        self.oldest = OldestMessages(self.admin, lambda: self.reader.now_ms)


class Page(NamedTuple):
    """What is shown. here: the part of the console, for the navigation; is_live: it is kept new."""

    template: str
    title: str
    values: Mapping[str, Any]
    here: str = ""
    status: int = 200
    is_live: bool = True


Handler = Callable[[Console, Request], Awaitable["Page | Response"]]


class NameConvertor(StringConvertor):
    """A name in a path, as `{group:name}`: it may have any character, `/` included."""

    regex = "(?s:.+)"


register_url_convertor("name", NameConvertor())


class PageRoute(NamedTuple):
    """A path with its handler, and who may ask for it. posts: a form of it may be sent."""

    path: str
    handler: Handler
    role: ConsoleRole = ConsoleRole.READER
    posts: bool = False


def make_templates() -> Environment:
    """Return the templates: everything that they are given is escaped."""
    templates = Environment(
        loader=PackageLoader("wakelog.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        number=quantities.number_text,
        size=quantities.bytes_text,
        rate=quantities.rate_text,
        percent=quantities.percent_text,
        span=quantities.span_text,
        lasting=quantities.lasting_text,
        exact=exact_text,
        moment=moment_text,
    )
    templates.globals.update(
        path=path,
        line=charts.line,
        bar=charts.bar,
        age=quantities.age_text,
        NOTHING=quantities.NOTHING,
    )
    return templates


def _shown(value: object) -> object:
    """Return what a page shows of a value: what cannot be seen in a text is written out.

    A text that has to come back as it is, as that of a form's field, is escaped first (`| e`).
    """
    return visible(value) if type(value) is str else value


def path(*parts: str, **query: object) -> str:
    """Return a path of this console, whatever characters its parts have."""
    text = "/" + "/".join(quote(each, safe="") for each in parts)
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{text}?{urlencode(given)}" if given else text


def tabs_of(request: Request, tabs: Sequence[tuple[str, str]], *parts: str) -> dict[str, Any]:
    """Return the tab of a page that the URL names, the first by default, and links to all."""
    tab = request.query_params.get("tab", "")
    return {
        "tab": tab if tab in dict(tabs) else tabs[0][0],
        "tabs": [(name, text, path(*parts, tab=name)) for name, text in tabs],
    }


def exact_text(value: float | None) -> str:
    """Return a number with all of its figures."""
    return quantities.NOTHING if value is None else f"{value:,}"


def moment_text(time_ms: int) -> str:
    """Return a time in UTC, as HTML's `time` has it; a browser shows it in the reader's zone.

    Clients give any number as a time: what is no moment stays a number.
    """
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
