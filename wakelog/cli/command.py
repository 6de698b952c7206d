"""What a command is: one function, from which all that a user sees of it is read.

    @log.command()
    def verify(store: Text = STORE, limit: int = option("N", "At most.", default=100)) -> int:
        '''Prove a store sound, or list its damage.'''

The name is the function's, the help its docstring, and the exit code what it returns. A parameter
is an option or an argument. Its type is the annotation, and its default what `options.py` declares.
So a command is called by `Call` alone. A first parameter without that is one of these:

    process   the signals and the deployment of this process: such a command stops in order
    admin     an `Admin`: the command is an asynchronous generator, which a `Wire` runs
    any other name: what is made of the options that several commands share, as a `Wire`

After `process` a second one may be of the last kind.

A group has commands and groups. `read` makes of the words of a command line a `Call` or a help.
"""

import importlib
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

from wakelog.actors.errors import NotPossible
from wakelog.protocol.java import LONG_MAX, LONG_MIN, parse_boolean

Function = TypeVar("Function", bound=Callable[..., Any])

NEAR_ENOUGH: Final = 0.8
"""How alike two names are that may be meant for each other; 1 is the same."""

PROCESS, ADMIN = "process", "admin"

HELP_NAMES: Final = ("-h", "--help")
HELP: Final = "help"
REQUIRED: Final = inspect.Parameter.empty
VERBATIM: Final = "\b"
"""Begins a paragraph of a docstring whose lines are shown as they are."""

_DIGITS_MAX: Final = 400


class Option(NamedTuple):
    """An option or an argument: what stands for the default of a parameter.

    names: as they are typed; without them an option is named as its parameter.
    minimum, maximum: of a number. parse: makes the value of the text; it raises NotPossible.
    default: of the value; without one it must be given, unless it may be None or is true or false.
    name, kind, choices, repeats: of the parameter, and of the type that it has.
    """

    metavar: str
    meaning: str
    names: tuple[str, ...] = ()
    minimum: float = LONG_MIN
    maximum: float = LONG_MAX
    parse: Callable[[str], Any] | None = None
    default: Any = REQUIRED
    takes_value: bool = True
    is_argument: bool = False
    name: str = ""
    kind: type = str
    choices: tuple[str, ...] = ()
    repeats: bool = False

    def of(self, name: str, kind: Any) -> "Option":
        """Return it with what the parameter says: its name, and the type of its value."""
        default = self.default
        if NoneType in get_args(kind):
            kind = next(x for x in get_args(kind) if x is not NoneType)
            default = None if default is REQUIRED else default
        if kind is bool and default is REQUIRED:
            default = False
        repeats = get_origin(kind) is list
        kind = get_args(kind)[0] if repeats else kind
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        return self._replace(
            name=name,
            names=self.names or (() if self.is_argument else (f"--{name.replace('_', '-')}",)),
            kind=str if choices else kind,
            choices=choices,
            repeats=repeats,
            default=default,
        )

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    @property
    def title(self) -> str:
        """What errors call it: the long name of an option."""
        return max(self.names, key=len, default=self.metavar)

    def value(self, text: str) -> Any:
        """Return the value that a text stands for. Raises: ValueError with what is wrong."""
        if self.parse is not None:
            text = self.parse(text)
        if self.choices and text not in self.choices:
            raise ValueError(f": {text!r} is not one of {', '.join(map(repr, self.choices))}")
        if self.kind is bool:
            return parse_boolean(text)
        return self._number(text) if self.kind in (int, float) else text

    def _number(self, text: str) -> float:
        if len(text) > _DIGITS_MAX:
            raise ValueError(" needs a number of fewer digits")
        try:
            number: float = self.kind("" if "_" in text else text)
        except ValueError:
            kind = "a whole number" if self.kind is int else "a number"
            raise ValueError(f" needs {kind}") from None
        if not number <= self.maximum:  # nor is NaN
            raise ValueError(f" needs a number of {self.maximum} or less")
        if number < self.minimum:
            raise ValueError(f" needs a number of {self.minimum} or more")
        return number


class Command:
    """A command of a group. path: how it is called, from the program on."""

    def __init__(
        self,
        function: Callable[..., Any],
        path: str,
        shared: Callable[..., Any] | None,
        one_of: Sequence[str],
        differs: str,
    ) -> None:
        self.function, self.path, self.one_of, self.differs = function, path, one_of, differs
        self.name, self.module = path.rpartition(" ")[2], function.__module__
        parameters = inspect.signature(function).parameters.items()
        made = [name for name, each in parameters if not isinstance(each.default, Option)]
        self.first = made[0] if made else ""
        self._shared = shared if made and made[-1] != PROCESS else None
        self._shared_name = made[-1] if made else ""

    @property
    def help(self) -> str:
        """The docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """Its first paragraph, in one line."""
        return " ".join(self.help.partition("\n\n")[0].split())

    @cached_property
    def own(self) -> tuple[Option, ...]:
        """The arguments and options of this command."""
        return tuple(_options(self.function))

    @cached_property
    def common(self) -> tuple[Option, ...]:
        """The options that the commands of its group share."""
        return () if self._shared is None else tuple(_options(self._shared))

    @property
    def every(self) -> tuple[Option, ...]:
        """All of them, in the order of the help: those that say what a process runs come first."""
        if self.first == PROCESS:
            return (*self.common, *self.own)
        return (*self.own, *self.common)

    def read(self, words: Sequence[str]) -> "Call | None":
        """Return the call that these words ask for; None if they ask for help.

        Raises: NotPossible.
        """
        given, rest = self._options(deque(words))
        if given is None:
            return None
        arguments = [x for x in self.own if x.is_argument]
        for x, word in zip(arguments, rest, strict=False):
            given[x.name] = self._value(x, word)
        if more := rest[len(arguments) :]:
            raise self._refusal(f"got unexpected extra argument(s) ({' '.join(more)})")
        for x in self.own:
            if x.is_required and x.name not in given:
                kind = "argument" if x.is_argument else "option"
                raise self._refusal(f"missing {kind} '{'/'.join(x.names) or x.metavar}'")
        self._check_choice(given)
        values = {x.name: given.get(x.name, x.default) for x in self.own}
        if self._shared is None:
            return Call(self, values)
        shared = self._shared(**{x.name: given.get(x.name, x.default) for x in self.common})
        if self.first == PROCESS:
            return Call(self, {self._shared_name: shared, **values})
        return Call(self, values, shared)

    def _options(self, words: deque[str]) -> tuple[dict[str, Any] | None, list[str]]:
        """Take the options out of the words; None in their place if they ask for help."""
        by_name = {name: x for x in self.every for name in x.names}
        given: dict[str, Any] = {}
        rest: list[str] = []
        while words:
            word = words.popleft()
            if word == "--":
                return given, [*rest, *words]
            if word == "-" or not word.startswith("-"):
                rest.append(word)
                continue
            name, separator, text = word.partition("=")
            if not word.startswith("--"):
                name, separator, text = word[:2], word[2:], word[2:].removeprefix("=")
            if name not in by_name and name in HELP_NAMES:
                return None, []
            if name not in by_name:
                near = get_close_matches(name, by_name, 1, NEAR_ENOUGH) if name[2:] else ()
                raise self._refusal(f"there is no option {name}", *near)
            self._take(by_name[name], name, text if separator else None, words, given)
        return given, rest

    def _take(
        self,
        x: Option,
        name: str,
        text: str | None,
        words: deque[str],
        given: dict[str, Any],
    ) -> None:
        """Add the value of an option. text: the rest of its word, None without one."""
        if x.takes_value:
            if text is None and not words:
                raise self._refusal(f"option '{name}' requires an argument")
            value = self._value(x, words.popleft() if text is None else text)
            given[x.name] = [*given.get(x.name, ()), value] if x.repeats else value
            return
        given[x.name] = True
        if text is not None and name.startswith("--"):
            raise self._refusal(f"option '{name}' does not take a value")
        if text is not None:  # `-fo json` is `-f -o json`
            words.appendleft(f"-{text}")

    def _value(self, x: Option, text: str) -> Any:
        try:
            return x.value(text)
        except ValueError as error:
            raise self._refusal(f"{x.title}{error}") from None

    def _check_choice(self, given: Mapping[str, Any]) -> None:
        """Refuse none, or several, of those options of which exactly one is given."""
        count = sum(name in given for name in self.one_of)
        if self.one_of and count != 1:
            choice = " or ".join(x.names[0] for x in self.own if x.name in self.one_of)
            raise NotPossible(f"{self.name} needs {choice}", f"Give one of them, not {count}.")

    def _refusal(self, cause: str, *near: str) -> NotPossible:
        return NotPossible(cause, see(self.path, *near))


class Call(NamedTuple):
    """A command with the values of its options. first: the value of its first parameter, if any."""

    command: Command
    values: dict[str, Any]
    first: Any = None

    def __call__(self) -> Any:
        """Run it."""
        command, values = self.command, self.values
        if command.first == ADMIN:
            return self.first.run(lambda admin: command.function(admin, **values))
        return command.function(*([self.first] if command.first else ()), **values)


class Group:
    """Commands, and groups of them, by name.

    shared: declares the options that its commands share, and makes one value of them.
    load: the modules whose import adds the commands, in the order of the help. They are imported
        when a command is needed.
    actions: what is done for an option of the group itself, with its meaning.
    """

    def __init__(
        self,
        path: str,
        summary: str,
        shared: Callable[..., Any] | None = None,
        load: Sequence[str] = (),
        actions: Mapping[str, tuple[str, Callable[[], None]]] | None = None,
        module: str = "",
    ) -> None:
        self.path, self.summary, self.module = path, summary, module
        self.help = summary
        self.name = path.rpartition(" ")[2]
        self.shared, self.actions = shared, actions or {}
        self._load = load
        self._members: dict[str, Command | Group] = {}

    @property
    def members(self) -> Mapping[str, "Command | Group"]:
        """The commands and groups, by name."""
        for module in self._load:
            importlib.import_module(module)
        # Another module may have imported some of them before, in another order.
        places = {module: place for place, module in enumerate(self._load)}
        in_order = sorted(self._members.values(), key=lambda each: places.get(each.module, -1))
        return {member.name: member for member in in_order}

    def commands(self) -> Iterator[Command]:
        """Yield every command of the group and of its groups."""
        for member in self.members.values():
            yield from member.commands() if isinstance(member, Group) else (member,)

    def command(
        self,
        name: str = "",
        *,
        shared: Callable[..., Any] | None = None,
        one_of: Sequence[str] = (),
        differs: str = "",
    ) -> Callable[[Function], Function]:
        """Add a function as a command.

        shared: as the group's, and in its place.
        one_of: of these parameters exactly one is given.
        differs: how the output differs from mqadmin's.
        """

        def add(function: Function) -> Function:
            path = f"{self.path} {name or function.__name__}"
            self._add(Command(function, path, shared or self.shared, one_of, differs))
            return function

        return add

    def group(
        self,
        name: str,
        summary: str,
        shared: Callable[..., Any] | None = None,
        load: Sequence[str] = (),
    ) -> "Group":
        """Add a group."""
        module = sys._getframe(1).f_globals["__name__"]  # as NamedTuple finds its module
        path = f"{self.path} {name}"
        group = Group(path, summary, shared or self.shared, load, module=module)
        self._add(group)
        return group

    def find(self, word: str) -> "Command | Group":
        """Return what a name means, whose case does not matter. Raises: NotPossible."""
        by_lower = {name.lower(): member for name, member in self.members.items()}
        if (found := by_lower.get(word.lower())) is not None:
            return found
        near = get_close_matches(word.lower(), by_lower, 1, NEAR_ENOUGH)
        raise NotPossible(
            f"there is no command {word}", see(self.path, *(by_lower[x].name for x in near))
        )

    def _add(self, member: "Command | Group") -> None:
        assert member.name not in self._members, f"{member.path} is declared twice"
        self._members[member.name] = member


def read(group: Group, words: Sequence[str]) -> "Call | Command | Group | Callable[[], None]":
    """Return what a command line asks for: a call, an action, or the help of what is returned.

    Raises: NotPossible for a mistake in it.
    """
    if not words or words[0] in HELP_NAMES:
        return group
    first, *rest = words
    if first in group.actions:
        return group.actions[first][1]
    if first.startswith("-"):
        raise NotPossible(f"there is no option {first}", see(group.path))
    found = group if first == HELP else group.find(first)
    if first == HELP:
        for word in rest:
            found = found.find(word) if isinstance(found, Group) else found
        return found
    return read(found, rest) if isinstance(found, Group) else found.read(rest) or found


def see(path: str, *near: str) -> str:
    """Return where the help is, after a name that may have been meant."""
    return "".join(f"Did you mean {x}? " for x in near) + f"See {path} --help."


def _options(function: Callable[..., Any]) -> Iterator[Option]:
    """Yield what a function, or a class of named values, declares."""
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Option):
            yield parameter.default.of(name, parameter.annotation)
