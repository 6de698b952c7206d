"""Standard input, output and error of this process, as a user or a service manager left them.

A number below 3 that is closed would be taken by the next file or socket that is opened. So a
segment of the log could have number 1, and get what a child prints.

This module is imported before the handler of signals is there: it imports nothing slow.
"""

import io
import os
import sys
from collections.abc import Sequence

STREAMS_COUNT = 3


def open_closed_streams() -> None:
    """Open the null device in place of each stream that is closed.

    `sys.stdin` stays None, because a command that reads it has to say that it is closed.
    """
    for number in range(STREAMS_COUNT):
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            assert taken == number
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")


def show_every_character() -> None:
    """Write a character that a terminal or a file cannot show as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def words_not_utf_8(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line that are not UTF-8: names and texts are sent as UTF-8."""
    found = []
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            found.append(word)
    return found
