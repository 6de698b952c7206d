"""A module that only names the compiled functions imports neither numba nor NumPy."""

import subprocess
import sys

import pytest


@pytest.mark.process
@pytest.mark.slow
def test_naming_the_kernels_brings_nothing_in() -> None:
    imported = (
        "import sys, wakelog.storage.kernels.kernels; print(*{'numba', 'numpy'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", imported]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == []
