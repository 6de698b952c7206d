"""The page of one member of a group: what it says of itself, and where its threads are."""

import shlex
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.client.errors import ClientError, within
from wakelog.console.cluster_reading import GroupReading
from wakelog.console.pages.site import Console, Page, PageRoute, path
from wakelog.console.views import members as views
from wakelog.console.views import verdict
from wakelog.console.views.clients import version_text
from wakelog.protocol.bodies import ConsumerRunningInfo
from wakelog.protocol.codes import RequestCode as Code

MEMBER_SECONDS_MAX: Final = 3.0
"""How long a member may take to answer."""
BROKER_WAITS_MS: Final = 10_000
"""How long a broker of 4.9.3 waits for a member; its answer may still say why there is none."""
SILENT: Final = "Some clients answer no questions; look at its process and its own log"


async def member(console: Console, request: Request) -> Page:
    """Show one member, and with `stacks` in the URL its threads."""
    name, client_id = request.path_params["group"], request.path_params["client"]
    shown = console.reader.shown
    group = shown.groups.get(name)
    if group is None:
        raise HTTPException(404, f"No broker knows the group {name}")
    connection = views.connection_of(group, client_id)
    if connection is None:
        raise HTTPException(404, f"No client {client_id} of {name} is online")
    with_stacks = request.query_params.get("stacks") == "1"
    info, failed = ConsumerRunningInfo(), None
    try:
        info = await _asked(console, name, client_id, with_stacks=with_stacks)
    except ClientError as error:
        failed = error
    link = path("groups", name, "members", client_id)
    findings = views.findings_of(name, client_id, info, console.reader.now_ms)
    values: dict[str, Any] = {
        "name": name,
        "client": connection,
        "client_version": version_text(connection.version),
        "failed": failed,
        "wrong": verdict.lines(findings),
        **_said(client_id, info, group),
        "with_stacks": with_stacks,
        "stacks": views.stacks_of(info.jstack) if info.jstack else None,
        "link": link,
        "stacks_link": f"{link}?stacks=1#stacks",
        "command": shlex.join(["wakelog", "admin", "consumerStatus", "-g", name, "-i", client_id]),
    }
    return Page("member.html", client_id, values, here="groups", is_live=False)


def _said(client_id: str, info: ConsumerRunningInfo, group: GroupReading) -> dict[str, Any]:
    return {
        "subscriptions": views.subscription_rows(client_id, info, group.members),
        "missing": views.missing_topics(client_id, info, group.members),
        "queues": views.held_queues(info, group),
        "rates": views.rate_rows(info),
        "properties": views.property_rows(info),
    }


async def _asked(
    console: Console, group: str, client_id: str, *, with_stacks: bool
) -> ConsumerRunningInfo:
    """Return what a member says of itself. Raises: ClientError, also for one that is late."""
    homes = [x for x in console.reader.shown.brokers if group in x.groups]
    if not homes:
        raise ClientError(f"no broker of {group} answers now", "See whether they run (Brokers)")
    home = min(homes, key=lambda x: x.failure is not None)
    fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": with_stacks}
    async with within(MEMBER_SECONDS_MAX, f"{client_id} has not answered", SILENT):
        code, wait_ms = Code.GET_CONSUMER_RUNNING_INFO, BROKER_WAITS_MS
        return await console.admin.ask_for(
            ConsumerRunningInfo, home.address, code, fields, timeout_ms=wait_ms
        )


PAGES: Final = (PageRoute("/groups/{group:name}/members/{client:name}", member),)
