"""What the tests of the store share: a disk, where they need no other, and the kernels."""

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.loader import compile_kernels


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    fs.calls.clear()
    return fs


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    """Compile once for all tests."""
    return compile_kernels()
