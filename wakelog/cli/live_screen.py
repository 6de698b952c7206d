"""The output of `wakelog up` on a terminal: the step and the rates are redrawn in place."""

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from wakelog.cli.rates import BrokerRates
from wakelog.cli.screen import Screen, rate_cells


class LiveScreen(Screen):
    """Shows lines, steps and rates on a terminal."""

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


def rates_table(rows: Sequence[BrokerRates]) -> Table:
    """Return the table of all brokers."""
    table = Table("broker", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("messages in/s", "messages out/s", "held pulls", "dispatch lag"):
        table.add_column(title, justify="right")
    for rates in rows:
        cells = rate_cells(rates) if rates.answers else (rates.name, "does not answer")
        table.add_row(*map(escape, cells))
    return table
