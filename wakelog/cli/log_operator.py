"""The person at `wakelog log`: a progress bar, moved folders printed at once, signals held back."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from wakelog.audit.operator import Move, Operator
from wakelog.cli.stop_signals import unbroken


class LogOperator(Operator):
    """Prints to this terminal; with `is_shown` false it only collects the moves."""

    def __init__(self, *, is_shown: bool) -> None:
        """Begin without moves."""
        self._is_shown = is_shown
        self.moves: list[list[str]] = []

    @contextmanager
    def progress(self, title: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """Show a bar on standard error if that is a terminal."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
        )
        hidden = not self._is_shown or not sys.stderr.isatty()
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
            task = bar.add_task(title, total=total_bytes)
            yield lambda done_bytes: bar.update(task, completed=done_bytes)

    def report_moves(self, moves: Sequence[Move]) -> None:
        """Print each move."""
        for source, target in moves:
            self.moves.append([source, target])
            if self._is_shown:
                print(f"moved  {source} -> {target}", flush=True)

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Hold back SIGINT, SIGTERM and SIGHUP."""
        return unbroken()
