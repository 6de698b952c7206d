"""The process of a console that belongs to `wakelog up --local`: it ends with its parent.

    python -m wakelog.cli.console_process console -n 127.0.0.1:9876 --port 8080

Its standard input is a pipe that the parent holds. However the parent ends, the pipe ends, too.
"""

import contextlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from wakelog.cli.console_beside import last_line
from wakelog.cli.stop_signals import StopSignals

NICENESS: Final = 5
"""As that of the actor: the broker goes first."""


def run_words(words: Sequence[str]) -> str:
    """Run a command line in this process; return what it said of its failure, "" for none."""
    from wakelog.cli.app import run

    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        run(words, StopSignals())
    return last_line(said.getvalue())


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
    from wakelog.cli.app import run

    return run(sys.argv[1:], signals)


if __name__ == "__main__":
    sys.exit(main())
