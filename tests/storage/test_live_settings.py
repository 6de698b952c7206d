"""Tests of the change of settings while a program runs, and of what a start makes of it."""

import msgspec
import pytest

from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.live_settings import (
    Change,
    LiveSettings,
    Rules,
    change_lines,
    hold_changes,
    read_changes,
    waiting_field,
)
from wakelog.storage.settings_text import Live, WithoutEffect, read_settings, settings_of


class Config(msgspec.Struct, rename="camel"):
    """A number that changes at once, and one that waits for a start."""

    quick: Live[int] = 1
    slow: int = 1

    def __post_init__(self) -> None:
        if self.quick > 9:
            raise IllegalConfiguration("quick", self.quick, "1 to 9")


IDLE = {"idle": WithoutEffect("5", "nothing reads it"), "flag": WithoutEffect("true", "as above")}


class Program:
    """A program with a configuration, over one file."""

    def __init__(self, quick: int = 1, *, changes: dict[str, Change] | None = None) -> None:
        self.config, self.others = Config(quick), dict[str, str]()
        rules = Rules(
            shown=lambda: {"idle": "5", "flag": "true"} | self.others | settings_of(self.config),
            make_settings=lambda texts: read_settings(Config, texts),
            without_effect=IDLE,
            fixed={"path": "it is a path"},
            unknown=lambda key: f"{key} is none",
        )
        self.live = LiveSettings(rules, [self.config], self.others, changes or {})

    def change(self, **given: str) -> str | None:
        return self.live.finish(self.live.begin(given)).remark

    def restarted(self, quick: int = 1) -> "Program":
        """Return the program that starts in a process of its own over the file."""
        found = Program(quick)
        found.live.load(self.live.snapshot()())
        return found


def test_a_live_key_changes_at_once_and_the_others_wait() -> None:
    program = Program()
    assert program.change(quick="2") is None
    assert program.change(slow="3", idle="6") == (
        "kept, and used after a restart: slow; kept, and without effect here: idle"
    )
    assert (program.config.quick, program.config.slow) == (2, 1)
    assert program.live.shown() == {"quick": "2", "slow": "3", "idle": "6", "flag": "true"}
    assert program.live.waiting() == {"slow": "1"}
    assert waiting_field(program.live.waiting()) == {"waitsForRestart": '{"slow":"1"}'}


def test_nothing_is_changed_before_it_is_saved() -> None:
    program = Program()
    update = program.live.begin({"quick": "2"})
    assert program.config.quick == 1
    assert read_changes(program.live.snapshot()()) == {"quick": Change("2", "1")}
    program.live.abandon(update)
    assert program.config.quick == 1
    assert program.live.shown()["quick"] == "1"
    assert read_changes(program.live.snapshot()()) == {}


def test_two_updates_under_way_keep_each_others_changes() -> None:
    program = Program()
    first, second = program.live.begin({"quick": "2"}), program.live.begin({"slow": "2"})
    program.live.abandon(first)
    assert read_changes(program.live.snapshot()()) == {"slow": Change("2", "1")}
    program.live.finish(second)
    assert program.live.shown()["slow"] == "2"


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("quick", "10", "1 to 9"),
        ("quick", "x", "a whole number"),
        ("idle", "x", "a whole number"),
        ("flag", "x", "true or false"),
        ("slow", "1\n2", "printable characters on one line"),
        ("path", "/x", "no value: it is a path"),
        ("none", "1", "another key: none is none"),
    ],
)
def test_one_bad_value_leaves_all_as_it_was(key: str, value: str, accepted: str) -> None:
    program = Program()
    with pytest.raises(IllegalConfiguration) as caught:
        program.live.begin({"quick": "2", key: value})
    assert (caught.value.key, caught.value.accepted) == (key, accepted)
    assert program.live.shown() == Program().live.shown()
    assert read_changes(program.live.snapshot()()) == {}


def test_a_value_that_a_key_has_is_no_change_even_of_a_fixed_one() -> None:
    program = Program()
    program.others["path"] = "/here"
    assert program.live.begin({"path": "/here", "quick": "1"}) == {}


def test_a_change_holds_until_a_start_gives_another_value() -> None:
    program = Program()
    program.change(quick="2")
    program.change(quick="3")
    assert program.restarted().config.quick == 3
    over = program.restarted(quick=4)
    assert over.config.quick == 4
    assert over.live.ended == {"quick": Change("3", "1")}
    assert read_changes(over.live.snapshot()()) == {}


def test_a_process_that_starts_again_uses_what_is_live_and_lets_the_rest_wait() -> None:
    program = Program()
    program.change(quick="2", slow="2")
    again = program.restarted()
    assert (again.config.quick, again.config.slow) == (2, 1)
    assert again.live.shown()["slow"] == "2"
    assert again.live.waiting() == {"slow": "1"}


def test_a_process_knows_what_its_plan_has_used_already() -> None:
    planned = {"quick": Change("2", "1"), "slow": Change("2", "1")}
    program = Program(2, changes=dict(planned))
    program.config.slow = 2
    program.change(quick="1", slow="3")
    again = Program(2, changes=dict(planned))
    again.config.slow = 2
    again.live.load(program.live.snapshot()())
    assert (again.config.quick, again.config.slow) == (1, 2)
    assert again.live.waiting() == {"slow": "2"}


def test_a_key_that_is_changed_back_is_as_the_start_gives_it() -> None:
    program = Program()
    program.change(quick="2")
    program.change(quick="1")
    assert program.restarted(quick=1).config.quick == 1
    assert change_lines("b", hold_changes(program.live.changes, {}, {"quick": "5"}), {}) == []


def test_a_start_says_what_it_keeps_and_what_it_ends() -> None:
    found = {"quick": Change("2", "1"), "slow": Change("2", "1")}
    given = {"quick": "1", "slow": "7"}
    lines = change_lines("broker-a", hold_changes(found, {}, given), given)
    assert lines == [
        "broker-a keeps what was changed while it ran: quick=2",
        "broker-a has slow=7 from this start: that ends the change of 1 to 2 while it ran",
    ]


@pytest.mark.parametrize("text", ["", "{", '{"changes":{"a":1}}', '{"changes":[]}'])
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Program().live.load(text)
