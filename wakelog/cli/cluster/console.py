"""`wakelog console`: the pages, and the commands that they run."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from wakelog.actors.errors import PlanRefused
from wakelog.cli.admin.command import Output, Text, parse
from wakelog.cli.admin.table import command_of
from wakelog.cli.failures import explain
from wakelog.client.admin import Admin
from wakelog.console.accounts import Accounts
from wakelog.console.actions.action import CommandFailed, Commands, Words
from wakelog.console.serve import Listen, make_console, serving
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.build import version

AskOf = Callable[[Words], Callable[[Admin], AsyncIterator[Output]]]


def commands_at(admin: Admin, ask_of: AskOf) -> Commands:
    """Return what runs command lines at a cluster, as the console's account.

    ask_of: makes of words what they ask a cluster.
    """

    async def run(words: Words) -> AsyncIterator[Output]:
        said: list[Output] = []
        try:
            async for output in _outputs(admin, ask_of, words):
                said.append(output)
                yield output
        except Exception as error:
            failure = explain(error)
            raise CommandFailed(failure.cause, failure.remedy, said) from error

    return run


async def _outputs(admin: Admin, ask_of: AskOf, words: Words) -> AsyncIterator[Output]:
    """Run one command line. Raises: what the command raises."""
    if words[0] != "admin":
        outputs = ask_of(words)(admin)
    elif (command := command_of(words[1])) is None:
        raise PlanRefused(f"there is no command {words[1]}", "See wakelog admin.")
    else:
        flags = parse(command, words[2:])
        assert flags is not None, words
        outputs = command.run(admin, flags)
    async for output in outputs:
        yield output


async def console(
    admin: Admin, listen: Listen, accounts: Accounts, ask_of: AskOf
) -> AsyncIterator[Output]:
    """Serve until interrupted; yield where."""
    parts = make_console(admin, commands_at(admin, ask_of), accounts, version())
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serving(parts, listen))
        except OSError as error:
            raise PortUnavailable(listen.bind, listen.port, error) from error
        yield Text(f"console  {url}\nCtrl-C stops it", {"console": url})
        await asyncio.Event().wait()
