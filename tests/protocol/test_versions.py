"""The names of versions."""

import pytest

from wakelog.protocol.versions import version_name


@pytest.mark.parametrize(
    ("version", "name"),
    [(0, "V3_0_0"), (37, "V3_0_11"), (121, "V3_4_9"), (398, "V4_9_3_SNAPSHOT"), (399, "V4_9_3"),
     (479, "V5_3_3"), (611, "V5_9_9"), (612, "HIGHER_VERSION"), (9999, "HIGHER_VERSION")],
)  # fmt: skip
def test_a_version_has_the_name_of_4_9_3s_table(version: int, name: str) -> None:
    assert version_name(version) == name
