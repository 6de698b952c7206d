"""Steps: what they return, and what they raise."""

import pytest

from wakelog.protocol.steps import Steps, finish


def count(to: int) -> Steps[int]:
    for number in range(to):
        if number == 7:
            raise ValueError(number)
        yield
    return to


def test_all_steps_are_done_at_once() -> None:
    assert [finish(count(to)) for to in (0, 1, 5)] == [0, 1, 5]
    with pytest.raises(ValueError, match="7"):
        finish(count(10))
