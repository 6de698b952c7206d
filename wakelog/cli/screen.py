"""The output of `wakelog up`: lines that stay, the step under way, and rates.

On a terminal the step and the rates are redrawn in place. In a pipe or a file every step is a line,
and the rates are a line each 10 s, if a value has changed.
"""

import os
import time
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from wakelog.cli.printer import Printer
from wakelog.cli.rates import BrokerRates
from wakelog.console.quantities import bytes_text


class Screen:
    """Shows lines, steps and rates in a pipe or a file; all but `close` return at once."""

    rates_seconds = 10.0
    """How often `show_rates` is to be called."""

    def __init__(self, out: TextIO) -> None:
        """Write to `out` in a thread."""
        self._out = out
        self._printer = Printer()

    def say(self, line: str) -> None:
        """Show a line that stays."""
        self._printer.put(lambda: print(line, file=self._out, flush=True))

    def step(self, text: str) -> None:
        """Show what is being done now: here as a line."""
        self.say(f"wakelog: {text}")

    def show_rates(self, rows: Sequence[BrokerRates], *, changed: bool) -> None:
        """Show the rates, here a line with the time, if a value has changed since the last call."""
        if changed:
            self.say(f"{time.strftime('%H:%M:%S')} {'; '.join(map(plain_rates, rows))}")

    def close(self) -> None:
        """Leave the terminal as it was, everything written."""
        self._printer.close()


class LiveScreen(Screen):
    """The same on a terminal."""

    rates_seconds = 1.0

    def __init__(self, out: TextIO) -> None:
        """Draw below what is on the terminal already."""
        super().__init__(out)
        self._live = Live(console=Console(file=out), auto_refresh=False, transient=True)
        self._printer.put(self._live.start)

    def say(self, line: str) -> None:
        """Write the line above what is redrawn."""
        # Text, so that brackets are no markup; unwrapped, so that a command can be copied.
        text = Text(line)
        self._printer.put(lambda: self._live.console.print(text, soft_wrap=True))

    def step(self, text: str) -> None:
        """Replace the step, or the rates, by this step."""
        self._printer.put(lambda: self._live.update(Text(f"{text} ...", "dim"), refresh=True))

    def show_rates(self, rows: Sequence[BrokerRates], *, changed: bool) -> None:
        """Redraw the table."""
        table = rates_table(rows)
        self._printer.put(lambda: self._live.update(table, refresh=True))

    def close(self) -> None:
        """Take the redrawn part away and show the cursor again."""
        self._printer.put(self._live.stop)
        super().close()


def make_screen(out: TextIO) -> Screen:
    """Return the screen that fits where output goes."""
    is_terminal = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return LiveScreen(out) if is_terminal else Screen(out)


def plain_rates(rates: BrokerRates) -> str:
    """Return one broker's rates as a clause."""
    if not rates.answers:
        return f"{rates.name} does not answer"
    name, incoming, outgoing, held, lag = _cells(rates)
    return f"{name} in {incoming}/s out {outgoing}/s held {held} lag {lag}"


def rates_table(rows: Sequence[BrokerRates]) -> Table:
    """Return the table of all brokers."""
    table = Table("broker", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("messages in/s", "messages out/s", "held pulls", "dispatch lag"):
        table.add_column(title, justify="right")
    for rates in rows:
        cells = _cells(rates) if rates.answers else (rates.name, "does not answer")
        table.add_row(*map(escape, cells))
    return table


def rate_text(per_second: float | None) -> str:
    """Return a rate; below ten a tenth matters, because a message in 10 s is not nothing."""
    if per_second is None:
        return "-"
    return f"{per_second:.1f}" if 0 < per_second < 10 else f"{per_second:,.0f}"


def _cells(rates: BrokerRates) -> tuple[str, ...]:
    assert rates.held_count is not None and rates.lag_bytes is not None
    return (
        rates.name,
        rate_text(rates.in_per_second),
        rate_text(rates.out_per_second),
        f"{rates.held_count:,}",
        bytes_text(rates.lag_bytes),
    )
