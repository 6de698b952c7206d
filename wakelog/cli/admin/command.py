"""What a command is: its flags, what it puts out, and how a command line is read.

Text is in mqadmin's columns. JSON is one object a line: a row of a table, or the value of a text.
"""

import argparse
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from wakelog.actors.errors import NotPossible
from wakelog.client.admin import Admin
from wakelog.protocol.java import LONG_MAX, LONG_MIN, parse_boolean, parse_integer

_CELL: Final = re.compile(r"%([-0]*)(\d*)(?:\.\d+)?[dfs]")


class Table(NamedTuple):
    """Rows under heads. `layout` is the format of one line, in C's manner."""

    layout: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    shows_heads: bool = True

    def lines(self) -> Iterator[str]:
        """Yield the heads and each row as text."""
        if self.shows_heads:
            texts = _CELL.sub(lambda found: f"%{found[1].strip('0')}{found[2]}s", self.layout)
            yield texts % tuple(f"#{head}" for head in self.heads)
        for row in self.rows:
            yield self.layout % tuple(row)

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield each row by the names of the heads, in camel case."""
        return named_values(self.heads, self.rows)


class Text(NamedTuple):
    """A text of one or more lines, and the value that it stands for: none if it is empty.

    A value with an empty text is for JSON alone; without a value that is an empty line.
    """

    text: str
    value: dict[str, Any]

    def lines(self) -> Iterator[str]:
        """Yield the text, if it is one."""
        if self.text or not self.value:
            yield self.text

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the value, if there is one."""
        if self.value:
            yield self.value


class Output(Protocol):
    """One part of what a command puts out."""

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        ...

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield it as objects of JSON."""
        ...


class Flag(NamedTuple):
    """A flag: `-t NAME` or `--topic NAME`; without `takes_value`, `-l` or `--list`."""

    short: str
    name: str
    meaning: str
    is_required: bool = False
    takes_value: bool = True


class Flags(dict[str, str]):
    """The flags that were given, by their short names; one without a value has ""."""

    def number(
        self, short: str, default: int = 0, *, minimum: int = LONG_MIN, maximum: int = LONG_MAX
    ) -> int:
        """Return a number within bounds, by default those of Java's long. Raises: NotPossible."""
        if short not in self:
            return default
        try:
            return parse_integer(self[short], minimum=minimum, maximum=maximum)
        except ValueError:
            is_bounded = (minimum, maximum) != (LONG_MIN, LONG_MAX)
            kind = f"number from {minimum} to {maximum}" if is_bounded else "number"
            raise NotPossible(f"-{short} {self[short]!r} is no {kind}", f"Give a {kind}.") from None

    def truth(self, short: str, *, default: bool = False) -> bool:
        """Return whether it is `true`."""
        return parse_boolean(self[short]) if short in self else default


Run: TypeAlias = Callable[[Admin, Flags], AsyncIterator[Output]]


class Command(NamedTuple):
    """A row of the table.

    one_of: of these flags, by their short names, exactly one is given.
    differs: how the output differs from mqadmin's, "" if it does not.
    """

    name: str
    meaning: str
    run: Run
    flags: tuple[Flag, ...] = ()
    one_of: str = ""
    differs: str = ""


def need(short: str, name: str, meaning: str) -> Flag:
    """Return a flag that must be given."""
    return Flag(short, name, meaning, is_required=True)


def may(short: str, name: str, meaning: str) -> Flag:
    """Return a flag that may be given."""
    return Flag(short, name, meaning)


def switch(short: str, name: str, meaning: str) -> Flag:
    """Return a flag without a value."""
    return Flag(short, name, meaning, takes_value=False)


TOPIC: Final = need("t", "topic", "Name of the topic.")
GROUP: Final = need("g", "consumerGroup", "Name of the consumer group.")
BROKER: Final = may("b", "brokerAddr", "Address of a broker, HOST:PORT.")
CLUSTER: Final = may("c", "clusterName", "Name of a cluster: all its masters.")

COMMON: Final = (
    may("n", "namesrvAddr", "HOST:PORT of the name servers, `;` between.  [default: NAMESRV_ADDR]"),
    may("", "output", "table, or json: one object a line.  [default: table]"),
    may("", "access-key", "Access key of the account, for brokers with access control."),
    may("", "secret-key", "Its secret key.  [default: WAKELOG_SECRET_KEY, else it is asked for]"),
    may("", "account", "File with accessKey and secretKey, as mqadmin's tools.yml."),
    may("", "tls", "true for connections with TLS.  [default: false]"),
    may("", "tls-trust", "PEM file of the signers of servers, in place of the system's."),
    may("", "tls-config", "A tls.properties: signers, and a certificate of one's own."),
    may("", "tls-insecure", "true for any certificate of a server.  [default: false]"),
)
"""Flags that every command has."""


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise NotPossible(message, f"See {self.prog} --help.")


def parse(command: Command, words: Sequence[str]) -> Flags | None:
    """Read the flags of a command line; None if it asks for help. Raises: NotPossible."""
    if "-h" in words or "--help" in words:
        return None
    parser = _Parser(prog=f"wakelog admin {command.name}", add_help=False, allow_abbrev=False)
    for flag in (*command.flags, *COMMON):
        names = [f"-{flag.short}"] if flag.short else []
        if flag.takes_value:
            # A value may begin with a minus: `-s -1`.
            parser.add_argument(
                *names, f"--{flag.name}", dest=flag.short or flag.name, required=flag.is_required
            )
        else:
            parser.add_argument(
                *names, f"--{flag.name}", dest=flag.short, action="store_const", const=""
            )
    found = {
        name: text for name, text in vars(parser.parse_args(words)).items() if text is not None
    }
    given = [short for short in command.one_of if short in found]
    if command.one_of and len(given) != 1:
        choice = " or ".join(f"-{short}" for short in command.one_of)
        raise NotPossible(f"{command.name} needs {choice}", f"Give one of them, not {len(given)}.")
    return Flags({name: text.strip() for name, text in found.items()})


def usage(command: Command) -> Iterator[str]:
    """Yield the lines of a command's help."""
    yield f"wakelog admin {command.name}: {command.meaning}"
    for flag in (*command.flags, *COMMON):
        names = f"-{flag.short}, --{flag.name}" if flag.short else f"    --{flag.name}"
        mark = " (required)" if flag.is_required else ""
        yield f"  {names:32} {flag.meaning}{mark}"


def show(output: Output, say: Callable[[str], None], *, as_json: bool) -> None:
    """Put out one part of a command's result."""
    if as_json:
        for value in output.values():
            say(json.dumps(value, ensure_ascii=False))
    else:
        for line in output.lines():
            say(line)


def named_values(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its heads, in camel case."""
    names = [_camel(head) for head in heads]
    for row in rows:
        yield dict(zip(names, row, strict=True))


def _camel(head: str) -> str:
    first, *rest = (str(word) for word in re.findall(r"[A-Za-z0-9]+", head.partition("(")[0]))
    if first.isupper():
        first = first.lower()
    return first[:1].lower() + first[1:] + "".join(word[:1].upper() + word[1:] for word in rest)
