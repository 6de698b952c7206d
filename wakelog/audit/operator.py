"""The person at the command, as the tools see them: progress, moved folders, interruption.

`AuditRefused` is the error for a mistake of that person.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple


class AuditRefused(Exception):
    """The request cannot be done as it was given."""

    def __init__(self, cause: str, remedy: str) -> None:
        """Keep two clauses: what is wrong, and what to give instead."""
        super().__init__(f"{cause}; {remedy}")
        self.cause = cause
        self.remedy = remedy


class Move(NamedTuple):
    """A rename that was done; the reverse rename undoes it."""

    source: str
    target: str


class Operator:
    """Shows nothing and is never interrupted; `wakelog log` has its own."""

    def progress(
        self, title: str, total_bytes: int
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Show progress inside the block; the function takes the bytes done so far."""
        return nullcontext(lambda done_bytes: None)

    def report_moves(self, moves: Sequence[Move]) -> None:
        """Report renames at once, because the next step may fail."""

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Hold back signals until the block has ended."""
        return nullcontext()


SILENT = Operator()
