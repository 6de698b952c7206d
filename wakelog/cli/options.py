"""How an option or an argument is declared, and those that several commands have."""

from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.command import Option

Text = str | None
Number = int | None

LIMIT_DEFAULT = 100


class Pair(NamedTuple):
    """An option that was given as KEY=VALUE."""

    key: str
    value: str


def option(metavar: str, meaning: str, *names: str, **more: Any) -> Option:
    """Declare an option with a value; without `names` it is named as its parameter."""
    return Option(metavar, meaning, names, **more)


def switch(meaning: str, *names: str) -> Option:
    """Declare an option without a value: True if it is given."""
    return Option("", meaning, names, takes_value=False)


def argument(metavar: str, meaning: str = "") -> Option:
    """Declare what is given by its place."""
    return Option(metavar, meaning, is_argument=True)


def pairs(name: str, meaning: str) -> Option:
    """Declare an option that is repeated, with KEY=VALUE each."""
    return option("KEY=VALUE", meaning, f"--{name}", parse=partial(_read_pair, name))


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
    Literal["table", "json"], option("", "json: an object a line.", "--output", "-o")
]
Scratch = Annotated[
    Text, option("DIR", "Where the folder for the comparison is made.  [default: TMPDIR]")
]
