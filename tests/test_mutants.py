"""The patches of `tests/mutants` fit today's code, and the command names what survives."""

import ast
import shutil
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants.patches import DoesNotFit, Patch, all_patches, read_patch

ROOT = Path(__file__).resolve().parents[1]

PATCH = """\
It adds one.
Noticed by: tests/test_a.py -k "one or two"

--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 def a():
-    return 1
+    return 2

@@ -9,1 +9,2 @@
 b = 1
+b = 2
--- a/c.py
+++ b/c.py
@@ -1,1 +1,1 @@
-c = 1
+c = 2
"""


@pytest.mark.parametrize("patch", all_patches(), ids=lambda patch: patch.name)
def test_a_patch_fits_and_leaves_code_that_python_can_read(patch: Patch, tmp_path: Path) -> None:
    for name in {hunk.path for hunk in patch.hunks}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    for path, text in patch.plant(tmp_path).items():
        planted = path.read_text()
        assert planted != text
        if path.suffix == ".py":
            assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text))
    files = [word for word in patch.tests if word.startswith("tests/")]
    assert files and all((ROOT / word).exists() for word in files)


def test_a_patch_is_planted_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "one.patch").write_text(PATCH)
    patch = read_patch(tmp_path / "one.patch")
    assert (patch.meaning, patch.tests) == ("It adds one.", ("tests/test_a.py", "-k", "one or two"))
    a, c = tmp_path / "a.py", tmp_path / "c.py"
    a.write_text("def a():\n    return 1\n\nb = 1\n")
    c.write_text("d = 1\n")
    with pytest.raises(DoesNotFit, match=r"one: c\.py has its lines 0 times"):
        patch.plant(tmp_path)
    assert a.read_text() == "def a():\n    return 1\n\nb = 1\n"
    c.write_text("c = 1\n")
    assert patch.plant(tmp_path) == {a: "def a():\n    return 1\n\nb = 1\n", c: "c = 1\n"}
    assert (a.read_text(), c.read_text()) == ("def a():\n    return 2\n\nb = 1\nb = 2\n", "c = 2\n")


def test_a_patch_says_what_it_means_and_what_notices_it(tmp_path: Path) -> None:
    (tmp_path / "one.patch").write_text(PATCH.replace("Noticed by", "Seen by"))
    with pytest.raises(ValueError, match=r"one\.patch: what it means"):
        read_patch(tmp_path / "one.patch")


CODE = "def a() -> int:\n    return 1\n"
TEST = "from counted.a import a\n\n\ndef test_one() -> None:\n    assert a() {}\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("expected", "said", "code"),
    [
        ("== 1", "one: noticed by tests/test_a.py::test_one", 0),
        ("> 0", "one: SURVIVES: It adds one.", 1),
        ("== 1)", "one: tests/test_a.py", 1),
    ],
)
def test_what_nothing_notices_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    expected: str,
    said: str,
    code: int,
) -> None:
    """Tests that do not run notice nothing."""
    test = TEST.format(expected)
    files = {"counted/a.py": CODE, "tests/test_a.py": test}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "one.patch").write_text(
        "It adds one.\nNoticed by: tests/test_a.py\n\n--- a/counted/a.py\n+++ b/counted/a.py\n"
        "@@ -1,2 +1,2 @@\n def a() -> int:\n-    return 1\n+    return 2\n"
    )
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "COPIED", ("counted", "tests"))
    monkeypatch.setattr(command, "all_patches", lambda: [read_patch(tmp_path / "one.patch")])
    assert command.main([]) == code
    printed = capsys.readouterr().out
    assert said in printed and ("not noticed: one" in printed) == bool(code)
    assert (tmp_path / "counted/a.py").read_text() == CODE, "only a copy is changed"


def test_a_name_of_no_patch_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["none-such"]) == 1
    assert "none-such" in capsys.readouterr().err
