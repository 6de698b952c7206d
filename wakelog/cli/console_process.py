"""The process of a console that belongs to `wakelog up`; without Ray it ends with its parent.

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

from wakelog.cli.app import run
from wakelog.cli.console_beside import SAID_BYTES_MAX, last_line
from wakelog.cli.stop_signals import StopSignals

NICENESS: Final = 5
"""As that of the actor: the broker goes first."""


def run_words(words: Sequence[str]) -> str:
    """Run a command line in this process; return what it said of its failure, "" for none."""
    said = _End()
    with contextlib.redirect_stdout(_End()), contextlib.redirect_stderr(said):
        run(words, StopSignals())
    return last_line(said.text)


class _End(io.TextIOBase):
    """Keeps the end of what is written, however long that goes on."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-SAID_BYTES_MAX:]
        return len(text)


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
    return run(sys.argv[1:], signals)


if __name__ == "__main__":
    sys.exit(main())
