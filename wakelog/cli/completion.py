"""What a shell offers for the rest of a command line, and how bash, zsh and fish come to ask.

A shell runs this program with the line in its environment. The scripts that shells have installed
use the names below.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.cli.command import HELP, HELP_NAMES, Command, Group, Option
from wakelog.cli.program import COMPLETE_NAME

BASH_WORDS, BASH_NUMBER = "COMP_WORDS", "COMP_CWORD"
LINE_NAME: Final = "_TYPER_COMPLETE_ARGS"
FISH_ACTION: Final = "_TYPER_COMPLETE_FISH_ACTION"

_BASH: Final = f"""\
_wakelog_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${{COMP_WORDS[*]}}" \\
                   COMP_CWORD=$COMP_CWORD \\
                   {COMPLETE_NAME}=complete_bash $1 ) )
    return 0
}}

complete -o default -F _wakelog_completion wakelog"""
_ZSH: Final = f"""\
#compdef wakelog

_wakelog_completion() {{
  eval $(env {LINE_NAME}="${{words[1,$CURRENT]}}" {COMPLETE_NAME}=complete_zsh wakelog)
}}

compdef _wakelog_completion wakelog"""
_FISH_ASKS: Final = f"env {COMPLETE_NAME}=complete_fish {LINE_NAME}=(commandline -cp) {FISH_ACTION}"
_FISH: Final = (
    f'complete --command wakelog --no-files --arguments "({_FISH_ASKS}=get-args wakelog)"'
    f' --condition "{_FISH_ASKS}=is-args wakelog"'
)


class Shell(NamedTuple):
    """A shell: its script, where that is kept, and the line that its settings need for it."""

    script: str
    path: str
    settings: str = ""
    line: str = ""


SHELLS: Final = {
    "bash": Shell(_BASH, ".bash_completions/wakelog.sh", ".bashrc", "source '{}'"),
    "zsh": Shell(
        _ZSH, ".zfunc/_wakelog", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
    ),
    "fish": Shell(_FISH, ".config/fish/completions/wakelog.fish"),
}


class Suggestion(NamedTuple):
    """A word that may stand next, and what it means."""

    value: str
    meaning: str


def install() -> None:
    """Install completion for the shell that called. Raises: NotPossible, OSError."""
    name = _shell_name()
    shell, home = SHELLS[name], Path.home()
    path = home / shell.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{shell.script}\n")
    if shell.settings:
        settings, line = home / shell.settings, shell.line.format(path)
        known = settings.read_text() if settings.is_file() else ""
        if line not in known:
            settings.write_text(f"{known}\n{line}\n")
    print(f"{name} completion installed in {path}")
    print("Completion will take effect once you restart the terminal")


def script() -> str:
    """Return the script for the shell that called. Raises: NotPossible."""
    return SHELLS[_shell_name()].script


def _shell_name() -> str:
    """Return the nearest shell among the processes that called, else the user's own."""
    process_id = os.getppid()
    with contextlib.suppress(OSError, ValueError):
        while process_id > 1:
            name, _, rest = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")
            name = name.partition("(")[2].removeprefix("-")
            if name in SHELLS:
                return name
            process_id = int(rest.split()[1])
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        cause = "this shell is not known" if not name else f"there is no completion for {name}"
        raise NotPossible(cause, f"Run it in {', '.join(SHELLS)}.")
    return name


def complete(program: Group, asked: str) -> int:
    """Answer a shell, and return the exit code. asked: `complete_` with the name of the shell."""
    name = asked.removeprefix("complete_")
    if name == "bash":
        words = _split(os.environ.get(BASH_WORDS, ""))
        number = int(os.environ.get(BASH_NUMBER, "1"))
        begin = "".join(words[number : number + 1])
        words = words[1:number]
    else:
        line = os.environ.get(LINE_NAME, "")
        words = _split(line)[1:]
        begin = words.pop() if words and not line.endswith(" ") else ""
    found = list(choices(program, words, begin))
    if name == "fish" and os.environ.get(FISH_ACTION) == "is-args":
        return 0 if found else 1
    if name == "zsh":
        print(_for_zsh(found))
    else:
        print("\n".join("\t".join(filter(None, x[: 1 + (name == "fish")])) for x in found))
    return 0


def _split(line: str) -> list[str]:
    """Split a line as a shell does; the last word may lack its end."""
    for end in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            return shlex.split(line + end)
    return line.split()


def _for_zsh(found: Sequence[Suggestion]) -> str:
    if not found:
        return "_files"
    words = (":".join(f'"{_escaped(x)}"' for x in choice if x) for choice in found)
    return "_arguments '*: :((" + "\n".join(words) + "))'"


def _escaped(text: str) -> str:
    text = text.replace('"', '""').replace("'", "''")
    return re.sub(r"([$`])", r"\\\1", text).replace(":", r"\\:")


def choices(group: Group, words: Sequence[str], begin: str) -> Iterator[Suggestion]:
    """Yield the words that begin so and may follow these, which follow the group's name."""
    member: Command | Group = group
    rest = list(words)
    while isinstance(member, Group) and rest:
        try:
            member = member if rest[0] == HELP else member.find(rest[0])
        except NotPossible:
            return
        del rest[0]
    offered = (
        _members(member, begin) if isinstance(member, Group) else _options(member, rest, begin)
    )
    yield from (x for x in offered if x.value.startswith(begin))


def _members(group: Group, begin: str) -> Iterator[Suggestion]:
    for each in group.members.values():
        yield Suggestion(each.name, each.summary)
    yield Suggestion(HELP, "What a command does, and its options.")
    if begin.startswith("-"):
        for name, (meaning, _) in group.actions.items():
            yield Suggestion(name, meaning)
        yield Suggestion(HELP_NAMES[1], "Show this message and exit.")


def _options(command: Command, words: Sequence[str], begin: str) -> Iterator[Suggestion]:
    """Yield the options that may follow, or what the last one can be."""
    every = command.every
    by_word = {name: x for x in every for name in x.names}
    last = by_word.get(words[-1]) if words else None
    if last is not None and last.takes_value:
        values = last.choices or (("true", "false") if last.kind is bool else ())
        yield from (Suggestion(value, "") for value in values)
        return
    given = {by_word[word].name for word in words if word in by_word}
    for x in every:
        if not x.is_argument and not _is_excluded(command, x, given):
            # Short ones make the list twice as long, and say less.
            for name in x.names if begin else (max(x.names, key=len),):
                yield Suggestion(name, x.meaning)


def _is_excluded(command: Command, x: Option, given: set[str]) -> bool:
    """Return whether an option was given, or another one of those of which one is given."""
    if x.name in given:
        return not x.repeats
    return x.name in command.one_of and not given.isdisjoint(command.one_of)
