"""Pages of the traces of messages."""

from collections.abc import Sequence
from typing import Final

from wakelog.console.pages.site import PageRoute

PAGES: Final[Sequence[PageRoute]] = ()
