"""The output of `wakelog up`: lines that stay, the step under way, and rates.

On a terminal the step and the rates are redrawn in place. In a pipe or a file every step is a line,
and the rates are a line each 10 s, if a value has changed.
"""

import time
from collections.abc import Sequence
from typing import TextIO

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


def plain_rates(rates: BrokerRates) -> str:
    """Return one broker's rates as a clause."""
    if not rates.answers:
        return f"{rates.name} does not answer"
    name, incoming, outgoing, held, lag = rate_cells(rates)
    return f"{name} in {incoming}/s out {outgoing}/s held {held} lag {lag}"


def rate_text(per_second: float | None) -> str:
    """Return a rate; below ten a tenth matters, because a message in 10 s is not nothing."""
    if per_second is None:
        return "-"
    return f"{per_second:.1f}" if 0 < per_second < 10 else f"{per_second:,.0f}"


def rate_cells(rates: BrokerRates) -> tuple[str, ...]:
    """Return the name and the numbers of a broker that answers, as text."""
    assert rates.held_count is not None and rates.lag_bytes is not None
    return (
        rates.name,
        rate_text(rates.in_per_second),
        rate_text(rates.out_per_second),
        f"{rates.held_count:,}",
        bytes_text(rates.lag_bytes),
    )
