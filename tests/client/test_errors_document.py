"""docs/errors.md has every cause that the client raises."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ERRORS = {
    "ClientError": 0, "InvalidArgument": 0, "NotAcknowledged": 0, "NoReply": 0,
    "not_acknowledged": 0, "refused": 1,
}  # fmt: skip
"""By class or function, which argument is the cause."""
FRAGMENT_LENGTH_MIN = 8


def literals(node: ast.expr) -> Iterator[str]:
    """Yield the texts that stand in an expression, without what is put in between."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from literals(part)
    elif isinstance(node, ast.BinOp):
        yield from literals(node.left)


def causes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the longest text of each cause; a variable has that of its assignment."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given: dict[str, list[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                given.setdefault(node.targets[0].id, []).extend(literals(node.value))
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = ERRORS.get(node.func.id)
                if place is None or len(node.args) <= place:
                    continue
                cause = node.args[place]
                texts = given.get(cause.id, []) if isinstance(cause, ast.Name) else literals(cause)
                longest = max(texts, key=len, default="").strip(" :")
                if len(longest) >= FRAGMENT_LENGTH_MIN:
                    yield node.lineno, longest


@pytest.mark.parametrize(
    "path", sorted((ROOT / "wakelog" / "client").glob("*.py")), ids=lambda path: path.name
)
def test_every_cause_is_in_the_document(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    missing = [f"{line}: {text}" for line, text in causes(tree) if text not in PAGE]
    assert not missing


def test_causes_are_found_in_every_form() -> None:
    module = ast.parse(
        "def f():\n"
        "    cause = f'{a} is gone for good: {b}'\n"
        "    raise ClientError(cause, '')\n"
        "def g():\n"
        "    raise refused('b', f'it {a} said no again', r, {})\n"
    )
    assert list(causes(module)) == [(3, "is gone for good"), (5, "said no again")]
