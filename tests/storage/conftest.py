"""What the tests of the store share: a disk, where they need no other, and the functions."""

import pytest

from tests.fakes.columns import compiled_functions
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.compiled.columns import ScanFunctions


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    fs.calls.clear()
    return fs


@pytest.fixture(scope="session")
def functions() -> ScanFunctions:
    """Compile once for all tests."""
    return compiled_functions()
