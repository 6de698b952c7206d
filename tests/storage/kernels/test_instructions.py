"""What is written in the processor's words: the factors, and what stands in for it."""

from typing import Any

import numpy as np
import pytest
from numba import config, njit

from wakelog.storage.kernels import instructions
from wakelog.storage.kernels.instructions import (
    BLOCK_FACTORS,
    CAN_FOLD,
    LANE_FACTORS,
    LANES_AT_ONCE,
    fold_blocks,
    prefetch,
)


def test_factors_are_those_of_the_paper() -> None:
    assert BLOCK_FACTORS == (0x154442BD4, 0x1C6E41596)
    assert LANE_FACTORS == (0x1751997D0, 0x0CCAA009E)


def test_nothing_is_folded_where_nothing_is_compiled() -> None:
    settings: Any = config
    assert not (CAN_FOLD and settings.DISABLE_JIT)


def test_zeros_fold_to_zeros_and_a_start_does_not() -> None:
    if not CAN_FOLD:
        return

    @njit
    def fold(buffer, blocks, crc):  # type: ignore[no-untyped-def]
        return fold_blocks(buffer, 0, blocks, crc)

    zeros = np.zeros(256, dtype=np.uint8)
    assert fold(zeros, 4, np.uint64(0)) == (0, 0)
    assert fold(zeros, 4, np.uint64(1)) != (0, 0)


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_lanes_one_by_one_fold_as_lanes_at_once(
    monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    if not CAN_FOLD:
        return
    buffer = np.random.default_rng(blocks).integers(0, 256, 320, dtype=np.uint8)
    found = []
    for count in {1, LANES_AT_ONCE}:
        monkeypatch.setattr(instructions, "LANES_AT_ONCE", count)

        @njit
        def fold(buffer, blocks):  # type: ignore[no-untyped-def]
            return fold_blocks(buffer, 0, blocks, np.uint64(7))

        found.append(fold(buffer, blocks))
    assert len(set(found)) == 1


def test_a_prefetch_changes_nothing() -> None:
    numbers = np.arange(5, dtype=np.int32)

    @njit
    def ask(numbers):  # type: ignore[no-untyped-def]
        for place in range(len(numbers)):
            prefetch(numbers, np.uint64(place))

    ask(numbers)
    assert numbers.tolist() == [0, 1, 2, 3, 4]
