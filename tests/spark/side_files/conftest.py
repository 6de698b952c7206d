"""A disk in memory with the store's root."""

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    return fs
