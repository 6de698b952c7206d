"""Pages of accounts and rules of the cluster; logging in to the console."""

from collections.abc import Sequence
from typing import Final

from wakelog.console.pages.site import PageRoute

PAGES: Final[Sequence[PageRoute]] = ()
