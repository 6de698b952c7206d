"""The kernels, compiled once for all tests below."""

import pytest

from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.loader import compile_kernels


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return compile_kernels()
