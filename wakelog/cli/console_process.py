"""The process of a console that belongs to `wakelog up`; without Ray it ends with its parent.

    python -m wakelog.cli.console_process console -n 127.0.0.1:9876 --port 8080

Its standard input is a pipe that the parent holds. However the parent ends, the pipe ends, too.

What `up` asks for is read here, and any other command line by `app`. That has typer, which brings
pydantic: 8 MB that a console has no use for until an action needs a command of it.
"""

import argparse
import contextlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from wakelog.cli.console_beside import SAID_BYTES_MAX, last_line
from wakelog.cli.program import SIGNALLED
from wakelog.cli.stop_signals import StopAsked, StopSignals, run_interruptibly

if TYPE_CHECKING:
    from wakelog.cli.admin.command import Output
    from wakelog.client.admin import Admin
    from wakelog.console.serve import Listen

NICENESS: Final = 5
"""As that of the actor: the broker goes first."""


def run_words(words: Sequence[str]) -> str:
    """Run a command line in this process; return what it said of its failure, "" for none."""
    said = _End()
    with contextlib.redirect_stdout(_End()), contextlib.redirect_stderr(said):
        _run(words, StopSignals())
    return last_line(said.text)


class _End(io.TextIOBase):
    """Keeps the end of what is written, however long that goes on."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-SAID_BYTES_MAX:]
        return len(text)


class _Unread(Exception):
    """Words that `app` has to read."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Unread(message)


def _parser() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("command", choices=("console",))
    parser.add_argument("-n", "--name-server", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--audit", default="")
    parser.add_argument("--account")
    for name in ("--tls", "--tls-insecure"):
        parser.add_argument(name, action="store_const", const="true")
    return parser


def _run(words: Sequence[str], signals: StopSignals) -> int:
    try:
        given = _parser().parse_args(words)
        from wakelog.console.serve import Listen
    except (_Unread, ModuleNotFoundError):
        from wakelog.cli.app import run

        return run(words, signals)
    try:
        run_interruptibly(_serve(given, Listen(port=given.port)))
    except (StopAsked, BaseExceptionGroup):
        return SIGNALLED + signal.SIGINT
    except Exception as error:
        from wakelog.cli.failures import explain

        failure = explain(error)
        print(failure.line, file=sys.stderr)
        return failure.exit_code
    return 0


async def _serve(given: argparse.Namespace, listen: "Listen") -> None:
    """Serve until interrupted, and say where. Raises: NotPossible, PortUnavailable, ClientError."""
    from wakelog.cli.admin.client_flags import client_options
    from wakelog.cli.admin.command import Flags, show
    from wakelog.cli.cluster.console import console
    from wakelog.client.admin import open_admin
    from wakelog.console.accounts import Accounts

    flags = Flags(n=given.name_server)
    connection = {"account": given.account, "tls": given.tls, "tls-insecure": given.tls_insecure}
    flags.update({name: text for name, text in connection.items() if text is not None})
    # Without a handler Python writes warnings beside the one line that an error has.
    logging.getLogger("wakelog.client").addHandler(logging.NullHandler())
    async with open_admin(client_options(flags)) as admin:
        async for output in console(admin, listen, Accounts(), _ask_of, given.audit):
            show(output, lambda text: print(text, flush=True), as_json=False)


def _ask_of(words: Sequence[str]) -> "Callable[[Admin], AsyncIterator[Output]]":
    from wakelog.cli.cluster.commands import ask_of

    return ask_of(words)


def _end_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    os._exit(0)


def main() -> int:
    """Run the words of the command line until they end, or the parent does."""
    os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    signals = StopSignals()
    signals.install()
    return _run(sys.argv[1:], signals)


if __name__ == "__main__":
    sys.exit(main())
