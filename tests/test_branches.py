"""The tests of storage and dispatchers take nearly every branch there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.branches import EXCLUDED, FOLDERS, PERCENT_MIN, Branches, by_folder, measure, pragmas


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(600)
def test_nearly_every_branch_is_taken(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    modules = measure(tmp_path)
    for folder, taken in by_folder(modules).items():
        said = f"branches of {folder}: {taken.percent:.1f} % of {taken.total} taken"
        record_property("said", said)
        assert taken.percent >= PERCENT_MIN, said
    below = {path: one for path, one in modules.items() if one.percent < PERCENT_MIN}
    for path, one in sorted(below.items()):
        record_property("said", f"  {path}: {one.taken} of {one.total}")


def test_every_exclusion_has_a_reason() -> None:
    assert set(pragmas()) == EXCLUDED.keys()
    assert all(len(reason) > 20 for reason in EXCLUDED.values())


def test_folders_are_added_up() -> None:
    modules = {f"{FOLDERS[0]}/a.py": Branches(3, 4), f"{FOLDERS[0]}/b/c.py": Branches(5, 6)}
    nothing = dict.fromkeys(FOLDERS[1:], Branches(0, 0))
    assert by_folder(modules) == {FOLDERS[0]: Branches(8, 10), **nothing}
    assert Branches(8, 10).percent == 80.0 and Branches(0, 0).percent == 100.0
