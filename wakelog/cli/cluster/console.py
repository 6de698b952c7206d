"""`wakelog console`: the pages, and the commands that they run."""

import asyncio
import contextlib
import getpass
import json
import sys
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.broker.replication.known_group import known_group, without_account
from wakelog.cli.output import Output, Text
from wakelog.cli.root import ask_of
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.console.accounts import Accounts, AccountsRefused, open_accounts
from wakelog.console.actions.action import CommandFailed, Commands, Words
from wakelog.console.defence.known_hosts import limited
from wakelog.console.defence.passwords import hashed
from wakelog.console.defence.proxies import Proxies
from wakelog.console.serve import Listen, make_console, serving
from wakelog.network.errors import PortUnavailable
from wakelog.telemetry.build import version

PASSWORD_LENGTH_MIN: Final = 8
REGISTER: Final = "--register"
REPLICAS_ASKED_MAX: Final = 8
"""Replicas of a broker that are asked for their register."""


def commands_at(admin: Admin) -> Commands:
    """Return what runs command lines at a cluster, as the console's account."""
    admin = limited(admin)

    async def run(words: Words) -> AsyncIterator[Output]:
        said: list[Output] = []
        try:
            async for output in _outputs(admin, words):
                said.append(output)
                yield output
        except Exception as error:
            from wakelog.cli.failures import explain

            failure = explain(error)
            raise CommandFailed(failure.cause, failure.remedy, said) from error

    return run


async def _outputs(admin: Admin, words: Words) -> AsyncIterator[Output]:
    """Run one command line. Raises: what the command raises."""
    await _check_register(admin, words)
    async for output in ask_of(words)(admin):
        yield output


async def _check_register(admin: Admin, words: Words) -> None:
    """Refuse a register that no broker of the cluster names: it may be a file, or any host.

    Brokers do not tell the account in its address; one may be given.

    Raises: NotPossible, ClientError.
    """
    given = [y for x, y in pairwise(words) if x == REGISTER]
    given += [x.partition("=")[2] for x in words if x.startswith(f"{REGISTER}=")]
    if not given:
        return
    table = (await admin.cluster()).broker_addr_table
    named = [x for name in words if name in table for x in table[name].broker_addrs.values()]
    known = set()
    for address in named[:REPLICAS_ASKED_MAX]:
        try:
            group = known_group(await admin.runtime_info(address))
        except ClientError:  # the others say it, too
            continue
        known.add("" if group is None else group.register)
    for each in given:
        shown = without_account(each)
        if not each or shown not in known:
            cause = f"no replica of this broker says that its register is {shown or 'empty'}"
            remedy = "Give the one that the broker's page shows, or run it in a shell."
            raise NotPossible(cause, remedy)


def checked_accounts(listen: Listen, path: str | None) -> Accounts:
    """Return who may log in, and refuse what would be open to others. Raises: NotPossible.

    path: of the file of accounts; None for none, which is for loopback alone.
    """
    if bool(listen.cert_path) != bool(listen.key_path):
        raise NotPossible("--tls-cert and --tls-key belong together", "Give both, or neither.")
    for each in filter(None, (listen.cert_path, listen.key_path)):
        if not Path(each).is_file():
            raise NotPossible(f"there is no file {each}", "Give the path of a PEM file.")
    _check_proxies(listen)
    accounts = Accounts()
    if path is not None:
        try:
            accounts = open_accounts(path)
        except OSError as error:
            raise NotPossible(f"--accounts {path} cannot be read: {error}", "Check it.") from error
        except AccountsRefused as error:
            remedy = "Give accounts with accessKey and secretKey, as in plain_acl.yml."
            raise NotPossible(f"--accounts {path} is not accepted: {error}", remedy) from error
    ends_tls = listen.cert_path or listen.proxies
    if not _is_loopback(listen) and not (accounts.are_asked_for and ends_tls):
        cause = f"on {listen.bind} other hosts reach the console"
        remedy = "Give --accounts, --tls-cert and --tls-key, or leave --bind out."
        raise NotPossible(cause, remedy)
    if listen.proxies and not accounts.are_asked_for:
        cause = "--behind-proxy lets other hosts reach the console"
        raise NotPossible(cause, "Give --accounts, too.")
    return accounts


def _is_loopback(listen: Listen) -> bool:
    try:
        return listen.is_loopback
    except ValueError:
        raise NotPossible(f"--bind {listen.bind} is no IP address", "Give one.") from None


def _check_proxies(listen: Listen) -> None:
    try:
        Proxies(listen.proxies)
    except ValueError as error:
        cause = f"--behind-proxy is no address and no network: {error}"
        remedy = "Give the address that the proxy asks from, as 127.0.0.1 or 10.0.0.0/24."
        raise NotPossible(cause, remedy) from None


def account_line(name: str, *, is_admin: bool, ask: Callable[[str], str] | None = None) -> str:
    """Return a line for a file of accounts, with a hash of a password that is typed twice.

    ask: returns what a person types at a prompt, unseen; None for a terminal, or else the first
        line of standard input. Raises: NotPossible.
    """
    if ask is None and sys.stdin is not None and sys.stdin.isatty():
        ask = getpass.getpass
    if ask is None:
        password = sys.stdin.readline().rstrip("\r\n") if sys.stdin is not None else ""
    else:
        password = ask(f"Password of {name}: ")
        if ask("The same again: ") != password:
            raise NotPossible("the two passwords differ", "Type the same one twice.")
    if len(password) < PASSWORD_LENGTH_MIN:
        cause = f"the password has {len(password)} characters"
        raise NotPossible(cause, f"Take {PASSWORD_LENGTH_MIN} or more.")
    entry = {"accessKey": name, "secretKey": hashed(password), "admin": is_admin}
    return f"- {json.dumps(entry)}"


async def console(
    admin: Admin, listen: Listen, accounts: Accounts, audit_path: str = ""
) -> AsyncIterator[Output]:
    """Serve until interrupted; yield where. audit_path: "" for no file of what is done."""
    admin = limited(admin)
    parts = make_console(admin, commands_at(admin), accounts, version(), audit_path)
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serving(parts, listen))
        except OSError as error:
            raise PortUnavailable(listen.bind, listen.port, error) from error
        yield Text(f"console  {url}\nCtrl-C stops it", {"console": url})
        await asyncio.Event().wait()
