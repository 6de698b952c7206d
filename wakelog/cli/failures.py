"""The line that a user reads for an error: cause, remedy and exit code.

The user gets one line on standard error, never a stack trace. An error that `explain` does
not name is a mistake in wakelog: its line says where it was raised, and the trace goes to the log.
"""

import errno
import traceback
from typing import Final

import msgspec

from wakelog.actors.errors import DeploymentError, NotPossible
from wakelog.actors.registers.register import RegisterError, RegisterRefused
from wakelog.actors.start_outcome import cause_and_remedy, sentence
from wakelog.audit.operator import AuditRefused
from wakelog.broker.replication.takeover import TakeoverRefused
from wakelog.cli.port_holder import holder_of
from wakelog.cli.program import FAILED, MISUSED
from wakelog.client.errors import (
    CHECK_NO_HOST,
    GIVE_SIGNER,
    GIVE_TLS,
    NAME_PEM,
    ClientError,
    InvalidArgument,
    in_words,
)
from wakelog.spark.errors import SourceError
from wakelog.spark.session import SparkMissing
from wakelog.storage.errors import IllegalConfiguration, StoreLocked

WORDS: Final = {
    NAME_PEM: "Name a readable PEM file with --tls-trust",
    GIVE_SIGNER: "give its signer by --tls-trust, or trust any by --tls-insecure",
    CHECK_NO_HOST: "give --tls-insecure",
    GIVE_TLS: "give --tls, or --tls-config where it wants a certificate",
}
"""By what a remedy of the client says, what it says on a command line."""


class Failure(msgspec.Struct, frozen=True):
    """An error as the user reads it, and the exit code."""

    cause: str
    remedy: str
    exit_code: int = FAILED
    is_ours: bool = False

    @property
    def line(self) -> str:
        """The line on standard error."""
        end = "" if self.cause.endswith("?") else "."
        lines = f"{self.cause}{end} {self.remedy}".splitlines()
        return f"wakelog: {' '.join(filter(None, map(str.strip, lines)))}"


def explain(error: BaseException) -> Failure:
    """Return the words and the exit code for an error."""
    described = cause_and_remedy(error)
    match error:
        case DeploymentError():
            exit_code = MISUSED if isinstance(error, NotPossible) else FAILED
            return Failure(error.cause, error.remedy, exit_code)
        case AuditRefused() | RegisterRefused() | TakeoverRefused():
            return Failure(error.cause, sentence(error.remedy), MISUSED)
        case ClientError() | RegisterError():
            exit_code = MISUSED if isinstance(error, InvalidArgument) else FAILED
            return Failure(error.cause, sentence(with_options(error.remedy)), exit_code)
        case IllegalConfiguration():
            cause = f"{error.key}={error.value} is not accepted"
            return Failure(cause, f"Give {error.accepted}.", MISUSED)
        case SparkMissing():
            cause, _, remedy = str(error).partition(": ")
            return Failure(cause, sentence(remedy))
        case SourceError():
            cause, _, remedy = str(error).partition("; ")
            return Failure(cause.removesuffix("."), sentence(remedy or "look at --store"))
        case StoreLocked(holder_pid=int(process_id)) if described is not None:
            holder = holder_of(process_id)
            cause = described[0].replace(f"process {process_id}", str(holder))
            return Failure(cause, f"{holder.how_to_stop}, or give another --store.")
        case OSError():
            return _operating_system(error)
    if described is not None:
        return Failure(*described)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return Failure(
        f"an error of wakelog's own, {type(error).__name__}: {error}{place}",
        "Please report it with the logs.",
        is_ours=True,
    )


def with_options(remedy: str) -> str:
    """Name the options of a command in place of the arguments of the Python client."""
    return in_words(remedy, WORDS)


def _operating_system(error: OSError) -> Failure:
    if error.filename is None and error.errno == errno.ENOSPC:  # every file of ours has a name
        return Failure("No space left on device", "Look where the output goes.")
    place = f"{error.filename}: " if error.filename else ""
    return Failure(f"{place}{error.strerror or error}", "Look at what it names, then start again.")
