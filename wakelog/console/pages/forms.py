"""The form of every action: what it would do, and then what it did.

`/do/NAME` with the fields in the URL shows what would be done and changes nothing. The button
below it sends the same fields by POST, with the token of this console's pages. Fields that may
have an account come by POST both times, since a browser keeps URLs.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.client.errors import ClientError
from wakelog.console.accounts import ConsoleRole
from wakelog.console.actions.action import Action, CommandFailed, Said
from wakelog.console.audit_log import Entry
from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views.messages import visible

TYPED_FIELD: Final = "typed"
PREVIEW_FIELD: Final = "preview"
"""In a POST: it asks what would be done, and changes nothing."""
SAID_LINES_MAX: Final = 2_000
"""Lines of what a command put out that are shown."""


async def form(console: Console, request: Request) -> Page:
    """Show the form of an action, or do it."""
    action = console.actions.get(request.path_params["name"])
    if action is None:
        raise HTTPException(404, "There is no such action")
    if request.method == "POST":
        form_items = (await request.form()).multi_items()
        given = _together((x, y) for x, y in form_items if isinstance(y, str))
        if given.pop(PREVIEW_FIELD, ""):
            return await _preview(console, action, given)
        return await _do(console, request, action, given)
    return await _preview(console, action, _together(request.query_params.multi_items()))


def _together(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields by name; what was ticked several times is one text with blanks."""
    found: dict[str, list[str]] = {}
    for name, text in items:
        found.setdefault(name, []).append(text)
    return {name: " ".join(texts) for name, texts in found.items()}


async def _preview(console: Console, action: Action, given: Mapping[str, str]) -> Page:
    """Return the form, and below it what the fields would do once all of them can be."""
    values, wrong = action.checked(given)
    if not given:
        wrong = {}
    if action.posts_fields:  # the others are typed on this page
        wrong = {name: text for name, text in wrong.items() if given.get(name)}
    if wrong or not (given or not action.fields):
        return _page(action, values, wrong)
    try:
        would = await action.preview(console.admin, values) if action.preview else []
        lines: list[str] = []
        if action.shown is not None:
            said = [part async for part in console.commands(action.shown.words(values))]
            would += action.shown.sums([row for part in said for row in part.values()])
            lines = _lines(said[:1])  # the rest says how to do it in a shell
    except (ClientError, CommandFailed) as error:
        return _page(action, values, wrong, failed=error)
    is_whole = not action.posts_fields
    return _page(action, values, wrong, would=would, lines=lines, is_whole=is_whole)


async def _do(console: Console, request: Request, action: Action, given: Mapping[str, str]) -> Page:
    values, wrong = action.checked(given)
    if not wrong and action.typed:
        name = values[action.typed]
        if given.get(TYPED_FIELD, "").strip() not in (name, visible(name)):
            wrong = {TYPED_FIELD: f"Type {name} to confirm"}
    if TYPED_FIELD in wrong:
        _note(console, request, action.command(values), "refused: not confirmed")
    if wrong:
        return _page(action, values, wrong, is_whole=not wrong.keys() - {TYPED_FIELD}, status=422)
    said: list[Said] = []
    failed: CommandFailed | None = None
    try:
        said = [part async for part in console.commands(action.words(values))]
    except CommandFailed as error:
        hidden = partial(action.hidden, values=values)
        said, failed = (
            list(error.said),
            CommandFailed(hidden(error.cause), hidden(error.remedy), error.said),
        )
    result = "done" if failed is None else f"failed: {failed.cause}"
    _note(console, request, action.command(values), result)
    console.reader.read_soon()
    lines = [action.hidden(line, values) for line in _lines(said)]
    status = 200 if failed is None else 409
    links: list[tuple[str, str]] = []
    if failed is None and action.links is not None:
        links = action.links([row for part in said for row in part.values()])
    return _page(
        action, values, {}, lines=lines, failed=failed, is_done=not failed, status=status,
        links=links,
    )  # fmt: skip


def _note(console: Console, request: Request, command: str, result: str) -> None:
    """Write down what was asked for, by which account, and what became of it."""
    host = request.client.host if request.client else ""
    name = request.state.account.name
    console.audit.add(Entry(console.reader.now_ms, name, host, command, result))


def _lines(said: Sequence[Said]) -> list[str]:
    return [line for part in said for line in part.lines()][:SAID_LINES_MAX]


def _page(
    action: Action,
    values: Mapping[str, str],
    wrong: Mapping[str, str],
    *,
    would: Sequence[str] = (),
    is_whole: bool = False,
    lines: Sequence[str] = (),
    failed: ClientError | CommandFailed | None = None,
    is_done: bool = False,
    status: int = 200,
    links: Sequence[tuple[str, str]] = (),
) -> Page:
    can_be_said = not wrong.keys() - {TYPED_FIELD} and (is_whole or is_done or failed is not None)
    shown: dict[str, Any] = {
        "action": action,
        "fields": action.fields,
        "values": values,
        "wrong": wrong,
        "would": would,
        "is_whole": is_whole,
        "lines": lines,
        "failed": failed,
        "is_done": is_done,
        "links": links,
        "command": action.command(values) if can_be_said else "",
        "back": _back(action, values),
    }
    return Page("form.html", action.title, shown, status=status, is_live=False)


def _back(action: Action, values: Mapping[str, str]) -> str:
    """Return where an action leads back to; without the name of its thing, to the list of them."""
    found = action.page.format_map({x: quote(y, safe="") for x, y in values.items()})
    return found.replace("/?", "?").rstrip("/")


PAGES: Final = (PageRoute("/do/{name}", form, ConsoleRole.OPERATOR, posts=True),)
