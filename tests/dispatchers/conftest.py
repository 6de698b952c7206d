"""The two forms of a batch, for tests that hold for both."""

from collections.abc import Iterator

import pytest

from tests.fakes.columns import compiled_functions
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.own_files import OwnFiles
from wakelog.compiled.columns import ScanFunctions


@pytest.fixture(scope="session")
def compiled() -> ScanFunctions:
    return compiled_functions()


@pytest.fixture(params=["plain", "bulk"])
def functions(request: pytest.FixtureRequest, compiled: ScanFunctions) -> ScanFunctions | None:
    return compiled if request.param == "bulk" else None


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    return fs


@pytest.fixture
def files() -> Iterator[OwnFiles]:
    """Yield the machine's files for a store that no object closes."""
    files = OwnFiles()
    yield files
    files.close_all()
