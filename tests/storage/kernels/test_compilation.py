"""All kernels are compiled alike: what one costs depends on it."""

from pathlib import Path

from wakelog.storage.kernels import compilation

ROOT = Path(__file__).resolve().parents[3]


def test_nothing_else_compiles() -> None:
    paths = sorted((ROOT / "wakelog").rglob("*.py"))
    users = [path for path in paths if "import njit" in path.read_text("utf-8")]
    assert users == [Path(compilation.__file__)]
