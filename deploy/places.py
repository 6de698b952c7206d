"""Where the actors of a job find each other: by name in Ray, by files in memory beside it."""

import re
from pathlib import Path

import ray

from wakelog.actors.links.service_plan import memory_directory


def shared_directory() -> Path:
    """Return the directory of words and bells of the deployment in this Ray cluster.

    A cluster has one deployment, whose actors carry its names, so the cluster's address tells the
    directories of several on one machine apart.
    """
    address = re.sub(r"[^0-9A-Za-z.]", "-", ray.get_runtime_context().gcs_address)
    return Path(memory_directory(), f"wakelog-{address}")
