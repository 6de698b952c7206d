"""Pages of topics: the list, and one topic with its queues, groups and configuration."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute, path, tabs_of
from wakelog.console.views import clients
from wakelog.console.views import topics as views

TABS: Final = (
    ("queues", "Queues"),
    ("groups", "Groups"),
    ("producers", "Producers"),
    ("configuration", "Configuration"),
)
PRODUCERS_MAX: Final = 100
"""Producers that a topic's page shows; the page of producers has all."""


async def topic_list(console: Console, request: Request) -> Page:
    """Show the topics, sorted and filtered by the URL."""
    reader, query = console.reader, dict(request.query_params)
    found = views.rows(reader.shown, reader.known_ends, shows_all=query.get("all") == "1")
    listed = views.TOPICS.page(found, query)
    ends = await reader.topic_ends(row.name for row in listed.rows)
    listed = listed._replace(rows=[row._replace(ends=ends.get(row.name)) for row in listed.rows])
    return Page("topics.html", "Topics", {"topics": listed, "all": query.get("all")}, here="topics")


async def topic(console: Console, request: Request) -> Page:
    """Show one topic; `tab` in the URL says what of it."""
    name, reader = request.path_params["topic"], console.reader
    configs = views.config_rows(name, reader.shown)
    if not configs:
        raise HTTPException(404, f"No broker knows the topic {name}")
    ends = (await reader.topic_ends([name])).get(name)
    addresses = {row.broker: row.address for row in configs}
    oldest = await console.oldest.of(name, ends.table, addresses) if ends else None
    producers = clients.producer_rows(reader.shown, addresses)
    tabs = tabs_of(request, TABS, "topics", name)
    values = {
        "name": name,
        "kind": views.kind_of(name, reader.shown),
        "ends": ends,
        "queues": views.queue_rows(ends),
        "consumers": views.consumer_rows(name, reader.history, reader.shown),
        "configs": configs,
        "differences": views.differences(configs),
        "oldest": oldest,
        "producers": producers[:PRODUCERS_MAX],
        "producers_count": len(producers),
        "without": [x for x in clients.without_producers(reader.shown) if x in addresses],
        "may": views.may_text,
        "cluster_name": next(x.cluster for x in reader.shown.brokers if name in x.topics),
        "tab": tabs["tab"],
        "tabs": [*tabs["tabs"], ("messages", "Messages", path("topics", name, "messages"))],
    }
    return Page("topic.html", name, values, here="topics")


PAGES: Final = (PageRoute("/topics", topic_list), PageRoute("/topics/{topic:name}", topic))
