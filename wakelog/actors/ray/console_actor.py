"""The Console actor: the console of `wakelog up`, in a process of its own that Ray starts again.

What it runs is given by name: no process of a broker has the client, and this one has no broker.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from wakelog.actors.services.table import load
from wakelog.network.background import log_failure, start_thread
from wakelog.telemetry.logs import Log, logger

NAME: Final = "Console"
TARGET: Final = "wakelog.actors.ray.console_actor:ConsoleActor"
NICENESS: Final = 5
"""A broker beside a console that is busy gets three times its processor time."""

AGAIN_SECONDS: Final = 2.0
"""Between two tries to serve."""
FAILURE_LENGTH_MAX: Final = 300
SETTLED_SECONDS: Final = 5.0
"""A console that has run for so long works."""


class ConsoleActor:
    """It serves from its construction on: Ray calls nothing else after a restart."""

    def __init__(self, target: str, words: Sequence[str]) -> None:
        """target: `module:function` that runs a command line and returns why it ended."""
        os.nice(NICENESS)
        self._run: Callable[[Sequence[str]], str] = load(target)
        self._words = tuple(words)
        self._failure = ""
        self._began_seconds = time.monotonic()
        start_thread(self._serve, log_failure(logger(Log.BROKER), NAME), name="console")

    def _serve(self) -> None:
        while True:
            self._began_seconds = time.monotonic()
            try:
                self._failure = self._run(self._words)
            except Exception as error:  # a defect: it is said, and tried again
                log_failure(logger(Log.BROKER), NAME)(error)
                self._failure = f"it failed: {error!r}"[:FAILURE_LENGTH_MAX]
            time.sleep(AGAIN_SECONDS)

    async def state(self) -> dict[str, Any]:
        """Return its process, and why it does not serve; "" if it does."""
        is_steady = time.monotonic() - self._began_seconds > SETTLED_SECONDS
        return {"process_id": os.getpid(), "failure": "" if is_steady else self._failure}
