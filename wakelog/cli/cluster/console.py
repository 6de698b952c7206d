"""`wakelog console`: the pages, and the commands that they run."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from wakelog.actors.errors import PlanRefused
from wakelog.cli.admin.command import Output, Text, parse
from wakelog.cli.admin.table import command_of
from wakelog.cli.failures import explain
from wakelog.client.admin import Admin
from wakelog.console.accounts import Accounts, AccountsRefused, read_accounts
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


def checked_accounts(listen: Listen, path: str | None) -> Accounts:
    """Return who may log in, and refuse what would be open to others. Raises: PlanRefused.

    path: of the file of accounts; None for none, which is for loopback alone.
    """
    if bool(listen.cert_path) != bool(listen.key_path):
        raise PlanRefused("--tls-cert and --tls-key belong together", "Give both, or neither.")
    for each in filter(None, (listen.cert_path, listen.key_path)):
        if not Path(each).is_file():
            raise PlanRefused(f"there is no file {each}", "Give the path of a PEM file.")
    accounts = Accounts()
    if path is not None:
        try:
            accounts = read_accounts(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise PlanRefused(f"--accounts {path} cannot be read: {error}", "Check it.") from error
        except AccountsRefused as error:
            remedy = "Give accounts with accessKey and secretKey, as in plain_acl.yml."
            raise PlanRefused(f"--accounts {path} is not accepted: {error}", remedy) from error
    if not _is_loopback(listen.bind) and not (accounts.are_asked_for and listen.cert_path):
        cause = f"on {listen.bind} other hosts reach the console"
        raise PlanRefused(cause, "Give --accounts, --tls-cert and --tls-key, or leave --bind out.")
    return accounts


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise PlanRefused(f"--bind {address} is no IP address", "Give one.") from None


async def console(
    admin: Admin, listen: Listen, accounts: Accounts, ask_of: AskOf, audit_path: str = ""
) -> AsyncIterator[Output]:
    """Serve until interrupted; yield where. audit_path: "" for no file of what is done."""
    parts = make_console(admin, commands_at(admin, ask_of), accounts, version(), audit_path)
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serving(parts, listen))
        except OSError as error:
            raise PortUnavailable(listen.bind, listen.port, error) from error
        yield Text(f"console  {url}\nCtrl-C stops it", {"console": url})
        await asyncio.Event().wait()
