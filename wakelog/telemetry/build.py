"""Which wakelog runs, and which RocketMQ it stands in for: the labels of rocketmq_build_info."""

import functools
from importlib import metadata

COMPATIBLE_WITH = "4.9.3"
NOT_INSTALLED = "0.1.0.dev0"
"""The version of code without a distribution, as of a job's working directory: the release that it
leads to, and no number of commits."""


@functools.cache
def version() -> str:
    """Return the version of wakelog that runs."""
    try:
        return metadata.version("wakelog")
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


def build_facts() -> dict[str, str]:
    """Return what a deployment adds to its statistics under `build`."""
    return {"version": version(), "compat": COMPATIBLE_WITH}
