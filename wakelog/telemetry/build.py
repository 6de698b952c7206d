"""Which wakelog runs, and which RocketMQ it stands in for: the labels of rocketmq_build_info."""

from importlib import metadata

COMPATIBLE_WITH = "4.9.3"
NOT_INSTALLED = "unknown"
"""The version of code that came as a job's working directory."""


def build_facts() -> dict[str, str]:
    """Return what a deployment adds to its statistics under `build`."""
    try:
        version = metadata.version("wakelog")
    except metadata.PackageNotFoundError:
        version = NOT_INSTALLED
    return {"version": version, "compat": COMPATIBLE_WITH}
