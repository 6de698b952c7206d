"""The table of all commands, and `run_admin`, which runs one command line."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from wakelog.actors.errors import NotPossible
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
    transactions,
)
from wakelog.cli.admin.client_flags import client_options
from wakelog.cli.admin.command import Command, Flags, parse, show, usage
from wakelog.cli.stop_signals import run_interruptibly
from wakelog.client.admin import open_admin
from wakelog.client.options import ClientOptions

NEAR_ENOUGH: Final = 0.8
"""How alike two names are that may be meant for each other; 1 is the same."""

_MODULES: Final = (
    topics, groups, clients, offsets, messages, sends, traces, transactions, brokers, accounts,
    exports,
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

    Raises: NotPossible for a mistake in the command line; ClientError.
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
        raise NotPossible(f"there is no command {rest[0]}", remedy)
    flags = None if asks_help else parse(command, rest[1:])
    if flags is None:
        for line in usage(command):
            say(line)
        return
    run_interruptibly(_run(command, flags, client_options(flags), say))


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
