"""What a terminal gets, and what a pipe does."""

import io
import re

import pytest
from rich.console import Console

from wakelog.cli.live_screen import LiveScreen, rates_table
from wakelog.cli.rates import BrokerRates
from wakelog.cli.screen import Screen, plain_rates, rate_text
from wakelog.cli.up import make_screen

ROWS = [BrokerRates("broker-a", 1234.4, 0.0, 12, 2048), BrokerRates("broker-b")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_plain_screen_writes_a_line_for_each_thing() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.step("broker-a: opening the store")
    screen.say("ready [1]")
    screen.show_rates(ROWS, changed=False)
    screen.show_rates(ROWS, changed=True)
    screen.close()
    step, said, rates = out.getvalue().splitlines()
    assert (step, said) == ("wakelog: broker-a: opening the store", "ready [1]")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d broker-a in 1,234/s out 0/s held 12 lag 2 KiB; "
        r"broker-b does not answer",
        rates,
    )


def test_a_live_screen_keeps_lines_and_redraws_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    screen = LiveScreen(out)
    screen.step("broker-a: opening the store")
    screen.say("ready [1]")
    screen.show_rates(ROWS, changed=False)
    screen.close()
    text = out.getvalue()
    assert "broker-a: opening the store ..." in text
    assert "ready [1]" in text
    assert "messages in/s" in text and "1,234" in text
    assert "\x1b[?25h" in text[text.index("\x1b[?25l") :]  # the cursor is back


def test_before_the_first_rate_there_is_a_dash() -> None:
    rates = BrokerRates("broker-a", held_count=0, lag_bytes=0)
    assert plain_rates(rates) == "broker-a in -/s out -/s held 0 lag 0 B"


def test_the_table_has_a_row_for_each_broker() -> None:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as capture:
        console.print(rates_table(ROWS))
    title, first, second = capture.get().splitlines()
    assert re.split(r" {2,}", title.strip()) == [
        "broker",
        "messages in/s",
        "messages out/s",
        "held pulls",
        "dispatch lag",
    ]
    assert first.split() == ["broker-a", "1,234", "0", "12", "2", "KiB"]
    assert second.split() == ["broker-b", "does", "not", "answer"]


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(None, "-"), (0.0, "0"), (0.2, "0.2"), (9.99, "10.0"), (10.4, "10"), (1e6, "1,000,000")],
)
def test_small_rates_have_a_tenth(per_second: float | None, text: str) -> None:
    assert rate_text(per_second) == text


@pytest.mark.parametrize(
    ("out", "term", "kind"),
    [
        (io.StringIO(), "xterm", Screen),
        (Terminal(), "dumb", Screen),
        (Terminal(), "xterm", LiveScreen),
    ],
)
def test_only_a_terminal_that_can_redraw_gets_a_live_screen(
    out: io.StringIO, term: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    screen = make_screen(out)
    screen.close()
    assert type(screen) is kind
