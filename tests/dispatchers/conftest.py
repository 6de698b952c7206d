"""The two forms of a batch, for tests that hold for both."""

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.loader import compile_kernels


@pytest.fixture(scope="session")
def compiled() -> Kernels:
    return compile_kernels()


@pytest.fixture(params=["plain", "bulk"])
def kernels(request: pytest.FixtureRequest, compiled: Kernels) -> Kernels | None:
    return compiled if request.param == "bulk" else None


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    return fs
