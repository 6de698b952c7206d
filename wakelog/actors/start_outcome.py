"""How a start ended, as builtins: an exception with arguments of its own does not survive Ray's
way.

{"process_id": ..., ...}            it runs
{"failure": {"cause", "remedy"}}    it does not, and what to do
"""

from __future__ import annotations

import os
from typing import Any

from wakelog.actors.errors import DeploymentFailed
from wakelog.network.errors import PortUnavailable
from wakelog.storage.errors import DamagedStore, StoreError, StoreFull, StoreLocked, WrongStore


def started(**facts: Any) -> dict[str, Any]:
    """Return what a start that went well answers."""
    return {"process_id": os.getpid(), **facts}


def describe_failure(error: Exception) -> dict[str, Any]:
    """Return what a start that failed answers."""
    return {"failure": {"cause": _cause(error), "remedy": _remedy(error)}}


def raise_failure(outcome: dict[str, Any]) -> None:
    """Do nothing unless there is a failure. Raises: DeploymentFailed."""
    failure = outcome.get("failure")
    if failure is not None:
        raise DeploymentFailed(failure["cause"], failure["remedy"])


def _cause(error: Exception) -> str:
    if isinstance(error, PortUnavailable):
        return f"port {error.port} of {error.host} cannot be had: {error.cause}"
    if isinstance(error, DamagedStore):
        return f"{error.path}: {error.reason}"
    return str(error)


def _remedy(error: Exception) -> str:
    if isinstance(error, PortUnavailable | DamagedStore):
        return f"{error.remedy[:1].upper()}{error.remedy[1:]}."
    if isinstance(error, StoreLocked):
        return "Stop the other broker, or give this one another --store."
    if isinstance(error, WrongStore):
        return "Give the directory that belongs to this broker."
    if isinstance(error, StoreFull):
        return "Free some space on that disk, or give --store a directory on another one."
    if isinstance(error, StoreError):
        return "See the store's log, and the state of the disk."
    return "See the logs."
