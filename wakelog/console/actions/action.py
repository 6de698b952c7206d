"""What the console changes: each action is a command of `wakelog`, and runs as that command.

An action is a row: the fields of its form, and the words of the command that they make. The page
shows these words, and the same words run. So a page can do nothing that the command line cannot.

    form    the form; its fields are in the URL, and nothing is changed
    preview what it would do, in numbers, and the command
    run     by a request that only the form can make; then what it did
"""

import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

from wakelog.broker.replication.known_group import without_account
from wakelog.client.admin import Admin

Values = Mapping[str, str]
"""What was typed, by the names of fields; a switch that is off has ""."""

Words = Sequence[str]
Kind = Literal["text", "number", "choice", "switch", "lines", "secret", "address"]
"""An address may have an account before an `@`, which is not shown."""

TEXT_LENGTH_MAX: Final = 1_024
LINES_LENGTH_MAX: Final = 1 << 20
"""What a field of several lines takes: a body that is sent."""
LINES_SHOWN_MAX: Final = 1_000
"""Characters of such a field that a page and a log show."""
SECRET_SHOWN: Final = "..."


class Said(Protocol):
    """One part of what a command puts out."""

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        ...

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield it as objects of JSON."""
        ...


class CommandFailed(Exception):
    """A command did not do what was asked. said: what it had put out before."""

    def __init__(self, cause: str, remedy: str, said: Sequence[Said] = ()) -> None:
        """Keep the parts."""
        super().__init__(cause, remedy)
        self.cause, self.remedy, self.said = cause, remedy, said


class Commands(Protocol):
    """Runs the words of a command line at the console's cluster, as its account."""

    def __call__(self, words: Words) -> AsyncIterator[Said]:
        """Yield what the command puts out. Raises: CommandFailed, with cause and remedy."""
        ...


class Field(NamedTuple):
    """A field of a form.

    choices: of a choice, the values with their names. value: what it has at first.
    pattern: of a text, a regular expression that all of it matches.
    length_max: of a text that is no number.
    """

    name: str
    label: str
    kind: Kind = "text"
    value: str = ""
    help: str = ""
    is_required: bool = True
    choices: tuple[tuple[str, str], ...] = ()
    minimum: int = 0
    maximum: int = (1 << 31) - 1
    pattern: str = ""
    length_max: int = TEXT_LENGTH_MAX


_PART: Final = re.compile(r"\[[^\]]*\]|\S+")
_NAME: Final = re.compile(r"\{([\w-]+)\}")


def words_of(template: str) -> Callable[[Values], Words]:
    """Return what makes the words of a command of the values of fields.

    template: words; `{name}` is the value of a field, whole. `[-b {one}|-c {all}]` is the first of
        its parts whose values are not empty, or nothing.
    """

    def words(values: Values) -> Words:
        said: list[str] = []
        for part in _PART.findall(template):
            choices = part[1:-1].split("|") if part[0] == "[" else [part]
            fitting = (x for x in choices if x is part or all(map(values.get, _NAME.findall(x))))
            said += [word.format_map(values) for word in next(fitting, "").split()]
        return said

    return words


Preview = Callable[[Admin, Values], Awaitable[list[str]]]


class PreviewCommand(NamedTuple):
    """A command that shows what an action would do, and what its rows come to, in sentences."""

    words: Callable[[Values], Words]
    sums: Callable[[Sequence[Mapping[str, Any]]], list[str]]


class Action(NamedTuple):
    """A row of the table of actions.

    name: in its URL. page: where it leads back to, a path with `{field}` in it.
    words: of the command. preview: says in numbers what it would do; it changes nothing.
    shown: a command that says so.
    links: to what it made, of the rows that the command put out: texts with paths.
    typed: the field whose value is typed once more, since the action destroys.
    posts_fields: its fields are too large or too secret for a URL.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    words: Callable[[Values], Words]
    page: str
    preview: Preview | None = None
    shown: PreviewCommand | None = None
    typed: str = ""
    does: str = ""
    posts_fields: bool = False
    links: Callable[[Sequence[Mapping[str, Any]]], list[tuple[str, str]]] | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The fields that no page and no log shows."""
        return tuple(x.name for x in self.fields if x.kind == "secret")

    @property
    def previews_by_post(self) -> bool:
        """Whether a field may have an account: it stands in no URL."""
        return any(x.kind == "address" for x in self.fields)

    def checked(self, given: Values) -> tuple[dict[str, str], dict[str, str]]:
        """Return the value of each field, and what is wrong with those that cannot be."""
        values, wrong = {}, {}
        for field in self.fields:
            text = given.get(field.name, "" if field.kind == "switch" and given else field.value)
            text = text.replace("\r\n", "\n") if field.kind == "lines" else text.strip()
            values[field.name] = text
            if reason := _wrong(field, text):
                wrong[field.name] = reason
        return values, wrong

    def command(self, values: Values) -> str:
        """Return the command line, without secrets and without the rest of long texts."""
        shown = {x: SECRET_SHOWN if x in self.secrets and y else y for x, y in values.items()}
        for field in self.fields:
            text = shown[field.name]
            if field.kind == "address":
                shown[field.name] = without_account(text)
            if field.kind == "lines" and len(text) > LINES_SHOWN_MAX:
                shown[field.name] = f"{text[:LINES_SHOWN_MAX]}{SECRET_SHOWN}"
        return "wakelog " + shlex.join(self.words(shown))

    def hidden(self, text: str, values: Values) -> str:
        """Return a text without the secrets that were typed: brokers may repeat them."""
        for name in self.secrets:
            if secret := values.get(name, ""):
                text = text.replace(secret, SECRET_SHOWN)
        for field in self.fields:
            if field.kind == "address" and (address := values.get(field.name, "")):
                text = text.replace(address, without_account(address))
        return text


def _wrong(field: Field, text: str) -> str:
    """Return why a field cannot have this text, "" if it can."""
    length_max = LINES_LENGTH_MAX if field.kind == "lines" else field.length_max
    if not text:
        return f"{field.label} is needed" if field.is_required and field.kind != "switch" else ""
    if len(text) > length_max:
        return f"{field.label} has {len(text):,} characters; it may have {length_max:,}"
    if field.kind == "number":
        try:
            number = int(text)
        except ValueError:
            return f"{text!r} is no whole number"
        if not field.minimum <= number <= field.maximum:
            return f"{field.label} is from {field.minimum:,} to {field.maximum:,}"
    if field.kind == "secret":
        fits = not field.pattern or re.fullmatch(field.pattern, text)
        return "" if fits else f"{field.label} does not fit: {field.help}"  # never shown
    if field.kind == "choice" and text not in dict(field.choices):
        return f"{text!r} is none of {', '.join(name for name, _ in field.choices)}"
    if field.pattern and not re.fullmatch(field.pattern, text):
        return f"{text!r} does not fit: {field.help}"
    return ""
