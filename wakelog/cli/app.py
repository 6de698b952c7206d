"""The exit code of each command line: what it asks for is done, and an error is explained."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakelog.actors.errors import NotPossible
from wakelog.cli.command import PROCESS, Call, Command, Group, read
from wakelog.cli.program import COMPLETE_NAME, SIGNALLED
from wakelog.cli.root import program
from wakelog.cli.standard_streams import show_every_character, words_not_utf_8
from wakelog.cli.start import Process
from wakelog.cli.stop_signals import StopAsked, StopSignals

if TYPE_CHECKING:
    from wakelog.cli.up import DeploymentFactory


def run(
    arguments: Sequence[str], signals: StopSignals, make: "DeploymentFactory | None" = None
) -> int:
    """Run one command line and return the exit code."""
    show_every_character()
    try:
        _refuse_not_utf_8(arguments)
        outcome = _run(arguments, Process(signals, make))
        sys.stdout.flush()  # here an error can still be reported
        return outcome
    except (StopAsked, BaseExceptionGroup) as error:
        return _interrupted(error)
    except KeyboardInterrupt:  # Spark's own
        return _interrupted(StopAsked(signal.SIGINT))
    except BrokenPipeError:  # `| head` has what it wants
        _drop_output()
        return SIGNALLED + signal.SIGPIPE
    except Exception as error:
        if isinstance(error, OSError):
            _drop_output()
        return _fail(error)


def _run(arguments: Sequence[str], process: Process) -> int:
    """Do what the command line asks for; a signal interrupts what does not stop in order."""
    if shell := os.environ.get(COMPLETE_NAME):
        from wakelog.cli.completion import complete

        return complete(program, shell)
    asked = read(program, arguments)
    if isinstance(asked, Call) and asked.command.first == PROCESS:
        return int(asked._replace(first=process)())
    process.signals.interrupt()
    if isinstance(asked, Command | Group):
        from wakelog.cli.help_text import help_text

        print(help_text(asked))
        return 0
    return asked() or 0


def _interrupted(error: BaseException) -> int:
    """Say that a signal came; the task that it stopped may be one of a group."""
    if isinstance(error, BaseExceptionGroup):
        error = error.split(StopAsked)[0] or error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, StopAsked):
        return _fail(error)
    print("wakelog: interrupted. Run the same command to start again.", file=sys.stderr)
    return error.exit_code


def _fail(error: BaseException) -> int:
    from wakelog.cli.failures import explain

    failure = explain(error)
    print(failure.line, file=sys.stderr, flush=True)
    return failure.exit_code


def _refuse_not_utf_8(arguments: Sequence[str]) -> None:
    for word in words_not_utf_8(arguments):
        raise NotPossible(
            f"{word} on the command line is not UTF-8",
            "Give it in UTF-8; let the terminal use a locale such as C.UTF-8.",
        )


def _drop_output() -> None:
    """Drop what Python would write, and fail to write, when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
