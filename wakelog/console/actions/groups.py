"""Actions on groups."""

from typing import Final

from wakelog.console.actions.action import Action

ACTIONS: Final[tuple[Action, ...]] = ()
