"""Pages of groups: the list, and one group with its queues, members and subscriptions."""

import shlex
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.console.actions.group_settings import values_of
from wakelog.console.pages.site import Console, Page, PageRoute, tabs_of
from wakelog.console.rules import OK
from wakelog.console.views import groups as views
from wakelog.console.views import verdict

TABS: Final = (
    ("queues", "Queues"),
    ("members", "Members"),
    ("subscriptions", "Subscriptions"),
    ("why", "Why it lags"),
    ("configuration", "Configuration"),
)


async def group_list(console: Console, request: Request) -> Page:
    """Show the groups, sorted and filtered by the URL."""
    reader = console.reader
    found = views.rows(reader.history, reader.shown)
    listed = views.GROUPS.page(found, dict(request.query_params))
    return Page("groups.html", "Groups", {"groups": listed}, here="groups")


async def group(console: Console, request: Request) -> Page:
    """Show one group; `tab` in the URL says what of it."""
    name, reader = request.path_params["group"], console.reader
    found = reader.shown.groups.get(name)
    if found is None:
        raise HTTPException(404, f"No broker knows the group {name}")
    answer = views.answer(name, found, reader.findings, reader.shown.taken_ms)
    configs = views.config_rows(name, reader.shown)
    homes = [each for each in reader.shown.brokers if name in each.groups]
    forms = {
        each.name: {"group": name, "cluster": each.cluster, **values_of(each.groups[name])}
        for each in homes
    }
    values = {
        "name": name,
        "group": views.group_row(name, found, reader.history, reader.shown),
        "wrong": verdict.lines(views.findings_about(name, reader.findings)),
        "answer": verdict.lines(answer),
        "is_held_up": any(each.verdict != OK for each in answer),
        "doctor": shlex.join(["wakelog", "doctor", "--group", name]),
        "places": views.place_rows(found),
        "members": views.member_rows(found),
        "subscriptions": views.subscriptions(found),
        "topics": views.topics_of(found),
        "configs": configs,
        "differences": views.differences(configs),
        "forms": forms,
        "is_paused": any(not each.consume_enable for each in found.configs),
        "cluster_name": homes[0].cluster if homes else "",
        **tabs_of(request, TABS, "groups", name),
    }
    return Page("group.html", name, values, here="groups")


PAGES: Final = (PageRoute("/groups", group_list), PageRoute("/groups/{group:name}", group))
