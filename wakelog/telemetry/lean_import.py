"""Imports without a package that the imported one can do without: a start is that much shorter.

Only a process of our own does this. In a user's process a package is as the user expects it.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator


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


def import_structlog() -> None:
    """Import structlog without rich, its way to show tracebacks in colour: no log has any."""
    with hidden("rich"):
        importlib.import_module("structlog")
