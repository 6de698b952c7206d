"""Errors of a deployment keep their two parts wherever they go."""

import pickle

import pytest

from wakelog.actors.errors import (
    DeploymentError,
    DeploymentFailed,
    NotPossible,
    PreflightRefused,
)


@pytest.mark.parametrize("kind", [NotPossible, PreflightRefused, DeploymentFailed])
def test_an_error_is_cause_and_remedy_also_on_the_other_side_of_a_process(
    kind: type[DeploymentError],
) -> None:
    error = pickle.loads(pickle.dumps(kind("the disk is full", "Free some.")))
    assert (type(error), error.cause, error.remedy) == (kind, "the disk is full", "Free some.")
    assert str(error) == "the disk is full. Free some."
