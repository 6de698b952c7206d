"""Pages of brokers: the list, and one broker with its replicas, its store and what it says."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.console.cluster_reading import BrokerReading
from wakelog.console.pages.site import Console, Page, PageRoute, tabs_of
from wakelog.console.views import brokers as views
from wakelog.console.views import replicas, services, settings, store_health, verdict

TABS: Final = (
    ("state", "State"),
    ("runtime", "Runtime"),
    ("configuration", "Configuration"),
    ("maintenance", "Maintenance"),
)


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
    tabs = tabs_of(request, TABS, "brokers", row.reading.name, str(row.reading.broker_id))
    # each viewer would ask for the configuration after each reading
    is_live = tabs["tab"] != "configuration"
    readings = [each for each in reader.shown.brokers if each.name == name]
    group = replicas.group_of(readings)
    values = {
        "row": row,
        "replicas": replicas.replica_rows(name, reader.shown, reader.history),
        "group": replicas.group_text(readings),
        "register": "" if group is None else group.register,
        "has_register": group is not None,
        "facts": list(store_health.store_facts(row.reading, reader.history, reader.now_ms)),
        "shares": store_health.topic_shares(name, reader.known_ends),
        "services": services.service_rows(row.reading),
        "services_not_reported": services.NOT_REPORTED,
        "wrong": verdict.lines(views.findings_about(row.reading, reader.findings)),
        "settings": await _settings(console, row.reading, query) if not is_live else [],
        "runtime": views.runtime_rows(row.reading, query),
        "filter": query.get("q", ""),
        **tabs,
    }
    return Page("broker.html", name, values, here="brokers", is_live=is_live)


async def _settings(
    console: Console, reading: BrokerReading, query: dict[str, str]
) -> list[tuple[str, str, str, str | None]]:
    """Return key, value, its origin, and the value in use of those that wait for a restart."""
    found = await console.admin.configuration(reading.address)
    wanted = query.get("q", "").strip().lower()
    return [
        (key, value, settings.broker_origin(key, value), found.waiting.get(key))
        for key, value in sorted(found.settings.items())
        if wanted in key.lower() or wanted in value.lower()
    ]


PAGES: Final = (
    PageRoute("/brokers", broker_list),
    PageRoute("/brokers/{name}", broker),
    PageRoute("/brokers/{name}/{id}", broker),
)
