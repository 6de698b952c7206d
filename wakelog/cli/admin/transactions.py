"""Commands about half messages. mqadmin has none: its class DefaultMQAdminExt has the call."""

from collections.abc import AsyncIterator
from typing import Final

from wakelog.cli.admin.command import Command, Flags, Output, Text, need
from wakelog.client.admin import Admin
from wakelog.client.waiting import resume_check


async def resume_checks(admin: Admin, flags: Flags) -> AsyncIterator[Output]:
    """Have half messages checked again that were given up."""
    for text in filter(None, map(str.strip, flags["i"].split(","))):
        address = await resume_check(admin, text)
        yield Text(f"{address} checks {text} again", {"msgId": text, "broker": address})


COMMANDS: Final = (
    Command(
        "resumeCheckHalfMessage",
        "Have half messages checked again that a broker has given up.",
        resume_checks,
        (need("i", "msgId", "Ids that a broker gave, `,` between."),),
    ),
)
