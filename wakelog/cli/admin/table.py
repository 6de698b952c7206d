"""The table of all commands, and `run_admin`, which runs one command line."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from wakelog.actors.errors import PlanRefused
from wakelog.actors.start_outcome import sentence
from wakelog.cli.admin import (
    accounts,
    brokers,
    clients,
    exports,
    groups,
    messages,
    offsets,
    sends,
    topics,
    traces,
)
from wakelog.cli.admin.account_keys import account_keys
from wakelog.cli.admin.command import Command, Flags, parse, show, usage
from wakelog.cli.stop_signals import run_interruptibly
from wakelog.client.admin import open_admin
from wakelog.client.options import ClientOptions
from wakelog.network.errors import TlsRefused
from wakelog.network.tls import Tls
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.java import parse_boolean

GROUP: Final = "TOOLS_CONSUMER"
TIMEOUT_MS: Final = 5_000
ENVIRONMENT_NAME: Final = "NAMESRV_ADDR"
NEAR_ENOUGH: Final = 0.8
"""How alike two names are that may be meant for each other; 1 is the same."""

_MODULES: Final = (
    topics, groups, clients, offsets, messages, sends, traces, brokers, accounts, exports,
)  # fmt: skip
COMMANDS: Final[Mapping[str, Command]] = {
    command.name: command for module in _MODULES for command in module.COMMANDS
}
"""Every command by its name."""

_BY_LOWER_NAME: Final = {name.lower(): command for name, command in COMMANDS.items()}


def command_of(word: str) -> Command | None:
    """Return the command of a name, whose case does not matter; None if there is none."""
    return _BY_LOWER_NAME.get(word.lower())


def run_admin(words: Sequence[str], say: Callable[[str], None]) -> None:
    """Run a command, or say the help.

    Raises: PlanRefused for a mistake in the command line; ClientError.
    """
    asks_help = bool(words) and words[0] in ("help", "-h", "--help")
    rest = words[1:] if asks_help else words
    if not rest:
        _say_commands(say)
        return
    command = command_of(rest[0])
    if command is None:
        near = get_close_matches(rest[0].lower(), _BY_LOWER_NAME, 1, NEAR_ENOUGH)
        hint = f"Did you mean {_BY_LOWER_NAME[near[0]].name}? " if near else ""
        remedy = f"{hint}See wakelog admin for the list of commands."
        raise PlanRefused(f"there is no command {rest[0]}", remedy)
    flags = None if asks_help else parse(command, rest[1:])
    if flags is None:
        for line in usage(command):
            say(line)
        return
    run_interruptibly(_run(command, flags, client_options(flags), say))


def client_options(flags: Flags) -> ClientOptions:
    """Return how the cluster is reached. Raises: PlanRefused."""
    text = flags["n"] if "n" in flags else os.environ.get(ENVIRONMENT_NAME, "")
    try:
        name_servers = read_name_servers(text)
    except ValueError:
        name_servers = ()
    if not name_servers:
        cause = f"-n {text} is no HOST:PORT" if text.strip() else "no name server is given"
        raise PlanRefused(cause, f"Give -n HOST:PORT, or set {ENVIRONMENT_NAME}.")
    if flags.get("output", "table") not in ("table", "json"):
        raise PlanRefused(f"--output {flags['output']} is not known", "Give table or json.")
    return ClientOptions(
        name_servers,
        group=GROUP,
        timeout_ms=TIMEOUT_MS,
        retries_max=0,
        credentials=account_keys(flags),
        tls=_tls(flags),
    )


def _tls(flags: Flags) -> Tls | None:
    """Return what TLS is to trust and to show, None for none. Raises: PlanRefused, TlsRefused."""
    given = [name for name in ("tls-trust", "tls-config") if name in flags]
    is_insecure = parse_boolean(flags.get("tls-insecure"))
    if len(given) + is_insecure > 1:
        names = " and ".join(f"--{name}" for name in (*given, "tls-insecure")[:2])
        raise PlanRefused(f"{names} contradict each other", "Give one of them.")
    if "tls-config" in flags:
        from wakelog.network.tls_properties import CONFIG_FILE, TlsSource, read_tls

        source = TlsSource(config_path=flags["tls-config"], directory=os.getcwd())
        try:
            found = read_tls(source)
        except TlsRefused as error:
            cause, _, remedy = str(error).replace(CONFIG_FILE, "--tls-config").partition("; ")
            raise PlanRefused(cause, sentence(remedy or "correct that file")) from error
        for warning in found.warnings:
            print(f"wakelog: {warning}", file=sys.stderr)
        return found.client
    if is_insecure:
        return Tls(checks_server=False, checks_host=False)
    uses_tls = "tls-trust" in flags or parse_boolean(flags.get("tls"))
    return Tls(flags.get("tls-trust", "")) if uses_tls else None


async def _run(
    command: Command, flags: Flags, options: ClientOptions, say: Callable[[str], None]
) -> None:
    async with open_admin(options) as admin:
        async for output in command.run(admin, flags):
            show(output, say, as_json=flags.get("output") == "json")


def _say_commands(say: Callable[[str], None]) -> None:
    say("wakelog admin COMMAND [FLAGS]: mqadmin's commands")
    for command in COMMANDS.values():
        say(f"   {command.name:26} {command.meaning}")
    say("\nSee wakelog admin help COMMAND for its flags.")
