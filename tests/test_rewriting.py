"""Parts of the test modules are rewritten once, for all processes of a split run."""

from pathlib import Path

import pytest

from tests.rewriting import rewrite_part


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of four test modules, and what is none; a session may write bytecode."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    for name in ("conftest", "test_a", "test_b", "below/test_c", "below/fakes"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("def test_it(): assert 1 == 2\n")
    return tmp_path


def kept(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in folder.rglob("*.pyc"))


def test_each_part_has_modules_of_its_own(folder: Path, pytestconfig: pytest.Config) -> None:
    assert rewrite_part(pytestconfig, folder, 0, 2) == 2
    assert len(kept(folder)) == 2
    assert rewrite_part(pytestconfig, folder, 1, 2) == 2
    assert kept(folder) == ["conftest", "test_a", "test_b", "test_c"]


def test_what_is_kept_is_not_made_again(folder: Path, pytestconfig: pytest.Config) -> None:
    assert rewrite_part(pytestconfig, folder, 0, 1) == 4
    assert rewrite_part(pytestconfig, folder, 0, 1) == 0


def test_a_module_that_is_no_python_is_left_to_collection(
    folder: Path, pytestconfig: pytest.Config
) -> None:
    (folder / "test_a.py").write_text("def test_it(:\n")
    (folder / "test_b.py").write_bytes(b"\0")
    assert rewrite_part(pytestconfig, folder, 0, 1) == 2
    assert kept(folder) == ["conftest", "test_c"]


def test_nothing_is_kept_where_no_bytecode_is_written(
    folder: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert rewrite_part(pytestconfig, folder, 0, 1) == 0
    assert kept(folder) == []


def test_collection_takes_what_is_kept(
    pytestconfig: pytest.Config, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that pytest reads is the one that is made here, in its form."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    pytester.makepyfile(test_a="def test_it(): assert 1 == 2")
    assert rewrite_part(pytestconfig, pytester.path, 0, 1) == 1
    [made] = pytester.path.rglob("*.pyc")
    before = made.stat().st_mtime_ns, made.stat().st_ino
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    outcome.stdout.fnmatch_lines(["*assert 1 == 2*"])
    assert list(pytester.path.rglob("*.pyc")) == [made]
    assert (made.stat().st_mtime_ns, made.stat().st_ino) == before
