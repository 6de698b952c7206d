"""Import Ray without its support of pydantic, which no message of ours needs.

If pydantic is installed, Ray prepares its types for pickling, in every process and before the first
call: 0.2 s of CPU and 10 MB. So Ray's module for that is imported with pydantic hidden. It is
filled once something asks for more of it, as Ray Data does. A plug-in may import pydantic itself.

Before the first call Ray also imports pyarrow and Starlette, if they are installed, to prepare
types of theirs for pickling: 27 MB in each process. With `put_off_picklers` it waits for pyarrow
until that is imported otherwise, and leaves Starlette to Ray Serve.

Ray also imports an HTTP client, a checker of schemas and the widths of characters, a third of its
imports and as much CPU. With the first two it waits until it uses them, and measures tables of text
without the last, as it does where that is not installed.

Ray hashes the disassembly of each actor's class that it exports, and only keeps the hash. That
takes 10 ms of CPU a class, one after the other, before their actors start. So it is left out.

Ray wraps each method of an actor's class, and exports the wrappers, for traces that are off here.
That takes 10 ms of CPU a class as well, and some at each call. So methods are as they are.

A driver that joins changes a few more names of Ray.

Source: ray/_common/pydantic_compat.py, ray/util/serialization_addons.py,
ray._private.arrow_serialization, ray._private.function_manager, ray._private.worker,
ray._private.ray_constants (2.60).
"""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from wakelog.telemetry.lean_import import hidden, put_off

HAS_NODES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Whether Ray has nodes on several machines, which have to reach each other: "1" or "0"."""

_COMPATIBILITY: Final = "ray._common.pydantic_compat"
_USAGE: Final = "ray._common.usage.usage_lib"
"""Which every node and every driver imports."""

_USED_LATER: Final = ("jsonschema", "requests")
"""What Ray imports at once, for plug-ins of runtime environments and to ask clouds for TPUs."""


def import_ray() -> None:
    """Import Ray, with pydantic hidden unless it is imported already."""
    if "pydantic" in sys.modules or _COMPATIBILITY in sys.modules:
        importlib.import_module("ray")
        return
    try:
        with hidden("pydantic"), hidden("wcwidth"), put_off(*_USED_LATER):
            module = importlib.import_module(_COMPATIBILITY)
            importlib.import_module(_USAGE)
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


def put_off_picklers() -> None:
    """Have Ray prepare types of pyarrow for pickling once that is imported, and not before.

    Those of Starlette are for Ray Serve, which prepares them itself.
    """
    import ray._private.arrow_serialization as of_arrow
    from ray.util import serialization_addons as addons

    modules: tuple[Any, Any] = of_arrow, addons
    register = modules[0]._register_custom_datasets_serializers

    def register_later(context: Any) -> None:
        if "pyarrow" in sys.modules:
            register(context)
        else:
            sys.meta_path.insert(0, _AtImport("pyarrow", lambda: register(context)))

    modules[0]._register_custom_datasets_serializers = register_later
    modules[1].register_starlette_serializer = lambda context: None


class _AtImport(MetaPathFinder):
    """Calls something once a package was imported."""

    def __init__(self, package: str, call: Callable[[], None]) -> None:
        self._package = package
        self._call = call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the package as without this finder, which has done its work then."""
        if fullname != self._package:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(fullname)
        loader: Any = found.loader if found is not None else None
        if loader is not None:
            execute = loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                self._call()

            loader.exec_module = execute_and_call
        return found


def leave_out_disassembly() -> None:
    """Have Ray export classes under their names alone."""
    from ray._private.function_manager import FunctionActorManager

    manager: Any = FunctionActorManager
    manager.compute_collision_identifier = lambda _, exported: exported.__qualname__.encode()


def leave_out_traces() -> None:
    """Have Ray leave the methods of actors as they are."""
    import ray.actor

    actor: Any = ray.actor
    actor._inject_tracing_into_class = lambda _: None


@contextlib.contextmanager
def driver_of(node_id: str) -> Iterator[None]:
    """Have Ray join a node of this machine without looking through its processes for nodes.

    It then also looks for no `uv run` above this process: the workers' Python is that of the node.
    """
    import ray._private.ray_constants as constants
    import ray._private.services

    services: Any = ray._private.services
    before = services.find_node_ids, constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
    services.find_node_ids = lambda: {node_id}
    constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = False
    try:
        yield
    finally:
        services.find_node_ids, constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = before


def import_with(environment: Mapping[str, str]) -> None:
    """Let Ray see the variables that a cluster needs, whether or not it was imported before."""
    os.environ.update(environment)
    import_ray()
    leave_out_disassembly()
    leave_out_traces()
    put_off_picklers()
    import ray._private.ray_constants as constants
    import ray._private.worker as worker
    import ray._raylet as raylet

    # Both are read from the environment when Ray is imported, which may have been long ago.
    constants.ENABLE_RAY_CLUSTER = environment.get(HAS_NODES) == "1"
    config: Any = raylet
    config.Config.initialize("")
    # Ray prints a line for each worker that died: the Supervisor logs that.
    worker.print_to_stdstream = lambda *_, **__: None
