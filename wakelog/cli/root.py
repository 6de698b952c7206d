"""The program itself: the group of all commands, and what a command line asks a cluster."""

from collections.abc import Sequence
from typing import Final

from wakelog.actors.errors import NotPossible
from wakelog.cli.command import Call, Group, read
from wakelog.cli.wire import Ask, Wire


def _print_version() -> None:
    from wakelog.telemetry.build import version

    print(f"wakelog {version()}")


def _install_completion() -> None:
    from wakelog.cli.completion import install

    install()


def _show_completion() -> None:
    from wakelog.cli.completion import script

    print(script())


program: Final = Group(
    "wakelog",
    "A RocketMQ 4.9.3 broker and name server on Ray actors.",
    Wire,
    load=(
        "wakelog.cli.start",
        "wakelog.cli.admin.command",
        "wakelog.cli.cluster.commands",
        "wakelog.cli.log",
        "wakelog.cli.spark",
    ),
    actions={
        "--version": ("Show the version and exit.", _print_version),
        "--install-completion": ("Install completion for the current shell.", _install_completion),
        "--show-completion": ("Show completion for the current shell.", _show_completion),
    },
)


def ask_of(words: Sequence[str]) -> Ask:
    """Return what a command line would ask a cluster. Raises: NotPossible."""
    asked: list[Ask] = []

    class Kept(Wire):
        def run(self, ask: Ask) -> None:
            asked.append(ask)

    call = read(program, words)
    if isinstance(call, Call) and isinstance(call.first, Wire):
        call._replace(first=Kept(*call.first))()
    if not asked:
        raise NotPossible(f"wakelog {words[0]} asks no cluster", "Run it in a shell.")
    return asked[0]
