"""How an option or an argument is declared, and those that several commands have."""

from functools import partial
from typing import Any, Literal, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.command import Option

Text = str | None
Number = int | None
OutputForm = Literal["table", "json"]

LIMIT_DEFAULT = 100


class Pair(NamedTuple):
    """An option that was given as KEY=VALUE."""

    key: str
    value: str


def option(metavar: str, meaning: str, *names: str, **more: Any) -> Any:
    """Declare an option with a value; without `names` it is named as its parameter."""
    return Option(metavar, meaning, names, **more)


def switch(meaning: str, *names: str) -> Any:
    """Declare an option without a value: True if it is given."""
    return Option("", meaning, names, takes_value=False, default=False)


def argument(metavar: str, meaning: str = "") -> Any:
    """Declare what is given by its place."""
    return Option(metavar, meaning, is_argument=True)


def pairs(name: str, meaning: str) -> Any:
    """Declare an option that is repeated, with KEY=VALUE each."""
    return option("KEY=VALUE", meaning, f"--{name}", parse=partial(_read_pair, name))


def _read_pair(name: str, word: str) -> Pair:
    """Split the text of an option. Raises: NotPossible."""
    key, separator, value = word.partition("=")
    if not separator or not key:
        raise NotPossible(f"--{name} {word!r} is no KEY=VALUE", "Give a name and a value.")
    return Pair(key, value)


STORE = option("DIR", "Store directory.  [default: ~/store]")
CONFIG = option("FILE", "RocketMQ's broker.conf.")
SET = option("KEY=VALUE", "One setting of broker.conf; repeat.", "--set")
OUTPUT = option("", "json: an object a line.", "--output", "-o", default="table")
SCRATCH = option("DIR", "Where the folder for the comparison is made.  [default: TMPDIR]")
