"""Words that no name may have, since a network or storage engineer would not search for them.

A name is what the tree gives: a module, class, function, argument, variable or attribute. It is
split at underscores and capitals, so that `note_line` and `NoteLine` are the same words.
"""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

REPLACEMENTS = {
    "neighbour": "service client",
    "neighbours": "service clients",
    "attachment": "attach request",
    "station": "service session",
    "note line": "notifier",
    "bell": "notification socket",
    "bells": "notification sockets",
    "ring": "notify",
    "rings": "notifies",
    "ringer": "notifier",
    "rung": "notify outcome",
    "words page": "shared watermarks",
    "words path": "path of the shared watermarks",
    "charge": "supervised process",
    "charges": "supervised processes",
    "belied": "mismatched",
    "unsound": "damaged",
    "take in": "consume",
    "took in": "consumed",
    "take up": "resume",
    "took up": "resumed",
    "look": "check",
    "looks": "checks",
    "looked": "checked",
    "tell": "notify or report",
    "tells": "notifies or reports",
    "told": "notified or reported",
    "anew": "again",
    "who": "the caller, a client or the process",
    "whoever": "the caller, a client or the process",
    "whom": "the caller, a client or the process",
    "price": "limit",
    "unpriced": "without a limit",
    "puts off": "defer",
    "judge": "check or decide",
    "judges": "checks",
    "storm": "series of kills",
    "storms": "series of kills",
    "weather": "series of kills",
    "strike": "kill",
    "strikes": "kills",
    "striker": "killer",
    "strikers": "killers",
    "encounters": "accidents",
    "spares": "standby processes",
    "nobody": "none",
    "somebody": "a client or another process",
}
"""A word that is not a name any more, and what to say."""

ROLE_NOUNS = {"line": "client", "link": "client", "caller": "service client", "word": "watermark"}
"""What no class of `wakelog/actors` ends with; in other places they are plain words."""

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


EVENT_WORD = "note"
"""No function of `wakelog` begins with it: `on_` and what happened, or what is counted or set."""

_EVENT = re.compile(rf"_?{EVENT_WORD}_")


class NamedThing(NamedTuple):
    """A name and the line that gives it."""

    line: int
    name: str


ROCKETMQ_NAMES = {"QUERY_TOPIC_CONSUME_BY_WHO", "WHO_CONSUME_THE_MESSAGE"}


def replaced_words(name: str) -> list[str]:
    """Return the words of a name that stand in `REPLACEMENTS`, none of one of RocketMQ's."""
    if name in ROCKETMQ_NAMES:
        return []
    words = [part.lower() for part in _PARTS.findall(name)]
    pairs = [" ".join(pair) for pair in itertools.pairwise(words)]
    return [word for word in (*words, *pairs) if word in REPLACEMENTS]


def given_names(path: str, tree: ast.Module) -> Iterator[NamedThing]:
    """Yield every name that a module gives, its own among them."""
    yield NamedThing(1, PurePosixPath(path).stem)
    yield NamedThing(1, PurePosixPath(path).parent.name)
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield NamedThing(node.lineno, node.name)
            case ast.arg():
                yield NamedThing(node.lineno, node.arg)
            case ast.Name(ctx=ast.Store()):
                yield NamedThing(node.lineno, node.id)
            case ast.Attribute(ctx=ast.Store()):
                yield NamedThing(node.lineno, node.attr)


def misnamed_events(path: str, tree: ast.Module) -> Iterator[NamedThing]:
    """Yield the functions of the package that only say that something is noted."""
    if not path.startswith("wakelog/"):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _EVENT.match(node.name):
            yield NamedThing(node.lineno, node.name)


def public_classes(path: str, tree: ast.Module) -> list[str]:
    """Return the names of the classes that other modules of the package may import."""
    if not path.startswith("wakelog/"):
        return []
    classes = (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return [name for name in classes if not name.startswith("_")]


def misnamed_roles(path: str, tree: ast.Module) -> Iterator[NamedThing]:
    """Yield the classes of the actors that are named by a word of `ROLE_NOUNS`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and path.startswith("wakelog/actors/"):
            parts = _PARTS.findall(node.name)
            if parts and parts[-1].lower() in ROLE_NOUNS:
                yield NamedThing(node.lineno, node.name)
