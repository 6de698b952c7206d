"""The fixtures of the dispatchers' tests: the tools here run what those derive."""

from tests.dispatchers.conftest import compiled, fs, functions

__all__ = ["compiled", "fs", "functions"]
