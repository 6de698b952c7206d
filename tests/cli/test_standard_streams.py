"""Streams that are closed, and words that are not UTF-8."""

import subprocess
import sys

import pytest

from wakelog.cli.standard_streams import words_not_utf_8

OPENED = """
import os, sys
from wakelog.cli.standard_streams import open_closed_streams
open_closed_streams()
number = os.open("/dev/zero", os.O_RDONLY)
sys.exit(number if sys.stdout and sys.stderr else 1)
"""


@pytest.mark.process
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closed: str) -> None:
    words = ["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, OPENED]
    assert subprocess.run(words, check=False).returncode >= 3


def test_words_that_are_not_utf_8_are_found() -> None:
    assert words_not_utf_8(["up", "gr\u00fcn", "\udcff"]) == ["\udcff"]
