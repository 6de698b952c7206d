"""Options that several commands have, and how an option is declared."""

from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import typer

from wakelog.actors.errors import NotPossible

Text = str | None
Number = int | None

LIMIT_DEFAULT = 100


class Pair(NamedTuple):
    """An option that was given as KEY=VALUE."""

    key: str
    value: str


def option(metavar: str, help_text: str, *names: str, **more: Any) -> Any:
    """Declare an option with a value; without `names` it is named as its parameter."""
    return typer.Option(*names, metavar=metavar, help=help_text, **more)


def pairs(name: str, help_text: str) -> Any:
    """Declare an option that is repeated, with KEY=VALUE each."""
    return option("KEY=VALUE", help_text, f"--{name}", parser=partial(_read_pair, name))


def _read_pair(name: str, word: str) -> Pair:
    """Split the text of an option. Raises: NotPossible."""
    key, separator, value = word.partition("=")
    if not separator or not key:
        raise NotPossible(f"--{name} {word!r} is no KEY=VALUE", "Give a name and a value.")
    return Pair(key, value)


Store = Annotated[Text, option("DIR", "Store directory.  [default: ~/store]")]
Config = Annotated[Text, option("FILE", "RocketMQ's broker.conf.")]
Settings = Annotated[
    list[str] | None, option("KEY=VALUE", "One setting of broker.conf; repeat.", "--set")
]
OutputForm = Annotated[
    Literal["table", "json"], typer.Option("--output", "-o", help="json: an object a line.")
]
Scratch = Annotated[
    Text, option("DIR", "Where the folder for the comparison is made.  [default: TMPDIR]")
]


def help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands if none of them is named."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
