"""Pages of what groups gave up: how many each has, and the letters of one, to be sent again."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.console.actions.action import CommandFailed
from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.protocol.names import DLQ_PREFIX

LETTERS_MAX: Final = 100
"""The newest letters of a group that a page shows."""


async def group_list(console: Console, request: Request) -> Page:
    """Show the groups that have dead letters, the most first."""
    reader = console.reader
    counts = {name: count for name, count in reader.shown.dead_letters.items() if count}
    names = sorted(counts, key=lambda name: (-counts[name], name))
    ends = await reader.topic_ends(DLQ_PREFIX + name for name in names[:LETTERS_MAX])
    rows = [(name, counts[name], ends.get(DLQ_PREFIX + name)) for name in names[:LETTERS_MAX]]
    values = {"rows": rows, "total": len(names)}
    return Page("dead_letters.html", "Dead letters", values, here="dead_letters")


async def letters(console: Console, request: Request) -> Page:
    """Show the newest dead letters of a group, by the command that does."""
    name = request.path_params["group"]
    words = ["dlq", "show", name, "--lines", str(LETTERS_MAX)]
    try:
        said = [part async for part in console.commands(words)]
    except CommandFailed as error:
        raise HTTPException(404, f"{error.cause}. {error.remedy}") from error
    rows = [row for part in said for row in part.values()]
    values = {"name": name, "letters": rows[::-1], "letters_max": LETTERS_MAX}
    return Page("letters.html", f"Dead letters of {name}", values, "dead_letters", is_live=False)


PAGES: Final = (
    PageRoute("/dead-letters", group_list),
    PageRoute("/dead-letters/{group}", letters),
)
