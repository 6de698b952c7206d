"""What a shell offers behind `wakelog admin`: commands, their flags, and what a flag can be.

mqadmin's flags are not declared to typer, so it does not know them.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from wakelog.cli.admin.command import COMMON, Command, Flag
from wakelog.cli.admin.table import COMMANDS, command_of

_VALUES: Final = {
    "output": ("table", "json"),
    "tls": ("true", "false"),
    "tls-insecure": ("true", "false"),
}
"""What a flag can be, by its name, where there are few choices."""

HELP: Final = "help"


class Choice(NamedTuple):
    """A word that may stand next, and what it means, by the names of typer's CompletionItem."""

    value: str
    help: str


def choices(words: Sequence[str], begin: str) -> Iterator[Choice]:
    """Yield the words that begin so and may follow these, which follow `admin`."""
    offered = _commands(words) if not words or list(words) == [HELP] else _flags(words, begin)
    return (choice for choice in offered if choice.value.startswith(begin))


def _commands(words: Sequence[str]) -> Iterator[Choice]:
    for command in COMMANDS.values():
        yield Choice(command.name, command.meaning)
    if not words:
        yield Choice(HELP, "What a command does, and its flags.")


def _flags(words: Sequence[str], begin: str) -> Iterator[Choice]:
    """Yield the flags that may follow, or what the last one can be."""
    command = command_of(words[0])
    if command is None:
        return
    flags = (*command.flags, *COMMON)
    by_word = {word: flag for flag in flags for word in _words(flag)}
    last = by_word.get(words[-1])
    if last is not None and last.takes_value:
        yield from (Choice(value, "") for value in _VALUES.get(last.name, ()))
        return
    given = {by_word[word] for word in words if word in by_word}
    for flag in flags:
        if flag not in given and not _is_excluded(command, flag, given):
            # Short ones make the list twice as long, and say less.
            spelled = _words(flag) if begin else [f"--{flag.name}"]
            yield from (Choice(word, flag.meaning) for word in spelled)


def _is_excluded(command: Command, flag: Flag, given: set[Flag]) -> bool:
    """Return whether a flag is one of several of which one was given."""
    return (
        bool(flag.short)
        and flag.short in command.one_of
        and any(other.short and other.short in command.one_of for other in given)
    )


def _words(flag: Flag) -> list[str]:
    """Return how a flag is spelled, short and long."""
    return [*([f"-{flag.short}"] if flag.short else ()), f"--{flag.name}"]
