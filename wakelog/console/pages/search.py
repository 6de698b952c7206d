"""Pages of topics, groups, keys, ids, hosts and commands by one word."""

from collections.abc import Sequence
from typing import Final

from wakelog.console.pages.site import PageRoute

PAGES: Final[Sequence[PageRoute]] = ()
