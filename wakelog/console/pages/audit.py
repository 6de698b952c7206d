"""Pages of who did what by this console."""

from collections.abc import Sequence
from typing import Final

from wakelog.console.pages.site import PageRoute

PAGES: Final[Sequence[PageRoute]] = ()
