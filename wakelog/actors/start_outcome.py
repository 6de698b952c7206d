"""The words for an error of a store or a port, and the outcome of a start that an actor returns.

An outcome is builtins: an exception with arguments of its own does not survive Ray's pickling.

{"process_id": ..., ...}            it runs
{"failure": {"cause", "remedy"}}    it does not, and what to do
"""

import os
from posixpath import dirname
from typing import Any

from wakelog.actors.errors import DeploymentError, DeploymentFailed
from wakelog.network.errors import PortUnavailable, TlsRefused
from wakelog.storage.errors import DamagedStore, StoreError, StoreFull, StoreLocked, WrongStore

EXTRAS = {
    "plotly": ("plotly is not installed", "Install wakelog with its extra spark."),
    "pyarrow": ("pyarrow is not installed", "Install wakelog with its extra spark."),
    "ray": ("Ray is not installed", "Install wakelog with its extra ray, or start with --local."),
}
"""Modules that only an extra brings: cause and remedy without them."""


def started(**facts: Any) -> dict[str, Any]:
    """Return the outcome of a start that succeeded."""
    return {"process_id": os.getpid(), **facts}


def describe_failure(error: Exception) -> dict[str, Any]:
    """Return the outcome of a start that failed."""
    cause, remedy = cause_and_remedy(error) or (str(error), "See the logs.")
    return {"failure": {"cause": cause, "remedy": remedy}}


def raise_failure(outcome: dict[str, Any]) -> None:
    """Do nothing unless there is a failure. Raises: DeploymentFailed."""
    failure = outcome.get("failure")
    if failure is not None:
        raise DeploymentFailed(failure["cause"], failure["remedy"])


def cause_and_remedy(error: BaseException) -> tuple[str, str] | None:
    """Return a clause and a sentence for an error of a start, None for any other."""
    if isinstance(error, DeploymentError):
        return error.cause, error.remedy
    if isinstance(error, PortUnavailable):
        return f"cannot listen on {error.host}:{error.port}: {error.cause}", sentence(error.remedy)
    if isinstance(error, TlsRefused):
        cause, _, remedy = str(error).partition("; ")
        return cause, sentence(remedy or "name readable PEM files that belong together")
    if isinstance(error, StoreLocked):
        process = error.holder_pid
        holder = "another process" if process is None else f"process {process}"
        cause = f"the store {dirname(error.path)} is already running in {holder}"
        return cause, "Stop it first, or give another --store."
    if isinstance(error, WrongStore):
        reason, _, remedy = error.reason.partition("; ")
        cause = f"{error.path} is not this broker's store: {reason}"
        return cause, sentence(remedy or "give the --store of this broker")
    if isinstance(error, DamagedStore):
        return f"{error.path}: {error.reason}", sentence(error.remedy)
    if isinstance(error, StoreFull):
        return str(error), "Free some space, or give a --store on another disk."
    if isinstance(error, StoreError):
        return str(error), "Look at the disk, and at the permissions of the store."
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return EXTRAS.get(error.name.partition(".")[0])
    return None


def sentence(clause: str) -> str:
    """Return a clause as a sentence."""
    return clause[:1].upper() + clause[1:].removesuffix(".") + "."
