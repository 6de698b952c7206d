"""The disk of these tests, where they need no other."""

from __future__ import annotations

import pytest

from tests.fakes.memory_file_system import MemoryFileSystem


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    fs.calls.clear()
    return fs
