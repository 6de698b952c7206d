"""How a job of wakelog joins its cluster, and where the files are that its actors share."""

import logging
import re
from pathlib import Path

import ray

from wakelog.actors.ray.options import NAMESPACE
from wakelog.actors.transport.service_plan import memory_directory


def connect() -> None:
    """Join the cluster that this job was submitted to. Raises: ConnectionError."""
    ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)


def shared_directory() -> Path:
    """Return the directory of watermarks and notifications of the deployment in this cluster.

    A cluster has one deployment. So the cluster's address makes the directory unique on a machine.
    """
    address = re.sub(r"[^0-9A-Za-z.]", "-", ray.get_runtime_context().gcs_address)
    return Path(memory_directory(), f"wakelog-{address}")
