"""Keys that only `wakelog up` knows."""

import pytest

from wakelog.actors.deploy.up_keys import METRICS_NAMES, read_metrics_names
from wakelog.storage.errors import IllegalConfiguration


@pytest.mark.parametrize(
    ("text", "names"),
    [("exporter", ("exporter",)), (" v5, native,v5", ("v5", "native"))],
)
def test_names_of_metrics_are_chosen(text: str, names: tuple[str, ...]) -> None:
    assert read_metrics_names(text) == names


@pytest.mark.parametrize("text", ["", ",", "native,dashboard"])
def test_unknown_names_of_metrics_are_refused(text: str) -> None:
    with pytest.raises(IllegalConfiguration) as refused:
        read_metrics_names(text)
    assert (refused.value.key, refused.value.value) == (METRICS_NAMES, text)
    assert refused.value.accepted == "some of native, exporter, v5, with `,` between"
