"""Every action of the console, by its name."""

from collections.abc import Mapping
from typing import Final

from wakelog.console.actions import brokers, groups, messages, topics
from wakelog.console.actions.action import Action

_FAMILIES: Final = (topics, groups, messages, brokers)
ACTIONS: Final[Mapping[str, Action]] = {
    action.name: action for family in _FAMILIES for action in family.ACTIONS
}
