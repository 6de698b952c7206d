"""The kernels come when they are ready, and never make anyone wait."""

from collections.abc import Callable

import pytest

from wakelog.storage.bulk.columns import Columns
from wakelog.storage.bulk.loader import KernelLoader, Kernels, compile_kernels


def test_starts_once_and_answers_at_once(kernels: Kernels) -> None:
    waiting: list[Callable[[], None]] = []
    loader = KernelLoader(waiting.append, lambda: kernels)
    assert waiting == []
    assert loader.kernels() is None
    assert loader.kernels() is None
    assert len(waiting) == 1
    waiting[0]()
    assert loader.kernels() is kernels
    assert loader.failure == ""


def test_a_failure_leaves_the_plain_way(kernels: Kernels) -> None:
    def fail() -> Kernels:
        raise OSError("no cache directory")

    loader = KernelLoader(lambda work: work(), fail)
    assert loader.kernels() is None
    assert loader.failure == "OSError: no cache directory"
    assert loader.kernels() is None


def test_code_that_reads_otherwise_is_refused(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Columns, "requests", lambda columns: [])
    with pytest.raises(RuntimeError, match="another version"):
        compile_kernels()
