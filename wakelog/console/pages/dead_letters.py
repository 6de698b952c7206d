"""Pages of what groups gave up: look, send again, export."""

from collections.abc import Sequence
from typing import Final

from wakelog.console.pages.site import PageRoute

PAGES: Final[Sequence[PageRoute]] = ()
