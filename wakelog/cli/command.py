"""What a command is: one function, from which all that a user sees of it is read.

    @log.command()
    def verify(store: Store = None, output: OutputForm = "table") -> int:
        '''Prove a store sound, or list its damage.'''

The name is the function's, the help its docstring, and the exit code what it returns. Each
parameter is an option or an argument, as `options.py` declares it in the annotation; its type and
default are the parameter's. A first parameter of one of these names is none:

    process   the signals and the deployment of this process: such a command stops in order
    wire      a `Wire`: the command also has the options that reach a cluster
    admin     an `Admin`: the command is an asynchronous generator, and has those options, too

A group has commands and groups. `read` makes of the words of a command line a `Call` or a help.
"""

import importlib
import inspect
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

GIVEN: Final = ("process", "wire", "admin")
"""A first parameter of such a name is no option."""

HELP_NAMES: Final = ("-h", "--help")
HELP: Final = "help"
VERBATIM: Final = "\b"
"""Begins a paragraph of a docstring whose lines are shown as they are."""

_DIGITS_MAX: Final = 400


class Option(NamedTuple):
    """What the annotation of a parameter adds to its type.

    names: as they are typed; without them an option is named as its parameter.
    minimum, maximum: of a number. parse: makes the value of the text; it raises NotPossible.
    """

    metavar: str
    meaning: str
    names: tuple[str, ...] = ()
    minimum: float = LONG_MIN
    maximum: float = LONG_MAX
    parse: Callable[[str], Any] | None = None
    takes_value: bool = True
    is_argument: bool = False


class Parameter(NamedTuple):
    """An option or an argument of a command. kind: the type of its value, or of each of them."""

    name: str
    option: Option
    kind: type
    choices: tuple[str, ...]
    repeats: bool
    default: Any

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def title(self) -> str:
        """What errors call it: the long name of an option."""
        return max(self.option.names, key=len, default=self.option.metavar)

    @property
    def both(self) -> str:
        """All names of an option."""
        return "/".join(self.option.names) or self.option.metavar

    def value(self, text: str) -> Any:
        """Return the value that a text stands for. Raises: ValueError with what is wrong."""
        if self.option.parse is not None:
            text = self.option.parse(text)
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
        if not number <= self.option.maximum:  # nor is NaN
            raise ValueError(f" needs a number of {number_text(self.option.maximum)} or less")
        if number < self.option.minimum:
            raise ValueError(f" needs a number of {number_text(self.option.minimum)} or more")
        return number


class Command:
    """A command of a group. path: how it is called, from the program on."""

    def __init__(
        self,
        function: Callable[..., Any],
        path: str,
        reach: Callable[..., Any] | None,
        one_of: Sequence[str],
        differs: str,
    ) -> None:
        self.function, self.path, self.one_of, self.differs = function, path, one_of, differs
        self.name = path.rpartition(" ")[2]
        first = next(iter(inspect.signature(function).parameters), "")
        self.first = first if first in GIVEN else ""
        self._reach = reach if self.first in ("wire", "admin") else None

    @property
    def help(self) -> str:
        """The docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """Its first paragraph, in one line."""
        return " ".join(self.help.partition("\n\n")[0].split())

    @cached_property
    def own(self) -> tuple[Parameter, ...]:
        """The arguments and options of this command."""
        return tuple(_parameters(self.function))

    @cached_property
    def common(self) -> tuple[Parameter, ...]:
        """The options that reach a cluster."""
        return () if self._reach is None else tuple(_parameters(self._reach))

    def read(self, words: Sequence[str]) -> "Call | None":
        """Return the call that these words ask for; None if they ask for help.

        Raises: NotPossible.
        """
        given, rest = self._options(deque(words))
        if given is None:
            return None
        arguments = [x for x in self.own if x.option.is_argument]
        for parameter, word in zip(arguments, rest, strict=False):
            given[parameter.name] = self._value(parameter, word)
        if more := rest[len(arguments) :]:
            raise self._refusal(f"got unexpected extra argument(s) ({' '.join(more)})")
        for parameter in self.own:
            if parameter.is_required and parameter.name not in given:
                kind = "argument" if parameter.option.is_argument else "option"
                raise self._refusal(f"missing {kind} '{parameter.both}'")
        self._check_choice(given)
        if self._reach is not None:
            taken = {x.name: given.pop(x.name) for x in self.common if x.name in given}
            given["wire"] = self._reach(**taken)
        return Call(self, given)

    def _options(self, words: deque[str]) -> tuple[dict[str, Any] | None, list[str]]:
        """Take the options out of the words; None in their place if they ask for help."""
        by_name = {name: x for x in (*self.own, *self.common) for name in x.option.names}
        given: dict[str, Any] = {}
        rest: list[str] = []
        while words:
            word = words.popleft()
            if word == "--":
                return given, [*rest, *words]
            if word == "-" or not word.startswith("-"):
                rest.append(word)
                continue
            name, follows, tail = _split(word)
            if name not in by_name and name in HELP_NAMES:
                return None, []
            if name not in by_name:
                raise self._unknown(name, by_name)
            self._take(by_name[name], name, tail if follows else None, words, given)
        return given, rest

    def _take(
        self,
        x: Parameter,
        name: str,
        text: str | None,
        words: deque[str],
        given: dict[str, Any],
    ) -> None:
        """Add the value of an option. text: the rest of its word, None without one."""
        if x.option.takes_value:
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

    def _value(self, x: Parameter, text: str) -> Any:
        try:
            return x.value(text)
        except ValueError as error:
            raise self._refusal(f"{x.title}{error}") from None

    def _check_choice(self, given: Mapping[str, Any]) -> None:
        """Refuse none, or several, of those options of which exactly one is given."""
        count = sum(name in given for name in self.one_of)
        if self.one_of and count != 1:
            choice = " or ".join(x.option.names[0] for x in self.own if x.name in self.one_of)
            raise NotPossible(f"{self.name} needs {choice}", f"Give one of them, not {count}.")

    def _unknown(self, name: str, known: Mapping[str, Parameter]) -> NotPossible:
        near = get_close_matches(name, known, 1, NEAR_ENOUGH) if name.startswith("--") else ()
        return self._refusal(f"there is no option {name}", *near)

    def _refusal(self, cause: str, *near: str) -> NotPossible:
        return NotPossible(cause, see(self.path, *near))


class Call(NamedTuple):
    """A command with the values that were given; the others are the defaults of its function."""

    command: Command
    values: dict[str, Any]

    def __call__(self, **more: Any) -> Any:
        """Run it. more: the process, for a command that has it."""
        values = self.values | more
        if self.command.first != "admin":
            return self.command.function(**values)
        wire = values.pop("wire")
        return wire.run(lambda admin: self.command.function(admin, **values))


class Group:
    """Commands, and groups of them, by name.

    reach: whose parameters are the options that reach a cluster; it returns a `Wire`.
    load: the modules whose import adds the commands, in the order of the help. They are imported
        when a command is needed.
    actions: what is done for an option of the group itself, with its meaning.
    """

    def __init__(
        self,
        path: str,
        summary: str,
        reach: Callable[..., Any] | None = None,
        load: Sequence[str] = (),
        actions: Mapping[str, tuple[str, Callable[[], None]]] | None = None,
    ) -> None:
        self.path, self.summary = path, summary
        self.help = summary
        self.name = path.rpartition(" ")[2]
        self.reach, self.actions = reach, actions or {}
        self._load = load
        self._members: dict[str, Command | Group] = {}

    @property
    def members(self) -> Mapping[str, "Command | Group"]:
        """The commands and groups, by name."""
        for module in self._load:
            importlib.import_module(module)
        return self._members

    def commands(self) -> Iterator[Command]:
        """Yield every command of the group and of its groups."""
        for member in self.members.values():
            yield from member.commands() if isinstance(member, Group) else (member,)

    def command(
        self, name: str = "", *, one_of: Sequence[str] = (), differs: str = ""
    ) -> Callable[[Function], Function]:
        """Add a function as a command.

        one_of: of these parameters exactly one is given.
        differs: how the output differs from mqadmin's.
        """

        def add(function: Function) -> Function:
            path = f"{self.path} {name or function.__name__}"
            self._add(Command(function, path, self.reach, one_of, differs))
            return function

        return add

    def group(
        self,
        name: str,
        summary: str,
        reach: Callable[..., Any] | None = None,
        load: Sequence[str] = (),
    ) -> "Group":
        """Add a group."""
        group = Group(f"{self.path} {name}", summary, reach or self.reach, load)
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
    if first == HELP and rest:
        found = group.find(rest[0])
        return read(found, [HELP, *rest[1:]]) if isinstance(found, Group) and rest[1:] else found
    found = group if first == HELP else group.find(first)
    if found is group:
        return group
    return read(found, rest) if isinstance(found, Group) else found.read(rest) or found


def _split(word: str) -> tuple[str, bool, str]:
    """Return the name of an option, whether something follows it in the same word, and what."""
    if word.startswith("--"):
        name, separator, text = word.partition("=")
        return name, bool(separator), text
    return word[:2], len(word) > 2, word[2:].removeprefix("=")


def number_text(number: float) -> str:
    """Write a bound; a whole one has no point."""
    return f"{number:g}" if isinstance(number, float) else str(number)


def see(path: str, *near: str) -> str:
    """Return where the help is, after a name that may have been meant."""
    return "".join(f"Did you mean {x}? " for x in near) + f"See {path} --help."


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Yield what a function declares."""
    for number, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if number == 0 and name in GIVEN:
            continue
        annotation = parameter.annotation
        if isinstance(annotation, str):
            annotation = eval(annotation, function.__globals__)
        yield _parameter(name, annotation, parameter.default)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    declared, option = get_args(annotation)
    may_be_none = NoneType in get_args(declared)
    kind = next(x for x in get_args(declared) if x is not NoneType) if may_be_none else declared
    repeats = get_origin(kind) is list
    if repeats:
        [kind] = get_args(kind)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if option.is_argument:
        option = option._replace(metavar=option.metavar or name.upper())
    elif not option.names:
        option = option._replace(names=(f"--{name.replace('_', '-')}",))
    return Parameter(name, option, str if choices else kind, choices, repeats, default)
