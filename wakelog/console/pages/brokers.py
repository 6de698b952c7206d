"""Pages of brokers: the list, and one broker with what it says and its configuration."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute, path
from wakelog.console.snapshot import BrokerReading
from wakelog.console.views import brokers as views
from wakelog.console.views import verdict

TABS: Final = (("runtime", "Runtime"), ("configuration", "Configuration"))


async def broker_list(console: Console, request: Request) -> Page:
    """Show the brokers."""
    found = views.rows(console.reader.history, console.reader.shown)
    return Page("brokers.html", "Brokers", {"brokers": found}, here="brokers")


async def broker(console: Console, request: Request) -> Page:
    """Show a broker by its name, or one replica of it by name and id."""
    name, broker_id = request.path_params["name"], request.path_params.get("id")
    query, reader = dict(request.query_params), console.reader
    found = [
        row
        for row in views.rows(reader.history, reader.shown)
        if row.reading.name == name and broker_id in (None, str(row.reading.broker_id))
    ]
    if not found:
        raise HTTPException(404, f"The name server knows no broker {name}")
    row = found[0]
    tab = query.get("tab", "")
    tab = tab if tab in dict(TABS) else TABS[0][0]
    here = row.reading.name, str(row.reading.broker_id)
    values = {
        "row": row,
        "replicas": found,
        "wrong": verdict.lines(views.findings_about(row.reading, reader.findings)),
        "settings": await _settings(console, row.reading, query) if tab == "configuration" else [],
        "runtime": views.runtime_rows(row.reading, query),
        "filter": query.get("q", ""),
        "tab": tab,
        "tabs": [(x, text, path("brokers", *here, tab=x)) for x, text in TABS],
    }
    return Page("broker.html", name, values, here="brokers")


async def _settings(
    console: Console, reading: BrokerReading, query: dict[str, str]
) -> list[tuple[str, str, str | None]]:
    """Return key, value, and the value in use of those that wait for a restart."""
    found = await console.admin.configuration(reading.address)
    wanted = query.get("q", "").strip().lower()
    return [
        (key, value, found.waiting.get(key))
        for key, value in sorted(found.settings.items())
        if wanted in key.lower() or wanted in value.lower()
    ]


PAGES: Final = (
    PageRoute("/brokers", broker_list),
    PageRoute("/brokers/{name}", broker),
    PageRoute("/brokers/{name}/{id}", broker),
)
