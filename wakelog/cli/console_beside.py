"""The console that `wakelog up` starts beside its brokers, once they are ready.

It is a process of its own: an actor named Console with Ray, a child process without. Neither holds
up the brokers, and no end of it is an end of theirs. One that ended is started again, and `up` says
so. It ends with `up`, however that ends: a private Ray does, and a child loses its input.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from posixpath import join
from typing import Any, Final, NamedTuple, Protocol

from wakelog.actors.deploy.plan import Plan
from wakelog.network.background import keep, log_failure
from wakelog.telemetry.logs import Log, logger

CHECK_SECONDS: Final = 1.0
STATE_SECONDS_MAX: Final = 5.0
END_SECONDS_MAX: Final = 2.0
"""How long a stop waits for the console: it has nothing to lose."""
PAUSE_SECONDS_MAX: Final = 30.0
SETTLED_SECONDS: Final = 5.0
"""A console that has run for so long works, and is started again at once."""
SAID_BYTES_MAX: Final = 4_096

AUDIT_NAME: Final = "console_audit.log"
"""Of the file of what was done by the console, beside the other logs."""

RUN_WORDS: Final = "wakelog.cli.console_process:run_words"

Say = Callable[[str], None]


class ConsoleState(NamedTuple):
    """What is known of a console. process_id: 0 if it has none; failure: "" if it works."""

    process_id: int
    failure: str = ""


class ConsoleProcess(Protocol):
    """Where a console runs; it is started again by itself."""

    async def start(self) -> None:
        """Start it."""

    async def state(self) -> ConsoleState:
        """Return what is known of it."""

    async def end(self) -> None:
        """End it for good."""


class ChildConsole:
    """A child process. words: of its command line."""

    def __init__(self, words: Sequence[str]) -> None:
        """Start nothing."""
        self._words = [sys.executable, "-m", "wakelog.cli.console_process", *words]
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._failure = ""
        self._began_seconds = 0.0
        self._has_begun = asyncio.Event()

    async def start(self) -> None:
        """Start it, again and again; return once it has a process."""
        self._keeping = keep(self._run_again, log_failure(logger(Log.BROKER), "console"))
        await self._has_begun.wait()

    async def state(self) -> ConsoleState:
        """Return its process of now."""
        is_steady = time.monotonic() - self._began_seconds > SETTLED_SECONDS
        process_id = self._process.pid if self._process is not None else 0
        return ConsoleState(process_id, "" if is_steady and process_id else self._failure)

    async def end(self) -> None:
        """End the process and wait for that."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _run_again(self) -> None:
        pause_seconds = CHECK_SECONDS
        while True:
            self._began_seconds = time.monotonic()
            process = self._process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in a terminal is for `up`
            )
            self._has_begun.set()
            said = await _last_bytes(process)
            await process.wait()
            self._process = None
            self._failure = last_line(said.decode(errors="replace"))
            is_steady = time.monotonic() - self._began_seconds > SETTLED_SECONDS
            pause_seconds = (
                CHECK_SECONDS if is_steady else min(PAUSE_SECONDS_MAX, 2 * pause_seconds)
            )
            await asyncio.sleep(pause_seconds)


async def _last_bytes(process: asyncio.subprocess.Process) -> bytes:
    """Return the end of what a process says until it ends."""
    assert process.stderr is not None
    said = b""
    while part := await process.stderr.read(SAID_BYTES_MAX):
        said = (said + part)[-SAID_BYTES_MAX:]
    return said


class ActorConsole:
    """An actor of this process's Ray, which starts it again."""

    def __init__(self, words: Sequence[str]) -> None:
        """Make nothing."""
        self._words = list(words)
        self._handle: Any = None

    async def start(self) -> None:
        """Make the actor."""
        self._handle = await asyncio.to_thread(self._make)

    def _make(self) -> Any:
        from wakelog.actors.ray import console_actor
        from wakelog.actors.ray.options import make_actor

        name, target = console_actor.NAME, console_actor.TARGET
        return make_actor(name, name, RUN_WORDS, self._words, target=target)

    async def state(self) -> ConsoleState:
        """Ask it; one that does not answer has no process."""
        try:
            async with asyncio.timeout(STATE_SECONDS_MAX):
                return ConsoleState(**await self._handle.state.remote())
        except Exception as error:
            logger(Log.BROKER).info("the console does not answer", error=repr(error)[:500])
            return ConsoleState(0)

    async def end(self) -> None:
        """End the actor for good."""
        from wakelog.actors.ray.options import end_actor

        if self._handle is not None:
            await asyncio.to_thread(end_actor, self._handle)


class ConsoleBeside:
    """Starts a console, says what becomes of it, and ends it; no failure of it is raised."""

    def __init__(self, process: ConsoleProcess) -> None:
        """Start nothing."""
        self._process = process
        self._watching: asyncio.Task[None] | None = None
        self._say: Say = lambda line: None
        self._is_started = False

    def begin(self, say: Say) -> None:
        """Start it, and say when it is another process, and why it does not work."""
        self._say = say
        self._watching = keep(self._watch, log_failure(logger(Log.BROKER), "console"))

    async def end(self) -> None:
        """End it, within END_SECONDS_MAX."""
        if self._watching is not None:
            self._watching.cancel()
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                await self._process.end()
        except Exception as error:
            logger(Log.BROKER).warning("the console did not end", error=repr(error)[:500])

    async def _watch(self) -> None:
        if not self._is_started:
            await self._process.start()
            self._is_started = True
        process_id, failure = 0, ""
        while True:
            state = await self._process.state()
            if state.process_id and process_id and state.process_id != process_id:
                self._say(f"console ended and runs again, as process {state.process_id}")
            if state.failure != failure:
                self._say(f"console: {state.failure}" if state.failure else "console works again")
            process_id, failure = state.process_id or process_id, state.failure
            await asyncio.sleep(CHECK_SECONDS)


def last_line(text: str) -> str:
    """Return the last line that has something, without the program's name."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("wakelog: ") if lines else ""


def console_words(plan: Plan, connection_flags: Sequence[str]) -> list[str]:
    """Return the command line of a deployment's console."""
    assert plan.console is not None
    words = ["console", "--name-server", plan.name_server_address]
    words += ["--port", str(plan.console.port), *connection_flags]
    words += ["--audit", join(plan.log_directory, AUDIT_NAME)]
    if plan.console.account_path:
        words += ["--account", plan.console.account_path]
    return words


def make_console_beside(plan: Plan, connection_flags: Sequence[str]) -> ConsoleBeside | None:
    """Return the console of a deployment, not started; None if it has none."""
    if plan.console is None or plan.console.why_not:
        return None
    words = console_words(plan, connection_flags)
    return ConsoleBeside(ChildConsole(words) if plan.is_local else ActorConsole(words))
