"""Whether the installed Ray is one that the fast start knows.

`wakelog up` uses the fast start only with a version of `TESTED_VERSIONS`, and only if every name of
`PRIVATE_NAMES` is there. Otherwise it starts Ray by `ray.init` and says why (see `plain_start`).
`docs/ray.md` has the times of both ways and the versions that were tried.
"""

import importlib
import inspect
from functools import reduce
from importlib import metadata
from importlib.util import find_spec
from typing import Final

from wakelog.actors.ray.fast_start.node import NODE_PARAMETERS
from wakelog.actors.ray.fast_start.ray_import import import_ray

TESTED_VERSIONS: Final = ("2.60.0",)

PRIVATE_NAMES: Final = (
    "ray._common.pydantic_compat:register_pydantic_serializers",
    "ray._private.arrow_serialization:_register_custom_datasets_serializers",
    "ray._private.function_manager:FunctionActorManager.compute_collision_identifier",
    "ray._private.node:Node.dead_processes",
    "ray._private.node:Node.get_gcs_client",
    "ray._private.node:Node.kill_all_processes",
    "ray._private.node:Node.get_session_dir_path",
    "ray._private.node:Node.node_id",
    "ray._private.node:Node.start_api_server",
    "ray._private.node:Node.start_ray_processes",
    "ray._private.node:wait_for_persisted_port",
    "ray._private.parameter:RayParams",
    "ray._private.ray_constants:ENABLE_RAY_CLUSTER",
    "ray._private.services:_build_python_executable_command_memory_profileable",
    "ray._private.ray_constants:RAY_ENABLE_UV_RUN_RUNTIME_ENV",
    "ray._private.services:_site_flags",
    "ray._private.services:find_node_ids",
    "ray._private.utils:get_dashboard_dependency_error",
    "ray._private.worker:print_to_stdstream",
    "ray._raylet:Config.initialize",
    "ray._raylet:setproctitle",
    "ray._raylet:wait_for_persisted_port",
    "ray.actor:_inject_tracing_into_class",
    "ray.util.serialization_addons:register_starlette_serializer",
)
"""What the modules of this folder use or replace, as `module:name`."""

PRIVATE_MODULES: Final = (
    "ray._common.usage.usage_lib",
    "ray._private.arrow_serialization",
    "ray._private.workers.default_worker",
    "ray.core.generated.usage_pb2",
)
"""What Ray imports in a worker when it is under way; the template of workers imports it before."""


def untested_version() -> str | None:
    """Return what to say of a Ray that is not in the table, None for one that is."""
    version = metadata.version("ray")
    if version in TESTED_VERSIONS:
        return None
    return f"the fast start is not tested with Ray {version}, but with {', '.join(TESTED_VERSIONS)}"


def missing_name() -> str | None:
    """Import Ray and return what to say of a private name that it lacks, None if it has all."""
    import_ray()
    for name in PRIVATE_NAMES:
        module, _, path = name.partition(":")
        try:
            reduce(getattr, path.split("."), importlib.import_module(module))
        except (ImportError, AttributeError):
            return _missing(name)
    for module in PRIVATE_MODULES:
        try:
            is_there = find_spec(module) is not None
        except ImportError:
            is_there = False
        if not is_there:
            return _missing(module)
    taken = inspect.signature(importlib.import_module("ray._private.parameter").RayParams)
    for name in NODE_PARAMETERS:
        if name not in taken.parameters:
            return _missing(f"RayParams({name}=)")
    return None


def _missing(name: str) -> str:
    return f"this Ray has no {name}, which the fast start needs"
