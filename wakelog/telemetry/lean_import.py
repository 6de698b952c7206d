"""Imports without a package that the imported one can do without: a start is that much shorter.

Only a process of our own does this. In a user's process a package is as the user expects it.
"""

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


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


@contextlib.contextmanager
def put_off(*packages: str) -> Iterator[None]:
    """Have what is imported meanwhile import packages when it uses them, unless they are there.

    It is given modules that read everything from the real one. `from package import name` is a use.
    """
    given = {name: _import_when_read(name) for name in packages if name not in sys.modules}
    sys.modules.update(given)
    try:
        yield
    finally:
        for name, module in given.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _import_when_read(package: str) -> ModuleType:
    given = ModuleType(package)

    def found(name: str) -> Any:
        if sys.modules.get(package) is given:
            del sys.modules[package]
        return getattr(importlib.import_module(package), name)

    given.__spec__ = ModuleSpec(package, loader=None)  # an import statement reads no more of it
    vars(given)["__getattr__"] = found
    return given


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: imports make none, and looking takes a sixth of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_structlog() -> None:
    """Import structlog without rich, its way to show tracebacks in colour: no log has any."""
    with hidden("rich"):
        importlib.import_module("structlog")
