"""The page of the name servers: whether they agree, their settings, and the values they keep."""

from typing import Final

from starlette.requests import Request

from wakelog.client.errors import ClientError
from wakelog.console.pages.site import Console, Page, PageRoute, tabs_of
from wakelog.console.views import name_servers as views
from wakelog.protocol.bodies import KVTable
from wakelog.protocol.body_codec import decode_response
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import ORDER_NAMESPACE

TABS: Final = (("routes", "Routes"), ("settings", "Settings"), ("values", "Values"))


async def name_servers(console: Console, request: Request) -> Page:
    """Show the name servers; `tab` in the URL says what of them, `namespace` which values."""
    query, servers = dict(request.query_params), console.reader.name_servers
    tabs = tabs_of(request, TABS, "name-servers")
    is_live = tabs["tab"] != "values"  # each viewer would ask for them after each reading
    namespace = query.get("namespace", "").strip() or ORDER_NAMESPACE
    table: dict[str, str] = {}
    failed: ClientError | None = None
    if not is_live:
        try:
            table = await _values(console, namespace)
        except ClientError as error:
            failed = error
    rows = views.setting_rows(servers)
    wanted = query.get("q", "").strip().lower()
    values = {
        "rows": views.name_server_rows(servers),
        "agreement": views.agreement(servers),
        "differences": views.differences(servers),
        "settings": [row for row in rows if wanted in row.key.lower()],
        "values": views.VALUES.page(sorted(table.items()), query),
        "namespace": namespace,
        "is_order": namespace == ORDER_NAMESPACE,
        "failed": failed,
        "filter": query.get("q", ""),
        **tabs,
    }
    return Page("name_servers.html", "Name servers", values, here="brokers", is_live=is_live)


async def _values(console: Console, namespace: str) -> dict[str, str]:
    """Return the values of a namespace, none for an unknown one. Raises: ClientError."""
    response = await console.admin.ask_name_server(
        Code.GET_KVLIST_BY_NAMESPACE,
        {"namespace": namespace},
        allowed=(ResponseCode.QUERY_NOT_FOUND,),
    )
    if response.code != ResponseCode.SUCCESS or not response.body:
        return {}
    return decode_response(KVTable, response.body).table


PAGES: Final = (PageRoute("/name-servers", name_servers),)
