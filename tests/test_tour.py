"""The tour names functions that exist, and a send passes through few of them."""

import ast
import re

import pytest

from tests import tidy

DOCUMENT = tidy.ROOT / "docs" / "tour.md"
STEP = re.compile(r"`(wakelog/[\w/]+\.py)`:\s`(\w+(?:\.\w+)?)`")
SEND_FUNCTIONS_MAX = 10

TEXT = DOCUMENT.read_text(encoding="utf-8")
STEPS = sorted(set(STEP.findall(TEXT)))


def defined_names(path: str) -> set[str]:
    """Return the functions, and the methods as `Class.method`, that a module defines."""
    tree = ast.parse((tidy.ROOT / path).read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            names |= {f"{node.name}.{x.name}" for x in node.body if isinstance(x, functions)}
    return names


@pytest.mark.parametrize(("path", "name"), STEPS, ids=lambda value: value)
def test_a_step_names_a_function_that_exists(path: str, name: str) -> None:
    assert name in defined_names(path)


def test_a_send_passes_through_few_functions() -> None:
    section = TEXT.partition("## A message is sent")[2].partition("## Messages are sent together")[
        0
    ]
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert 10 <= len(STEP.findall("\n".join(table))) <= SEND_FUNCTIONS_MAX


def test_the_tour_has_a_way_and_a_crash() -> None:
    assert [line for line in TEXT.splitlines() if line.startswith("## ")] == [
        "## A message is sent",
        "## Messages are sent together",
        "## It becomes visible",
        "## It is consumed",
        "## A crash",
    ]
