"""Kernels are used only if they read as the plain way does."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.storage.kernels import compilation
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.kernels.loader import compile_kernels


def test_code_that_reads_otherwise_is_refused(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Columns, "requests", lambda columns: [])
    with pytest.raises(RuntimeError, match="another version"):
        compile_kernels()


AGREEMENTS = {
    "scan_records": ("tests/storage/kernels/test_columns.py", "test_agrees_with_the_plain_scan"),
    "check_bodies": (
        "tests/storage/kernels/test_crc_kernel.py",
        "test_bodies_are_judged_as_the_plain_way_does",
    ),
    "crc_of_all": ("tests/storage/kernels/test_crc_kernel.py", "test_any_bytes"),
    "encode_groups": ("tests/storage/kernels/test_columns.py", "test_agrees_with_the_plain_scan"),
    "link_keys": (
        "tests/storage/index/test_index_append.py",
        "test_over_damaged_slots_columns_are_the_same_as_one_by_one",
    ),
}
"""Which test holds a kernel against plain Python over generated input, damaged input included."""


def test_every_kernel_is_held_against_plain_python() -> None:
    root = Path(__file__).resolve().parents[3]
    called = set()
    for path in (root / "wakelog" / "storage").rglob("*.py"):
        for function in functions(path):
            if decorators(function) in ("kernel", "making"):  # the others are inlined into these
                called.add(function.name)
    assert called == AGREEMENTS.keys() == set(Kernels._fields)
    for path_name, name in AGREEMENTS.values():
        (found,) = (one for one in functions(root / path_name) if one.name == name)
        assert "given(" in decorators(found)


def functions(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def decorators(function: ast.FunctionDef) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


ROOT = Path(__file__).resolve().parents[3]


def test_nothing_else_compiles() -> None:
    paths = sorted((ROOT / "wakelog").rglob("*.py"))
    users = [path for path in paths if "import njit" in path.read_text("utf-8")]
    assert users == [Path(compilation.__file__)]


@pytest.mark.process
@pytest.mark.slow
def test_naming_the_kernels_brings_nothing_in() -> None:
    imported = (
        "import sys, wakelog.storage.kernels.kernels; print(*{'numba', 'numpy'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", imported]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == []
