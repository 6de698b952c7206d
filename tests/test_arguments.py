"""No argument is accepted and then not used: public signatures beside the bodies."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.api_document import SECTIONS
from wakelog import client

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = sorted(
    {ROOT / "wakelog" / each.path for classes in SECTIONS.values() for each in classes}
    | {
        ROOT / "wakelog" / path
        for path in ("__init__.py", "client/sync.py", "frames.py", "spark/ray_data.py")
    }
    | {ROOT / "wakelog" / "actors" / "ray" / "attach.py"}
)


def unused(tree: ast.Module) -> Iterator[str]:
    """Yield the arguments of a module's functions and methods that their body does not read."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            if any(ast.unparse(base).startswith("Protocol") for base in node.bases):
                continue
            for method in node.body:
                yield from unused_of(method, skipped=1)
        yield from unused_of(node)


def unused_of(node: ast.stmt, *, skipped: int = 0) -> Iterator[str]:
    """Yield what one function does not read. skipped: self."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_declaration(node):
        return
    if node.name.startswith("_") and node.name != "__init__":
        return
    read = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    given = [*node.args.posonlyargs, *node.args.args][skipped:] + node.args.kwonlyargs
    for each in [*given, *filter(None, (node.args.vararg, node.args.kwarg))]:
        if each.arg not in read and not each.arg.startswith("_"):
            yield f"{node.lineno}: {node.name}({each.arg})"


def is_declaration(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function says only that subclasses have it."""
    return isinstance(node.body[-1], ast.Raise) and len(node.body) <= 2  # after its docstring


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_argument_is_read(path: Path) -> None:
    found = list(unused(ast.parse(path.read_text(encoding="utf-8"))))
    assert found == []


def test_an_argument_that_is_not_read_is_found() -> None:
    tree = ast.parse(
        "class A:\n    def f(self, a, *, b, **c):\n        return a, c\ndef g(d): return 1"
    )
    assert list(unused(tree)) == ["2: f(b)", "4: g(d)"]


def test_every_public_name_of_the_client_is_in_the_reference() -> None:
    listed = {each.name for classes in SECTIONS.values() for each in classes}
    assert set(client.__all__) <= listed
