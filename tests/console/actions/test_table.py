"""Every action: its command is one that wakelog has, and its page is one that the console has."""

import inspect
import re
import shlex

import pytest

from wakelog.cli.root import ask_of
from wakelog.console.actions.action import Action, Field
from wakelog.console.actions.table import ACTIONS
from wakelog.console.pages.app import page_at

EVERY = pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS.keys())

EXAMPLES = {
    "id": "7F" * 16,
    "properties": "a=1",
    "account": "an-account",
    "secret": "its-secret",
    "topics": "orders=PUB|SUB",
    "groups": "billing=SUB",
}
"""Of fields that cannot be any word."""


def example(field: Field) -> str:
    if field.kind == "switch":
        return "true"
    if field.kind == "choice":
        return field.choices[0][0]
    if field.kind == "number":
        return field.value or str(field.minimum)
    return field.value or EXAMPLES.get(field.name, "x1")


@EVERY
def test_the_words_of_an_action_are_a_command_line(action: Action) -> None:
    values = {field.name: example(field) for field in action.fields}
    checked, wrong = action.checked(values)
    assert not wrong
    words = action.words(checked)
    assert callable(ask_of(words))
    shown = shlex.split(action.command(checked))
    assert shown[:2] == ["wakelog", words[0]]


@EVERY
def test_an_action_leads_back_to_a_page(action: Action) -> None:
    values = {field.name: example(field) for field in action.fields}
    back = action.page.format_map(values)
    assert page_at(back.partition("?")[0])[0] is not None, back


@EVERY
def test_names_and_texts_of_an_action_are_whole(action: Action) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", action.name)
    names = [field.name for field in action.fields]
    assert len(set(names)) == len(names)
    assert not action.typed or action.typed in names
    assert action.title[:1].isupper() and not action.title.endswith(".")
    assert inspect.iscoroutinefunction(action.preview) or action.preview is None


def test_a_change_is_mqadmin_s_command() -> None:
    values = {"broker": "b:1", "key": "fileReservedTime", "value": "48"}
    assert ACTIONS["change-setting"].command(values) == (
        "wakelog admin updateBrokerConfig -b b:1 -k fileReservedTime -v 48"
    )
