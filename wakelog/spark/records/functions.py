"""The functions over columns of this process: of the compiled library, else in plain Python."""

from typing import Final

from wakelog.compiled.columns import RowFunctions
from wakelog.compiled.library import CHOICE
from wakelog.spark.records import plain_columns

FUNCTIONS: Final[RowFunctions] = CHOICE.library or plain_columns
"""Of this process."""
