"""Import Ray without its support of pydantic, which no message of ours needs.

If pydantic is installed, Ray prepares its types for pickling, in every process and before the first
call: 0.2 s of CPU and 10 MB. So Ray's module for that is imported with pydantic hidden. It is
filled once something asks for more of it, as Ray Data does. A plug-in may import pydantic itself.

Ray hashes the disassembly of each actor's class that it exports, and only keeps the hash. That
takes 10 ms of CPU a class, one after the other, before their actors start. So it is left out.

A driver that joins changes a few more names of Ray.

Source: ray/_common/pydantic_compat.py, ray._private.function_manager, ray._private.worker,
ray._private.ray_constants (2.60).
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

HAS_NODES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Whether Ray has nodes on several machines, which have to reach each other: "1" or "0"."""

_COMPATIBILITY: Final = "ray._common.pydantic_compat"


@contextlib.contextmanager
def hidden(package: str) -> Iterator[None]:
    """Let what is imported meanwhile do without a package that is not imported yet."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


def import_ray() -> None:
    """Import Ray, with pydantic hidden unless it is imported already."""
    if "pydantic" in sys.modules or _COMPATIBILITY in sys.modules:
        importlib.import_module("ray")
        return
    try:
        with hidden("pydantic"):
            module = importlib.import_module(_COMPATIBILITY)
    except ModuleNotFoundError:
        return  # the guard reports it
    _fill_on_demand(module)


def _fill_on_demand(module: ModuleType) -> None:
    """Leave in a module only the call that Ray makes early; import the rest when it is read."""

    def found(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        importlib.reload(module)
        return vars(module)[name]

    for name in [name for name in vars(module) if not name.startswith("__")]:
        delattr(module, name)
    vars(module)["register_pydantic_serializers"] = lambda context: None
    vars(module)["__getattr__"] = found


def leave_out_disassembly() -> None:
    """Have Ray export classes under their names alone."""
    from ray._private.function_manager import FunctionActorManager

    manager: Any = FunctionActorManager
    manager.compute_collision_identifier = lambda _, exported: exported.__qualname__.encode()


def import_with(environment: Mapping[str, str]) -> None:
    """Let Ray see the variables that a cluster needs, whether or not it was imported before."""
    os.environ.update(environment)
    import_ray()
    leave_out_disassembly()
    import ray._private.ray_constants as constants
    import ray._private.worker as worker
    import ray._raylet as raylet

    # Both are read from the environment when Ray is imported, which may have been long ago.
    constants.ENABLE_RAY_CLUSTER = environment.get(HAS_NODES) == "1"
    config: Any = raylet
    config.Config.initialize("")
    # Ray prints a line for each worker that died: the Supervisor logs that.
    worker.print_to_stdstream = lambda *_, **__: None
