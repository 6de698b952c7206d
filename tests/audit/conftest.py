"""The fixtures of the dispatchers' tests: the tools here run what those derive."""

from tests.dispatchers.conftest import compiled, fs, kernels

__all__ = ["compiled", "fs", "kernels"]
