"""Commands about half messages. mqadmin has none: its class DefaultMQAdminExt has the call."""

from collections.abc import AsyncIterator

from wakelog.cli.admin.command import flag, mqadmin
from wakelog.cli.output import Output, Text
from wakelog.client.admin import Admin
from wakelog.client.waiting import resume_check


@mqadmin.command("resumeCheckHalfMessage")
async def resume_checks(
    admin: Admin, ids: str = flag("i", "msgId", "Ids that a broker gave, `,` between.")
) -> AsyncIterator[Output]:
    """Have half messages checked again that a broker has given up."""
    for text in filter(None, map(str.strip, ids.split(","))):
        address = await resume_check(admin, text)
        yield Text(f"{address} checks {text} again", {"msgId": text, "broker": address})
